//! A replacement for `time` when the feature is off. It gives the pool timers of which none is ever
//! armed.

use crate::sync::now_ns;

/// The system's clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock;

impl Clock {
    pub(crate) fn exact_nanos(&self) -> u64 {
        now_ns()
    }

    pub(crate) fn is_manual(&self) -> bool {
        false
    }
}

pub(crate) mod timers {
    use super::Clock;
    use crate::worker::stored_waker::StoredWaker;
    use std::{sync::Arc, task::Waker, vec::Drain};

    /// Timers of which none is ever armed.
    pub(crate) struct Timers(Clock);

    /// The result of firing timers, which is always empty.
    pub(crate) struct Fired {
        pub(crate) count: usize,
        pub(crate) more: bool,
    }

    impl Timers {
        pub(crate) fn new(clock: Clock) -> Self {
            Self(clock)
        }

        pub(crate) fn clock(&self) -> &Clock {
            &self.0
        }

        pub(crate) fn set_wake(&self, _: impl FnOnce() -> Waker) {}

        pub(crate) fn is_used(&self) -> bool {
            false
        }

        pub(crate) fn may_end(&self) -> bool {
            true
        }

        pub(crate) fn reactions(&self) -> u64 {
            0
        }

        pub(crate) fn sleep_until(&self) -> Option<u64> {
            None
        }

        pub(crate) fn fire(&self, _: impl FnOnce(&mut Drain<'_, StoredWaker>)) -> Fired {
            let (count, more) = (0, false);
            Fired { count, more }
        }

        pub(crate) fn end(&self) {}
    }

    /// A guard that restores nothing when it is dropped.
    pub(crate) struct Entered;

    pub(crate) fn serve(_: Arc<Timers>) -> Entered {
        Entered
    }
}
