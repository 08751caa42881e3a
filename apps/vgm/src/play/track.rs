//! A song under way: its player, copies of it at earlier moments, and which voices are heard.
//!
//! Invariant: what is played from a frame on has the same bits however it was come to.

use super::VOICES_MAX;
use crate::error::Result;
use crate::format::Song;
use crate::render::{Settings, SplitPlayer};

/// A copy of the player is kept every so many seconds: from one, a song is played hundreds of times
/// faster than it sounds, so any moment is at hand within some 10 ms.
const COPY_EVERY_SECONDS: u64 = 4;
/// Copies of one song, at most; beyond, going back takes longer.
const COPIES_MAX: usize = 512;

/// A song under way.
pub(super) struct Playing<'s> {
    player: SplitPlayer<'s>,
    /// In the order of their frames; the first is the start.
    copies: Vec<SplitPlayer<'s>>,
    copy_every: u64,
    /// Bit by voice.
    pub(super) heard: u64,
}

impl<'s> Playing<'s> {
    /// At the start, with all voices heard.
    pub(super) fn new(song: &'s Song, settings: &Settings) -> Result<Self> {
        let player = SplitPlayer::new(song, settings)?;
        Ok(Playing {
            copies: vec![player.clone()],
            player,
            copy_every: COPY_EVERY_SECONDS * u64::from(settings.sample_rate),
            heard: u64::MAX,
        })
    }

    pub(super) fn voices(&self) -> Vec<String> {
        self.player.names().map(String::from).collect()
    }

    pub(super) fn frames(&self) -> u64 {
        self.player.frames()
    }

    pub(super) fn frame(&self) -> u64 {
        self.player.frame()
    }

    /// The next frames; fewer at the end, then none.
    pub(super) fn fill(&mut self, levels: &mut [f32; VOICES_MAX], out: &mut [[f32; 2]]) -> usize {
        let frame = self.player.frame();
        let last = self.copies.last().map_or(0, SplitPlayer::frame);
        if frame >= last + self.copy_every && self.copies.len() < COPIES_MAX {
            self.copies.push(self.player.clone());
        }
        let heard = self.heard;
        self.player
            .fill_heard(|voice| heard >> voice.min(63) & 1 == 1, levels, out)
    }

    /// Goes to a frame, or to the end if there is none such; `scratch` is overwritten.
    pub(super) fn seek(&mut self, to: u64, scratch: &mut Vec<[f32; 2]>) {
        let to = to.min(self.frames());
        let after = self.copies.partition_point(|copy| copy.frame() <= to);
        let nearest = &self.copies[after - 1];
        // Going on from where it is costs less than from a copy further back.
        if self.frame() > to || self.frame() < nearest.frame() {
            self.player = nearest.clone();
        }
        while self.frame() < to {
            let left = usize::try_from(to - self.frame()).unwrap_or(usize::MAX);
            scratch.resize(left.min(4096), [0.0; 2]);
            if self.fill(&mut [0.0; VOICES_MAX], scratch) == 0 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::CARRIED;

    #[test]
    fn any_moment_sounds_the_same_however_it_was_come_to() {
        let settings = Settings {
            loops: 8,
            ..Settings::default()
        };
        for carried in CARRIED.iter().take(3) {
            let song = Song::parse(carried.packed.to_vec()).unwrap();
            let mut playing = Playing::new(&song, &settings).unwrap();
            let (mut scratch, mut levels) = (Vec::new(), [0.0; VOICES_MAX]);
            let mut out = vec![[0.0; 2]; 441];
            let mut at = |playing: &mut Playing<'_>, frame| {
                playing.seek(frame, &mut scratch);
                assert_eq!(playing.frame(), frame.min(playing.frames()));
                let made = playing.fill(&mut levels, &mut out);
                out[..made].to_vec()
            };
            let end = playing.frames();
            let first: Vec<_> = (0..4).map(|n| at(&mut playing, n * end / 5 + 7)).collect();
            for n in (0..4).rev() {
                let again = at(&mut playing, n * end / 5 + 7);
                assert!(first[n as usize] == again, "{}, {n}", carried.name);
            }
            assert!(at(&mut playing, end + 5).is_empty());
            assert!(playing.copies.len() > 1, "{}", carried.name);
        }
    }
}
