//! Converts the ticks of a song to native frames of a chip.
//!
//! An event at tick `t` takes effect before native frame ⌈t × rate / 44,100⌉. This is the first
//! frame that does not begin before the tick. We compute it from the tick alone, in integers.
//! Therefore, it is exact for songs of any length, and does not depend on blocks.
//!
//! A change of the tempo takes effect at a native frame. From there, the same rule applies with the
//! new tempo, counted from that frame.

use crate::chips::Rate;
use crate::format::TICKS_PER_SECOND;

/// The relation between ticks and native frames, both counted from the start of the song.
#[derive(Debug, Clone, Copy)]
pub struct Timebase {
    /// The number of native frames in `ticks` ticks, in lowest terms.
    frames: u64,
    ticks: u64,
    rate: Rate,
    /// The tick and the native frame from which this relation applies.
    from: (u64, u64),
}

impl Timebase {
    /// Creates the timebase of a chip that renders native frames at `rate`.
    pub fn new(rate: Rate) -> Self {
        let (frames, ticks) = lowest_terms(rate.frames, rate.seconds * u64::from(TICKS_PER_SECOND));
        Timebase {
            frames,
            ticks,
            rate,
            from: (0, 0),
        }
    }

    /// Returns the timebase from native frame `frame` on, at which a tick becomes shorter by the
    /// factor `tempo`, in thousandths. `tempo` must be at least 1.
    pub fn at_tempo(self, frame: u64, tempo: u32) -> Self {
        let ticks = self.rate.seconds * u64::from(TICKS_PER_SECOND) * u64::from(tempo);
        let (frames, ticks) = lowest_terms(self.rate.frames * 1000, ticks);
        Timebase {
            frames,
            ticks,
            rate: self.rate,
            from: (self.tick_from(frame), frame),
        }
    }

    /// Returns the native frame before which an event at `tick` takes effect.
    pub fn frame_of(self, tick: u64) -> u64 {
        let tick = tick.saturating_sub(self.from.0);
        // 64 bits are enough, except for songs that last for days.
        if let Some(frames) = tick.checked_mul(self.frames) {
            return self.from.1 + frames.div_ceil(self.ticks);
        }
        let frames = u128::from(tick) * u128::from(self.frames);
        self.from.1 + frames.div_ceil(u128::from(self.ticks)) as u64
    }

    /// Returns the first tick that takes effect at native frame `end` or later.
    pub fn tick_from(self, end: u64) -> u64 {
        let Some(last) = end.checked_sub(self.from.1 + 1) else {
            return self.from.0;
        };
        let ticks = u128::from(last) * u128::from(self.ticks) / u128::from(self.frames);
        self.from.0 + ticks as u64 + 1
    }
}

/// Converts a sequence of non-decreasing ticks to frames. It uses the previous result, which is
/// faster than [`Timebase::frame_of`].
#[derive(Debug, Clone, Copy)]
pub struct FrameCursor {
    base: Timebase,
    tick: u64,
    /// The native frame before which an event at `tick` takes effect.
    frame: u64,
    /// The time from the tick to the beginning of the frame. In units of 1 / (`frames` × `ticks`)
    /// of the base, a tick has `frames` units and a frame has `ticks` units.
    remainder: u64,
}

impl FrameCursor {
    /// Creates a cursor at the tick from which `base` applies.
    pub fn new(base: Timebase) -> Self {
        FrameCursor {
            base,
            tick: base.from.0,
            frame: base.from.1,
            remainder: 0,
        }
    }

    /// Returns the same as [`Timebase::frame_of`]. The tick must not be earlier than the previous
    /// one.
    #[inline]
    pub fn frame_of(&mut self, tick: u64) -> u64 {
        // Ticks before the first one have the frame of the first one.
        if tick <= self.tick {
            return self.frame;
        }
        let Timebase {
            frames,
            ticks,
            from,
            ..
        } = self.base;
        let on = (tick - self.tick).checked_mul(frames);
        // A division of 32 bits takes a fraction of the time.
        if let Some(on) = on.and_then(|on| u32::try_from(on).ok())
            && let Ok(ticks) = u32::try_from(ticks)
        {
            let more = u64::from(on).saturating_sub(self.remainder) as u32;
            // A frame per tick, as for the PWM, needs no division.
            let frames = if ticks == 1 {
                more
            } else {
                more.div_ceil(ticks)
            };
            self.remainder = self.remainder + u64::from(frames) * u64::from(ticks) - u64::from(on);
            self.frame += u64::from(frames);
        } else {
            self.frame = self.base.frame_of(tick);
            let all = u128::from(self.frame - from.1) * u128::from(ticks);
            self.remainder = (all - u128::from(tick - from.0) * u128::from(frames)) as u64;
        }
        self.tick = tick;
        self.frame
    }
}

/// Returns the fraction `a / b` in lowest terms.
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
    fn tick_and_frame_conversions_agree() {
        for (frames, seconds) in [(4_000_000, 64), (8_000_000, 144), (15_625, 1), (1_000, 3)] {
            let base = Timebase::new(Rate { frames, seconds });
            for tick in (0..3_000).chain(1 << 40..(1 << 40) + 500) {
                let frame = base.frame_of(tick);
                assert!(base.tick_from(frame) <= tick);
                assert!(base.tick_from(frame + 1) > tick);
            }
        }
    }

    #[test]
    fn frame_cursor_matches_timebase() {
        for (frames, seconds) in [(4_000_000, 64), (8_000_000, 144), (15_625, 1), (1_000, 3)] {
            for step in [1, 3, 441, 44_100, 1 << 33] {
                let base = Timebase::new(Rate { frames, seconds });
                let mut finder = FrameCursor::new(base);
                for tick in (0..2_000).map(|count| count / 2 * step) {
                    assert_eq!(finder.frame_of(tick), base.frame_of(tick), "{tick}");
                }
                // Ticks around a change of the tempo, including late ones before it.
                let base = base.at_tempo(base.frame_of(500 * step), 700);
                let mut finder = FrameCursor::new(base);
                for tick in (490..2_000).map(|count| count * step) {
                    assert_eq!(finder.frame_of(tick), base.frame_of(tick), "{tick}");
                }
            }
        }
    }

    #[test]
    fn tempo_change_takes_effect_at_its_frame() {
        let rate = Rate {
            frames: 88_200,
            seconds: 1,
        };
        let base = Timebase::new(rate).at_tempo(1000, 500).at_tempo(2000, 1000);
        // The first 500 ticks have two frames each, the next 250 have four, and the rest has two.
        assert_eq!(
            [500, 600, 750, 800].map(|tick| base.frame_of(tick)),
            [2000, 2000, 2000, 2100]
        );
        let half = Timebase::new(rate).at_tempo(1000, 500);
        assert_eq!(
            [500, 600, 750].map(|tick| half.frame_of(tick)),
            [1000, 1400, 2000]
        );
        assert_eq!(half.tick_from(1001), 501);
        assert_eq!(Timebase::new(rate).at_tempo(1000, 1000).frame_of(800), 1600);
    }
}
