//! Wakers whose time, or whose socket, has come.

use super::stored_waker::StoredWaker;
use crate::sync::{local, thread_local};
use std::cell::RefCell;
use std::vec::Drain;

/// Wakers that are to be called, in memory that the thread keeps.
///
/// They are gathered under the locks of what they have waited for, and called without.
pub(crate) struct Woken(Vec<StoredWaker>);

thread_local! {
    /// Kept so that a turn allocates nothing.
    static KEPT: RefCell<Vec<StoredWaker>> = const { RefCell::new(Vec::new()) };
}

impl Default for Woken {
    /// None yet.
    fn default() -> Self {
        Woken(local(&KEPT, RefCell::take).unwrap_or_default())
    }
}

impl Woken {
    /// The list, to be added to.
    pub(crate) fn list(&mut self) -> &mut Vec<StoredWaker> {
        &mut self.0
    }

    /// Gives them to `call`; drops what that leaves.
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

/// Wakes all: for [`Woken::run`]. Nobody waits for the worker that does so, hence no panic is
/// re-thrown.
pub(crate) fn wake_all(due: &mut Drain<'_, StoredWaker>) {
    due.for_each(StoredWaker::wake_quietly);
}
