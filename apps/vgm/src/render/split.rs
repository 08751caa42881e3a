//! One song on several workers: each renders some of its parts, and the caller adds them up.
//!
//! Invariant: the bits are those of [`Player`](super::Player). Each part's frames are computed from
//! silence and added in the song's order, as the one player does.

use creel::Pool;

use super::{Buffers, Fade, Player, Settings};
use crate::chips::set::parts;
use crate::error::Result;
use crate::format::Song;

/// A song being played a part a worker.
pub struct SplitPlayer<'s> {
    voices: Vec<Soloist<'s>>,
    fade: Fade,
    frame: u64,
}

/// A part alone, with what it has just played.
struct Soloist<'s> {
    player: Player<'s>,
    buffers: Buffers,
    mix: Vec<[f32; 2]>,
}

impl<'s> SplitPlayer<'s> {
    /// A player at the start of `song`.
    ///
    /// # Errors
    ///
    /// As [`Player::new`](super::Player::new).
    pub fn new(song: &'s Song, settings: &Settings) -> Result<Self> {
        let parts = parts(song)?;
        let gain = settings.gain(song);
        let (frames, faded) = settings.frames(song);
        let soloist = |part| {
            let mut buffers = Buffers::default();
            let mut player = Player::of_parts(song, settings, &mut buffers, (vec![part], gain));
            // The whole is faded, not each part.
            player.fade = Fade::over_last(0, frames);
            Soloist {
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

    /// As [`Player::fill`](super::Player::fill), on the pool's workers; the longer `out`, the less
    /// their meetings cost.
    pub fn fill(&mut self, pool: &Pool, out: &mut [[f32; 2]]) -> usize {
        pool.each(&mut self.voices, |_, voice| {
            voice.mix.resize(out.len(), [0.0; 2]);
            let made = voice.player.fill(&mut voice.buffers, &mut voice.mix);
            voice.mix.truncate(made);
        });
        let made = self.voices[0].mix.len();
        let out = &mut out[..made];
        out.fill([0.0; 2]);
        for voice in &self.voices {
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
