//! Wakers that must be woken now, because their timer is due or their socket is ready.
//!
//! We collect them in a list first. A waker is code of the program, which must not run while the
//! runtime holds a lock.

use super::stored_waker::StoredWaker;
use crate::sync::{local, thread_local};
use std::cell::RefCell;
use std::vec::Drain;

/// A list of wakers to wake, in memory that the thread reuses.
///
/// The list is filled under the locks of the objects that the wakers waited for. The wakers are
/// called without these locks.
pub(crate) struct Woken(Vec<StoredWaker>);

thread_local! {
    /// The memory of the list, which we keep so that a turn allocates nothing.
    static KEPT: RefCell<Vec<StoredWaker>> = const { RefCell::new(Vec::new()) };
}

impl Default for Woken {
    /// Creates an empty list.
    fn default() -> Self {
        Woken(local(&KEPT, RefCell::take).unwrap_or_default())
    }
}

impl Woken {
    /// Returns the list, so that the caller can add to it.
    pub(crate) fn list(&mut self) -> &mut Vec<StoredWaker> {
        &mut self.0
    }

    /// Passes the wakers to `call`, and drops those that `call` leaves.
    pub(crate) fn run(mut self, call: impl FnOnce(&mut Drain<'_, StoredWaker>)) {
        if !self.0.is_empty() {
            call(&mut self.0.drain(..));
        }
        if self.0.capacity() > 0 {
            local(&KEPT, |kept| kept.replace(self.0));
        }
    }
}

impl Extend<StoredWaker> for Woken {
    fn extend<I: IntoIterator<Item = StoredWaker>>(&mut self, wakers: I) {
        self.0.extend(wakers);
    }
}

/// Wakes all wakers, for use with [`Woken::run`]. No caller waits for these wakes, so the panic of
/// a waker is not resumed.
pub(crate) fn wake_all(due: &mut Drain<'_, StoredWaker>) {
    due.for_each(StoredWaker::wake_quietly);
}
