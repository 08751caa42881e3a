//! A song part by part: each is rendered alone, on a worker of a pool or one after the other, and
//! the caller adds them up.
//!
//! Invariant: the bits are those of [`Player`](super::Player) while all are heard. Each part's frames
//! are computed from silence and added in the song's order, as the one player does. A voice that is
//! not heard plays on, so that it can be heard again at any time.

use creel::Pool;

use super::{Buffers, Fade, Player, Settings, TEMPO};
use crate::chips::factory::{Part, parts};
use crate::chips::voices;
use crate::error::Result;
use crate::format::{Header, Instance, Song};

/// A song being played a part a worker.
#[derive(Clone)]
pub struct SplitPlayer<'s> {
    parts: Vec<PartPlayer<'s>>,
    frames: u64,
    fade: Fade,
}

/// How many frames ahead [`SplitPlayer::render_voice`] listens.
pub const LOOKAHEAD: usize = 64;

/// What can be heard alone: a voice of a chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// Whose it is.
    pub chip: Instance,
    /// Which of its voices, counted from 0.
    pub voice: u8,
}

impl Lane {
    /// Its chip, which of two that is, and the voice.
    pub fn name(&self, header: &Header) -> String {
        let second = if self.chip.second { " 2" } else { "" };
        let chip = header.name(self.chip.chip);
        if voices::count(self.chip.chip) == 1 {
            return format!("{chip}{second}");
        }
        let voice = voices::name(self.chip.chip, self.voice);
        format!("{chip}{second} {voice}")
    }
}

/// A part alone, with what it has just played.
struct PartPlayer<'s> {
    chip: Instance,
    /// Which of the chip's voices it makes, and which of them are heard, a bit each.
    voices: u64,
    heard: u64,
    /// What its chip was told of that: where nothing is heard it need not know.
    voice_mask: u64,
    player: Player<'s>,
    buffers: Buffers,
    mix: Vec<[f32; 2]>,
}

/// A copy does not carry the scratch memory, so that many can be kept.
impl Clone for PartPlayer<'_> {
    fn clone(&self) -> Self {
        PartPlayer {
            chip: self.chip,
            voices: self.voices,
            heard: self.heard,
            voice_mask: self.voice_mask,
            player: self.player.clone(),
            buffers: Buffers::default(),
            mix: Vec::new(),
        }
    }
}

impl PartPlayer<'_> {
    /// Plays the next `frames` frames into its own memory, or fewer at the end.
    fn play(&mut self, frames: usize) {
        self.mix.resize(frames, [0.0; 2]);
        let made = self.player.fill(&mut self.buffers, &mut self.mix);
        self.mix.truncate(made);
    }
}

impl<'s> SplitPlayer<'s> {
    /// A player at the start of `song`.
    ///
    /// # Errors
    ///
    /// As [`Player::new`](super::Player::new).
    pub fn new(song: &'s Song, settings: &Settings) -> Result<Self> {
        let parts = settings.chips.of(parts(song)?)?;
        let gain = settings.gain(song);
        let (frames, faded) = settings.frames(song);
        let soloist = |part: (Instance, Part)| {
            let (chip, voices) = (part.0, part.1.voices(part.0.chip));
            let mut buffers = Buffers::default();
            let mut player = Player::of_parts(song, settings, &mut buffers, (vec![part], gain));
            // The whole is faded, not each part.
            player.fade = Fade::over_last(0, frames);
            PartPlayer {
                chip,
                voices,
                heard: voices,
                voice_mask: voices,
                player,
                buffers,
                mix: Vec::new(),
            }
        };
        Ok(SplitPlayer {
            parts: parts.into_iter().map(soloist).collect(),
            frames,
            fade: Fade::over_last(faded, frames),
        })
    }

    /// How many frames the song has in all, in its own tempo.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// All voices, in the order of the song's chips, those of a chip in the order of their numbers.
    pub fn lanes(&self) -> Vec<Lane> {
        let (mut lanes, mut chips) = (Vec::new(), Vec::new());
        for part in &self.parts {
            if !chips.contains(&part.chip) {
                chips.push(part.chip);
            }
            for voice in 0..voices::count(part.chip.chip) {
                let lane = Lane {
                    chip: part.chip,
                    voice,
                };
                // Two parts may make a voice together.
                if part.voices >> voice & 1 == 1 && !lanes.contains(&lane) {
                    lanes.push(lane);
                }
            }
        }
        lanes.sort_by_key(|lane| {
            let chip = chips.iter().position(|chip| *chip == lane.chip);
            (chip, lane.voice)
        });
        lanes
    }

