//! Implements the trait by which the pool uses the timers of a worker. `disabled.rs` is the
//! replacement for builds without tasks, and `worker/parts.rs` explains both.

use super::Clock;
use super::timers::{self, Timers};
use crate::worker::parts::{Fired, TimerPart};
use crate::worker::stored_waker::StoredWaker;
use std::sync::Arc;
use std::task::Waker;
use std::vec::Drain;

impl TimerPart for Timers {
    type Clock = Clock;
    type Entered = timers::Entered;

    #[inline]
    fn new(clock: Clock) -> Self {
        Timers::new(clock)
    }

    #[inline]
    fn serve(this: Arc<Self>) -> timers::Entered {
        timers::serve(this)
    }

    #[inline]
    fn clock(&self) -> &Clock {
        self.clock()
    }

    #[inline]
    fn set_wake(&self, waker: impl FnOnce() -> Waker) {
        self.set_wake(waker);
    }

    #[inline]
    fn is_used(&self) -> bool {
        self.is_used()
    }

    #[inline]
    fn may_end(&self) -> bool {
        self.may_end()
    }

    #[inline]
    fn reactions(&self) -> u64 {
        self.reactions()
    }

    #[inline]
    fn sleep_until(&self) -> Option<u64> {
        self.sleep_until()
    }

    #[inline]
    fn fire(&self, run: impl FnOnce(&mut Drain<'_, StoredWaker>)) -> Fired {
        self.fire(run)
    }

    #[inline]
    fn end(&self) {
        self.end();
    }
}
