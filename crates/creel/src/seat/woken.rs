//! Wakers whose time, or whose socket, has come.

use super::panics::quietly;
use crate::sync::{local, thread_local};
use std::cell::RefCell;
use std::task::Waker;
use std::vec::Drain;

/// Wakers that are to be called, in memory that the thread keeps.
///
/// They are gathered under the locks of what they have waited for, and called without.
pub(crate) struct Woken(Vec<Waker>);

thread_local! {
    /// Kept so that a turn allocates nothing.
    static KEPT: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}

impl Default for Woken {
    /// None yet.
    fn default() -> Self {
        Woken(local(&KEPT, RefCell::take).unwrap_or_default())
    }
}

impl Woken {
    /// The list, to be added to.
    pub(crate) fn list(&mut self) -> &mut Vec<Waker> {
        &mut self.0
    }

    /// Gives them to `call`; drops what that leaves.
    pub(crate) fn run(mut self, call: impl FnOnce(&mut Drain<'_, Waker>)) {
        if !self.0.is_empty() {
            call(&mut self.0.drain(..));
        }
        if self.0.capacity() > 0 {
            local(&KEPT, |kept| kept.replace(self.0));
        }
    }
}

impl Extend<Waker> for Woken {
    fn extend<I: IntoIterator<Item = Waker>>(&mut self, wakers: I) {
        self.0.extend(wakers);
    }
}

/// Wakes all: for [`Woken::run`].
pub(crate) fn wake_all(due: &mut Drain<'_, Waker>) {
    due.for_each(|waker| quietly(|| waker.wake()));
}
