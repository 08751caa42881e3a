//! Which worker the calling thread is, if any.

use super::seats::Seats;
use crate::sync::{local, thread_local};
use std::{cell::RefCell, sync::Arc};

thread_local! {
    static CURRENT: RefCell<Option<(Arc<Seats>, usize)>> = const { RefCell::new(None) };
}

/// Marks the calling thread as worker `index` until the guard is dropped.
pub(crate) fn enter(seats: Arc<Seats>, index: usize) -> Entered {
    local(&CURRENT, |current| current.replace(Some((seats, index))));
    Entered
}

/// Unmarks the thread when dropped.
pub(crate) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        local(&CURRENT, RefCell::take);
    }
}

/// The seats of the pool and the index of the calling worker.
pub(crate) fn worker() -> Option<(Arc<Seats>, usize)> {
    local(&CURRENT, |current| current.borrow().clone()).flatten()
}

/// Whether others may wait for the calling thread: it is a worker, of whatever pool.
pub(crate) fn may_be_waited_for() -> bool {
    local(&CURRENT, |current| current.borrow().is_some()).unwrap_or(false)
}

/// The index of the calling worker in the pool of these seats.
pub(crate) fn index_in(seats: &Arc<Seats>) -> Option<usize> {
    let index = local(&CURRENT, |current| match &*current.borrow() {
        Some((own, index)) if Arc::ptr_eq(own, seats) => Some(*index),
        _ => None,
    });
    index.flatten()
}
