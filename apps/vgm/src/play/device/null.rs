//! A device without output that accepts sound in real time.

use std::io;
use std::time::Instant;

use super::Device;

/// The size of the buffer as a fraction of a second: 1/25 s, or 40 ms.
const HOLDS: u32 = 25;

/// A device that discards all frames, in real time.
#[derive(Debug)]
pub struct Null {
    rate: u32,
    /// The time at which the buffer was last empty.
    since: Instant,
    /// The number of frames that were accepted since then.
    taken: u64,
}

impl Null {
    /// Creates a device that plays `rate` frames per second.
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
