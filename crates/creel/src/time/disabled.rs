//! A replacement for `time` when the feature `tasks` is off. It gives the pool timers of which none
//! is ever armed.

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
    use crate::worker::parts::{Fired, TimerPart};
    use crate::worker::stored_waker::StoredWaker;
    use std::{sync::Arc, task::Waker, vec::Drain};

    /// Timers of which none is ever armed.
    pub(crate) struct Timers(Clock);

    /// A guard that restores nothing when it is dropped.
    pub(crate) struct Entered;

    impl TimerPart for Timers {
        type Clock = Clock;
        type Entered = Entered;

        fn new(clock: Clock) -> Self {
            Self(clock)
        }

        fn serve(_: Arc<Self>) -> Entered {
            Entered
        }

        fn clock(&self) -> &Clock {
            &self.0
        }

        fn set_wake(&self, _: impl FnOnce() -> Waker) {}

        fn is_used(&self) -> bool {
            false
        }

        fn may_end(&self) -> bool {
            true
        }

        fn reactions(&self) -> u64 {
            0
        }

        fn sleep_until(&self) -> Option<u64> {
            None
        }

        fn fire(&self, _: impl FnOnce(&mut Drain<'_, StoredWaker>)) -> Fired {
            Fired::default()
        }

        fn end(&self) {}
    }
}
