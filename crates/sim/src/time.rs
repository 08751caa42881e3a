//! The clock of the simulated machine.

use crate::engine;
use std::time::Duration;

/// Returns the virtual time in nanoseconds since the start of the simulation. A call takes the time
/// `clock` of the simulated machine. Outside a simulation it returns 0.
#[must_use]
#[track_caller]
pub fn now_ns() -> u64 {
    engine::read_clock()
}

/// An instant of the virtual clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

impl Instant {
    /// Returns the current virtual time.
    #[must_use]
    pub fn now() -> Self {
        Self(now_ns())
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    #[must_use]
    pub fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the instant `time` later, or `None` if the clock cannot represent it.
    #[must_use]
    pub fn checked_add(self, time: Duration) -> Option<Self> {
        let ns = u64::try_from(time.as_nanos()).ok()?;
        self.0.checked_add(ns).map(Self)
    }

    /// Returns the time since this instant.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Self::now().duration_since(self)
    }
}
