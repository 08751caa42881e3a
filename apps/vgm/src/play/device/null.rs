//! A device that plays nothing, at the pace of one that does.

use std::io;
use std::time::Instant;

use super::Device;

/// What it holds at most, in parts of a second: 40 ms.
const HOLDS: u32 = 25;

/// No device: takes the frames as their time comes.
#[derive(Debug)]
pub struct Null {
    rate: u32,
    /// When it was last empty, and how many frames it has taken since.
    since: Instant,
    taken: u64,
}

impl Null {
    /// One that plays so many frames a second.
    pub fn new(rate: u32) -> Self {
        Null {
            rate,
            since: Instant::now(),
            taken: 0,
        }
    }
}

impl Device for Null {
    fn write(&mut self, frames: &[[f32; 2]]) -> io::Result<usize> {
        let held = self.queued_frames();
        if held == 0 {
            (self.since, self.taken) = (Instant::now(), 0);
        }
        let room = (self.rate / HOLDS) as usize - held.min((self.rate / HOLDS) as usize);
        let taken = frames.len().min(room);
        self.taken += taken as u64;
        Ok(taken)
    }

    fn queued_frames(&mut self) -> usize {
        let played = self.since.elapsed().as_nanos() * u128::from(self.rate) / 1_000_000_000;
        u128::from(self.taken).saturating_sub(played) as usize
    }
}
