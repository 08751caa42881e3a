//! Where the song's ticks lie among a chip's native frames.
//!
//! The rule: what happens at tick `t` takes effect before native frame ⌈t × rate / 44,100⌉, the
//! first one that does not begin before it. It is computed from the tick alone, in integers, so it
//! is exact however long the song and depends on no block.

use crate::chips::Rate;
use crate::format::TICKS_PER_SECOND;

/// Ticks and native frames, both counted from the song's start.
#[derive(Debug, Clone, Copy)]
pub struct Timebase {
    /// Native frames in `ticks` ticks, in lowest terms.
    frames: u64,
    ticks: u64,
}

impl Timebase {
    /// The timebase of a chip that makes native frames at `rate`.
    pub fn new(rate: Rate) -> Self {
        let (frames, ticks) = lowest_terms(rate.frames, rate.seconds * u64::from(TICKS_PER_SECOND));
        Timebase { frames, ticks }
    }

    /// The native frame before which something at `tick` takes effect.
    pub fn frame_of(self, tick: u64) -> u64 {
        // Narrow arithmetic does for all but songs of years.
        if let Some(frames) = tick.checked_mul(self.frames) {
            return frames.div_ceil(self.ticks);
        }
        let frames = u128::from(tick) * u128::from(self.frames);
        frames.div_ceil(u128::from(self.ticks)) as u64
    }

    /// The first tick that takes effect at native frame `end` or later.
    pub fn tick_from(self, end: u64) -> u64 {
        let Some(last) = end.checked_sub(1) else {
            return 0;
        };
        (u128::from(last) * u128::from(self.ticks) / u128::from(self.frames)) as u64 + 1
    }
}

/// `a / b` in lowest terms.
pub fn lowest_terms(a: u64, b: u64) -> (u64, u64) {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x, b / x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_directions_agree() {
        for (frames, seconds) in [(4_000_000, 64), (8_000_000, 144), (15_625, 1), (1_000, 3)] {
            let base = Timebase::new(Rate { frames, seconds });
            for tick in (0..3_000).chain(1 << 40..(1 << 40) + 500) {
                let frame = base.frame_of(tick);
                assert!(base.tick_from(frame) <= tick);
                assert!(base.tick_from(frame + 1) > tick);
            }
        }
    }
}