    /// The song's frame that comes next.
    pub fn frame(&self) -> u64 {
        self.parts[0].player.frame
    }

    /// Lets those voices alone be heard, from the next frame on, that `heard` says yes to. The
    /// settings must be [live](crate::chips::selection::Selection::live).
    pub fn set_voices(&mut self, heard: impl Fn(Lane) -> bool) {
        for part in &mut self.parts {
            let of_voice = |voice: u8| {
                let chip = part.chip;
                u64::from(heard(Lane { chip, voice })) << voice
            };
            let all = (0..voices::count(part.chip.chip)).map(of_voice);
            let heard = all.fold(0, |all, voice| all | voice) & part.voices;
            part.heard = heard;
            if heard != part.voice_mask && heard != 0 {
                part.voice_mask = heard;
                part.player.set_voice_mask(heard);
            }
        }
    }

    /// Lets the song go by faster by this factor from the next frame on, in thousandths, 1 to
    /// 100,000; it sounds as high as ever.
    pub fn set_tempo(&mut self, tempo: u32) {
        for part in &mut self.parts {
            if part.player.tempo != tempo {
                part.player.set_tempo(tempo);
            }
        }
    }

    /// Plays the song's loop as often as these settings say, from now on; the song is the one that
    /// this is a player of.
    pub fn set_length(&mut self, song: &Song, settings: &Settings) {
        let (frames, faded) = settings.frames(song);
        self.fade = Fade::over_last(faded, frames);
        for part in &mut self.parts {
            part.player.frames = frames;
            part.player.fade = Fade::over_last(0, frames);
        }
    }

    /// What a voice alone would sound soon, left and right together, without going on: overwrites the
    /// front of `out`, and returns how many frames. The first is that after the next [`LEAD`]: until
    /// then what all voices have sounded is still on its way through filters.
    pub fn render_voice(&self, lane: Lane, scratch: &mut Scratch, out: &mut [f32]) -> usize {
        out.fill(0.0);
        let mut most = 0;
        let makes =
            |part: &&PartPlayer<'_>| part.chip == lane.chip && part.voices >> lane.voice & 1 == 1;
        for part in self.parts.iter().filter(makes) {
            let mut alone = part.player.clone();
            alone.set_voice_mask(1 << lane.voice);
            scratch.mix.resize(LOOKAHEAD + out.len(), [0.0; 2]);
            let made = alone.fill(&mut scratch.buffers, &mut scratch.mix);
            let heard = scratch.mix[..made].get(LOOKAHEAD..).unwrap_or(&[]);
            for (out, frame) in out.iter_mut().zip(heard) {
                *out += (frame[0] + frame[1]) * 0.5;
            }
            most = most.max(heard.len());
        }
        most
    }

    /// As [`Player::fill`](super::Player::fill), on the pool's workers; the longer `out`, the less
    /// their meetings cost.
    pub fn fill(&mut self, pool: &Pool, out: &mut [[f32; 2]]) -> usize {
        pool.for_each(&mut self.parts, |part| part.play(out.len()));
        self.sum(out)
    }

    /// The same on the calling thread.
    pub fn fill_here(&mut self, out: &mut [[f32; 2]]) -> usize {
        for part in &mut self.parts {
            part.play(out.len());
        }
        self.sum(out)
    }

    /// Overwrites the front of `out` with what was played; returns how many frames.
    fn sum(&mut self, out: &mut [[f32; 2]]) -> usize {
        let made = self.parts[0].mix.len();
        let out = &mut out[..made];
        out.fill([0.0; 2]);
        for part in self.parts.iter().filter(|part| part.heard != 0) {
            for (sum, frame) in out.iter_mut().zip(&part.mix) {
                sum[0] += frame[0];
                sum[1] += frame[1];
            }
        }
        let player = &self.parts[0].player;
        let before = if player.tempo == TEMPO {
            player.frame - made as u64
        } else {
            player
                .frame
                .saturating_sub(made as u64 * u64::from(player.tempo) / 1000)
        };
        self.fade.apply(before, out);
        made
    }
}

/// Scratch memory of [`SplitPlayer::render_voice`].
#[derive(Default)]
pub struct Scratch {
    buffers: Buffers,
    mix: Vec<[f32; 2]>,
}
