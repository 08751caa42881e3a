//! Implements the trait by which the pool uses the I/O driver. `disabled.rs` is the replacement for
//! builds without sockets, and `worker/parts.rs` explains both.

use super::driver::Driver;
use super::io;
use crate::worker::parts::{Found, SocketPart};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

impl SocketPart for Driver {
    type Entered = io::Entered;

    #[inline]
    fn enter(this: Arc<Self>) -> io::Entered {
        io::enter(this)
    }

    #[inline]
    fn set_alone(&self, alone: bool) {
        self.set_alone(alone);
    }

    #[inline]
    fn is_unsure(&self) -> bool {
        self.is_unsure()
    }

    #[inline]
    fn set_wake(&self, waker: Waker) {
        self.set_wake(waker);
    }

    #[inline]
    fn wake_if_unattended(&self) {
        self.wake_if_unattended();
    }

    #[inline]
    fn is_unattended(&self) -> bool {
        self.is_unattended()
    }

    #[inline]
    fn attended(&self) -> u64 {
        self.attended()
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    #[inline]
    fn turn(&self, again: bool) -> Option<Found> {
        self.turn(again)
    }

    #[inline]
    fn wait(&self, timeout: Option<Duration>, notified: impl FnOnce() -> bool) -> Option<Found> {
        self.wait(timeout, notified)
    }

    #[inline]
    fn end(&self) {
        self.end();
    }
}
