//! Which worker the calling thread is, if any.

use super::seats::Seats;
use crate::sync::{local, thread_local};
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

thread_local! {
    static CURRENT: RefCell<Option<(Arc<Seats>, usize)>> = const { RefCell::new(None) };
    /// Where the seats are in the middle of one of whose verbs the thread runs somebody's code.
    static AMID: Cell<usize> = const { Cell::new(0) };
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

/// Runs `f` in the middle of a verb of these seats, which are in use meanwhile: a pool that is
/// dropped there must not wait for it.
pub(crate) fn amid(seats: &Arc<Seats>, f: impl FnOnce()) {
    let before = local(&AMID, |amid| amid.replace(address(seats)));
    f();
    local(&AMID, |amid| amid.set(before.unwrap_or(0)));
}

/// Whether the calling thread is in there.
pub(crate) fn is_amid(seats: &Arc<Seats>) -> bool {
    local(&AMID, Cell::get) == Some(address(seats))
}

fn address(seats: &Arc<Seats>) -> usize {
    Arc::as_ptr(seats).addr()
}
