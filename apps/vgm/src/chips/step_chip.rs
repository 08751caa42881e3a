//! The common parts of chips that report when their levels change, and by how much.
//!
//! We do not execute every tick of such a chip. Each channel counts down to its next change and
//! reports it as a step, which [`blep`](crate::blep) renders at any rate without aliasing. A wave
//! whose period is shorter than 5/3 of an output frame is inaudible, and we report its mean
//! instead.
//!
//! Invariant: the steps depend only on the writes and their ticks, and not on how the ticks are
//! split into runs.

use super::Rate;
use crate::blep::{Sides, StereoBlep};

/// A chip that reports its output as steps.
pub trait StepChip: Send + dyn_clone::DynClone {
    /// Returns the number of ticks per second. Steps are placed at these ticks.
    fn rate(&self) -> Rate;

    /// Writes a register between two ticks.
    fn write(&mut self, port: u8, reg: u8, value: u8);

    /// Loads memory at the address `start`. `_kind` is the kind of the format's data block.
    fn load(&mut self, _kind: u8, _start: usize, _data: &[u8]) {}

    /// Replaces waves whose period is at most `_ticks` by their mean. The initial value 0 reports
    /// every step.
    fn set_inaudible_period(&mut self, _ticks: u32) {}

    /// Returns the cutoff frequency of the board's low-pass, which attenuates by 6 dB per octave.
    fn low_pass_hz(&self) -> Option<u32> {
        None
    }

    /// Runs `ticks` ticks, at least 1, and reports the steps. The steps of one channel are in order
    /// of time.
    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink);
}

dyn_clone::clone_trait_object!(StepChip);

/// A receiver of steps.
pub trait StepSink {
    /// Adds a change by `delta`, -32768 to 32767, before tick `tick` of the run.
    fn step(&mut self, tick: u32, sides: Sides, delta: i32);

    /// Adds different changes on the left and on the right.
    fn step_sides(&mut self, tick: u32, [left, right]: [i32; 2]) {
        if left != 0 {
            self.step(tick, Sides::Left, left);
        }
        if right != 0 {
            self.step(tick, Sides::Right, right);
        }
    }
}

impl StepSink for StereoBlep {
    fn step(&mut self, tick: u32, sides: Sides, delta: i32) {
        StereoBlep::step(self, tick, sides, delta);
    }

    fn step_sides(&mut self, tick: u32, deltas: [i32; 2]) {
        StereoBlep::step_sides(self, tick, deltas);
    }
}

impl<F: FnMut(u32, Sides, i32)> StepSink for F {
    fn step(&mut self, tick: u32, sides: Sides, delta: i32) {
        self(tick, sides, delta);
    }
}

/// The current level of a channel or of a chip, left and right.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OutputLevel([i32; 2]);

impl OutputLevel {
    /// Creates an output whose initial level counts as silence.
    pub fn at(level: i32) -> Self {
        OutputLevel([level; 2])
    }

    /// Changes the level from `tick` on and reports the difference.
    pub fn set(&mut self, tick: u32, level: [i32; 2], steps: &mut dyn StepSink) {
        let [left, right] = [level[0] - self.0[0], level[1] - self.0[1]];
        self.0 = level;
        if left != right {
            steps.step_sides(tick, [left, right]);
        } else if left != 0 {
            steps.step(tick, Sides::Both, left);
        }
    }
}

/// Counts ticks down to the next of a series of changes.
///
/// ```
/// use creel_vgm::chips::step_chip::Countdown;
///
/// let mut count = Countdown::of(3);
/// let mut at = Vec::new();
/// count.run(10, |tick| {
///     at.push(tick);
///     4
/// });
/// assert_eq!(at, [3, 7]);
/// // The next change is at tick 11, which is tick 1 of the next run.
/// assert_eq!(count.skip(10, 4), 3);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Countdown {
    left: u32,
}

impl Countdown {
    /// Creates a countdown whose first change is `ticks` ticks away.
    pub fn of(ticks: u32) -> Self {
        Countdown { left: ticks }
    }

    /// Returns the number of ticks to the next change.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Runs `ticks` ticks and calls `change` with the tick of each change.
    ///
    /// `change` returns the number of ticks to the next change. We treat 0 as 1.
    pub fn run(&mut self, ticks: u32, mut change: impl FnMut(u32) -> u32) {
        while self.left < ticks {
            self.left += change(self.left).max(1);
        }
        self.left -= ticks;
    }

    /// Runs `ticks` ticks with a change every `period` (above 0), and returns the number of
    /// changes.
    pub fn skip(&mut self, ticks: u32, period: u32) -> u32 {
        let Some(past) = ticks.checked_sub(self.left + 1) else {
            self.left -= ticks;
            return 0;
        };
        let changes = past / period + 1;
        self.left = period - 1 - past % period;
        changes
    }
}

/// Returns whether a wave of `wave` samples with `period` ticks each takes at most `limit` ticks.
pub fn is_inaudible(wave: u32, period: u32, limit: u32) -> bool {
    wave.saturating_mul(period) <= limit
}
