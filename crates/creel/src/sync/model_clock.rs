//! The clock under shuttle. The schedule decides how much time passes between two reads of the
//! clock.
//!
//! Both outcomes of a decision that depends on time are therefore tested, and a replay decides in
//! the same way. In some runs, each time-out elapses as soon as other threads had their turn. In
//! the other runs, no time-out elapses, so that no time-out can hide a lost wake-up.

use shuttle::rand::{RngCore, thread_rng};
use std::{cell::Cell, time::Duration};

// We use the system's thread-locals, because all model threads of one test share them.
std::thread_local! {
    static NOW: Cell<u64> = const { Cell::new(1) };
    static TIME_OUTS: Cell<bool> = const { Cell::new(true) };
}

/// Returns the nanoseconds since some moment in the past.
pub(crate) fn now_ns() -> u64 {
    let step = match thread_rng().next_u64() % 8 {
        0..=3 => 80,
        4 | 5 => 6_000,
        6 => 150_000,
        _ => 1_200_000,
    };
    NOW.set(NOW.get() + step);
    NOW.get()
}

/// An instant of this clock, with those methods of `std`'s type that the crate uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(u64);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(now_ns())
    }

    pub(crate) fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn checked_add(self, time: Duration) -> Option<Self> {
        let ns = u64::try_from(time.as_nanos()).ok()?;
        self.0.checked_add(ns).map(Self)
    }

    pub(crate) fn elapsed(self) -> Duration {
        Self::now().duration_since(self)
    }
}

/// Returns whether time-outs elapse.
pub(crate) fn passes() -> bool {
    TIME_OUTS.get()
}

/// Lets other threads run until `time` has passed.
pub(super) fn run_out(time: Duration) {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4);
    NOW.set(NOW.get() + ns);
    shuttle::thread::yield_now();
}

/// Begins a run of a model. `time_outs` says whether time-outs elapse.
#[cfg(test)]
pub(crate) fn begin(time_outs: bool) {
    NOW.set(1);
    TIME_OUTS.set(time_outs);
}
