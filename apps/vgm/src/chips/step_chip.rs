//! What chips share that say when their levels change, and by how much.
//!
//! Such a chip is not ticked: each of its channels counts down to its next change and says it as a
//! step, to be rendered at any rate without aliases by [`edges`](crate::blep). What none could hear,
//! a wave that is over before two output frames are, is said as its mean.
//!
//! Invariant: what is said depends on the writes and their ticks alone, never on how the ticks are
//! cut into runs.

use super::Rate;
use crate::blep::{Sides, StereoBlep};

/// A chip that says its output as steps.
pub trait StepChip: Send + dyn_clone::DynClone {
    /// The ticks a second that its steps are placed in.
    fn rate(&self) -> Rate;

    /// Writes a register, between two ticks.
    fn write(&mut self, port: u8, reg: u8, value: u8);

    /// Takes in memory of a kind (of the format's data blocks) at `start`.
    fn load(&mut self, _kind: u8, _start: usize, _data: &[u8]) {}

    /// Lets waves whose whole period has at most so many ticks show nothing but their mean. 0, as at
    /// first, lets every step be said.
    fn set_inaudible_period(&mut self, _ticks: u32) {}

    /// Above this the board lets less and less through: 6 dB an octave.
    fn low_pass_hz(&self) -> Option<u32> {
        None
    }

    /// Runs `ticks` ticks, at least 1, and says the steps; those of one channel in order of time.
    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink);
}

dyn_clone::clone_trait_object!(StepChip);

/// What takes steps.
pub trait StepSink {
    /// A change by `delta`, -32768 to 32767, before tick `tick` of the run.
    fn step(&mut self, tick: u32, sides: Sides, delta: i32);

    /// Changes on the left and on the right that are not alike.
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

/// The level that a channel, or a chip, shows on the left and on the right.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OutputLevel([i32; 2]);

impl OutputLevel {
    /// What begins with a level that is taken for silence.
    pub fn at(level: i32) -> Self {
        OutputLevel([level; 2])
    }

    /// Shows `level` from `tick` on: says what has changed.
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

/// Counts ticks down to the next change of something that changes again and again.
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
/// // The next is at tick 11, so 1 of what follows.
/// assert_eq!(count.skip(10, 4), 3);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Countdown {
    left: u32,
}

impl Countdown {
    /// The first change is `ticks` ticks away.
    pub fn of(ticks: u32) -> Self {
        Countdown { left: ticks }
    }

    /// Ticks to the next change.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Runs `ticks` ticks: calls `change` with the tick of each change; it returns how many ticks,
    /// at least 1, it is to the next.
    pub fn run(&mut self, ticks: u32, mut change: impl FnMut(u32) -> u32) {
        while self.left < ticks {
            self.left += change(self.left).max(1);
        }
        self.left -= ticks;
    }

    /// Runs `ticks` ticks with a change every `period` (above 0); returns how many there were.
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

/// Whether all `wave` samples at `period` ticks each take no more than `limit` ticks.
pub fn is_inaudible(wave: u32, period: u32, limit: u32) -> bool {
    wave.saturating_mul(period) <= limit
}
