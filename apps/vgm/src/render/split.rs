//! A song part by part: each is rendered alone, on a worker of a pool or one after the other, and
//! the caller adds them up.
//!
//! Invariant: the bits are those of [`Player`](super::Player) while all are heard. Each part's frames
//! are computed from silence and added in the song's order, as the one player does. A part that is
//! not heard plays on, so that it can be heard again at any time.

use creel::Pool;

use super::{Buffers, Fade, Player, Settings};
use crate::chips::set::{Part, parts};
use crate::chips::square_chip::SquareChip;
use crate::error::Result;
use crate::format::{Header, Instance, Song};

/// A song being played a part a worker.
#[derive(Clone)]
pub struct SplitPlayer<'s> {
    voices: Vec<Soloist<'s>>,
    fade: Fade,
    frame: u64,
}

/// A part alone, with what it has just played.
struct Soloist<'s> {
    name: String,
    player: Player<'s>,
    buffers: Buffers,
    mix: Vec<[f32; 2]>,
}

/// A copy does not carry the scratch memory, so that many can be kept.
impl Clone for Soloist<'_> {
    fn clone(&self) -> Self {
        Soloist {
            name: self.name.clone(),
            player: self.player.clone(),
            buffers: Buffers::default(),
            mix: Vec::new(),
        }
    }
}

impl Soloist<'_> {
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
            let name = name(&song.header, &part);
            let mut buffers = Buffers::default();
            let mut player = Player::of_parts(song, settings, &mut buffers, (vec![part], gain));
            // The whole is faded, not each part.
            player.fade = Fade::over_last(0, frames);
            Soloist {
                name,
                player,
                buffers,
                mix: Vec::new(),
            }
        };
        Ok(SplitPlayer {
            voices: parts.into_iter().map(soloist).collect(),
            fade: Fade::over_last(faded, frames),
            frame: 0,
        })
    }

    /// How many frames the song has in all.
    pub fn frames(&self) -> u64 {
        self.voices[0].player.frames()
    }

    /// The names of the parts, in the order in which they are known here.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.voices.iter().map(|voice| voice.name.as_str())
    }

    /// The frame that comes next.
    pub fn frame(&self) -> u64 {
        self.frame
    }

    /// As [`Player::fill`](super::Player::fill), on the pool's workers; the longer `out`, the less
    /// their meetings cost.
    pub fn fill(&mut self, pool: &Pool, out: &mut [[f32; 2]]) -> usize {
        pool.each(&mut self.voices, |_, voice| voice.play(out.len()));
        self.sum(|_| true, out)
    }

    /// The same on the calling thread, of the parts that `heard` says yes to; `levels` gets the
    /// loudest sample of each part, heard or not.
    pub fn fill_heard(
        &mut self,
        heard: impl Fn(usize) -> bool,
        levels: &mut [f32],
        out: &mut [[f32; 2]],
    ) -> usize {
        for voice in &mut self.voices {
            voice.play(out.len());
        }
        let loudest = |voice: &Soloist<'_>| {
            let samples = voice.mix.iter().flatten();
            samples.fold(0.0f32, |peak, sample| peak.max(sample.abs()))
        };
        for (level, voice) in levels.iter_mut().zip(&self.voices) {
            *level = loudest(voice);
        }
        self.sum(heard, out)
    }

    /// Overwrites the front of `out` with what was played; returns how many frames.
    fn sum(&mut self, heard: impl Fn(usize) -> bool, out: &mut [[f32; 2]]) -> usize {
        let made = self.voices[0].mix.len();
        let out = &mut out[..made];
        out.fill([0.0; 2]);
        let voices = self.voices.iter().enumerate();
        for (_, voice) in voices.filter(|(place, _)| heard(*place)) {
            for (sum, frame) in out.iter_mut().zip(&voice.mix) {
                sum[0] += frame[0];
                sum[1] += frame[1];
            }
        }
        self.fade.apply(self.frame, out);
        self.frame += made as u64;
        made
    }
}

/// What a part is called: its chip, which of two it is, and which half of one.
fn name(header: &Header, (instance, part): &(Instance, Part)) -> String {
    let second = if instance.second { " 2" } else { "" };
    let half = match part {
        Part::Squares(SquareChip::Ssg(..), ..) => " SSG",
        _ => "",
    };
    format!("{}{second}{half}", header.name(instance.chip))
}
