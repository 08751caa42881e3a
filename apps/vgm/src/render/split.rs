//! Renders the parts of a song separately, on the workers of a pool or one after another, and adds
//! them up.
//!
//! Invariant: as long as no voice is muted, the samples are the same bits as those of
//! [`Player`](super::Player). We render each part on its own and add the parts in the order of the
//! song, as the player does. A muted part continues to play, so that it can be unmuted at any time.

use creel::Pool;

use super::{Buffers, Fade, Player, Settings, TEMPO};
use crate::chips::factory::{Part, parts};
use crate::chips::voices;
use crate::error::Result;
use crate::format::{Header, Instance, Song};

/// A playing song whose parts are rendered separately.
#[derive(Clone)]
pub struct SplitPlayer<'s> {
    parts: Vec<PartPlayer<'s>>,
    frames: u64,
    fade: Fade,
}

/// The number of frames that [`SplitPlayer::render_voice`] skips.
pub const LOOKAHEAD: usize = 64;

/// A voice of a chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// The chip.
    pub chip: Instance,
    /// The voice, from 0.
    pub voice: u8,
}

impl Lane {
    /// Returns the name of the chip and the voice.
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

/// The player of one part, with its latest frames.
struct PartPlayer<'s> {
    chip: Instance,
    /// The voices of the chip that this part plays, one bit per voice.
    voices: u64,
    /// The unmuted voices among them.
    heard: u64,
    /// The voices that are unmuted in the chip itself. If all voices are muted, we do not update
    /// this mask. We leave the whole part out of the sum instead.
    voice_mask: u64,
    player: Player<'s>,
    buffers: Buffers,
    mix: Vec<[f32; 2]>,
}

/// A copy does not include the scratch memory, because the player keeps many copies.
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
    /// Renders the next `frames` frames to `mix`, or fewer at the end.
    fn play(&mut self, frames: usize) {
        self.mix.resize(frames, [0.0; 2]);
        let made = self.player.fill(&mut self.buffers, &mut self.mix);
        self.mix.truncate(made);
    }
}

impl<'s> SplitPlayer<'s> {
    /// Creates a player at the start of `song`.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Player::new`](super::Player::new).
    pub fn new(song: &'s Song, settings: &Settings) -> Result<Self> {
        let parts = settings.chips.of(parts(song)?)?;
        let gain = settings.gain(song);
        let (frames, faded) = settings.frames(song);
        let soloist = |part: (Instance, Part)| {
            let (chip, voices) = (part.0, part.1.voices(part.0.chip));
            let mut buffers = Buffers::default();
            let mut player = Player::of_parts(song, settings, &mut buffers, (vec![part], gain));
            // We fade the sum of the parts, and not each part.
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

    /// Returns the number of frames of the song at its original tempo.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns all voices in the order of the chips of the song. The voices of a chip are in the
    /// order of their numbers.
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
                // Two parts may contribute to the same voice.
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

    /// Returns the next frame of the song.
    pub fn frame(&self) -> u64 {
        self.parts[0].player.frame
    }

    /// Unmutes the voices for which `heard` returns true and mutes all others, from the next frame
    /// on. The settings must be [live](crate::chips::selection::Selection::live).
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

    /// Sets the tempo from the next frame on, in thousandths from 1 to 100,000. The pitch does not
    /// change.
    pub fn set_tempo(&mut self, tempo: u32) {
        for part in &mut self.parts {
            if part.player.tempo != tempo {
                part.player.set_tempo(tempo);
            }
        }
    }

    /// Sets the number of loops and the fade from the settings. `song` must be the song of this
    /// player.
    pub fn set_length(&mut self, song: &Song, settings: &Settings) {
        let (frames, faded) = settings.frames(song);
        self.fade = Fade::over_last(faded, frames);
        for part in &mut self.parts {
            part.player.frames = frames;
            part.player.fade = Fade::over_last(0, frames);
        }
    }

    /// Renders the next sound of a single voice without advancing this player. It overwrites the
    /// beginning of `out` with the mean of left and right, and returns the number of frames.
    ///
    /// It skips the next [`LOOKAHEAD`] frames, because until then the filters still contain the
    /// sound of all voices.
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

    /// Renders like [`Player::fill`](super::Player::fill), but on the workers of the pool. A longer
    /// `out` reduces the cost of synchronizing them.
    pub fn fill(&mut self, pool: &Pool, out: &mut [[f32; 2]]) -> usize {
        pool.for_each(&mut self.parts, |part| part.play(out.len()));
        self.sum(out)
    }

    /// Renders like [`fill`](Self::fill), but on the calling thread.
    pub fn fill_here(&mut self, out: &mut [[f32; 2]]) -> usize {
        for part in &mut self.parts {
            part.play(out.len());
        }
        self.sum(out)
    }

    /// Overwrites the beginning of `out` with the sum of the unmuted parts, and applies the
    /// fade-out to it. Returns the number of frames.
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

/// The scratch memory of [`SplitPlayer::render_voice`].
#[derive(Default)]
pub struct Scratch {
    buffers: Buffers,
    mix: Vec<[f32; 2]>,
}
