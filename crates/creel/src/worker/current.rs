//! Which worker the calling thread is, if any.

use super::slots::WorkerSlots;
use crate::sync::{local, thread_local};
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

thread_local! {
    static CURRENT: RefCell<Option<(Arc<WorkerSlots>, usize)>> = const { RefCell::new(None) };
    /// Where the workers are in the middle of one of whose verbs the thread runs somebody's code.
    static AMID: Cell<usize> = const { Cell::new(0) };
}

/// Marks the calling thread as worker `index` until the guard is dropped.
pub(crate) fn enter(slots: Arc<WorkerSlots>, index: usize) -> Entered {
    local(&CURRENT, |current| current.replace(Some((slots, index))));
    Entered
}

/// Unmarks the thread when dropped.
pub(crate) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        local(&CURRENT, RefCell::take);
    }
}

/// The workers of the pool and the index of the calling worker.
pub(crate) fn worker() -> Option<(Arc<WorkerSlots>, usize)> {
    local(&CURRENT, |current| current.borrow().clone()).flatten()
}

/// Whether others may wait for the calling thread: it is a worker, of whatever pool.
pub(crate) fn may_be_waited_for() -> bool {
    local(&CURRENT, |current| current.borrow().is_some()).unwrap_or(false)
}

/// The index of the calling worker in the pool of these workers.
pub(crate) fn index_in(slots: &Arc<WorkerSlots>) -> Option<usize> {
    let index = local(&CURRENT, |current| match &*current.borrow() {
        Some((own, index)) if Arc::ptr_eq(own, slots) => Some(*index),
        _ => None,
    });
    index.flatten()
}

/// Runs `f` in the middle of a verb of these workers, which are in use meanwhile: a pool that is
/// dropped there must not wait for it.
pub(crate) fn amid(slots: &Arc<WorkerSlots>, f: impl FnOnce()) {
    let before = local(&AMID, |amid| amid.replace(address(slots)));
    f();
    local(&AMID, |amid| amid.set(before.unwrap_or(0)));
}

/// Whether the calling thread is in there.
pub(crate) fn is_amid(slots: &Arc<WorkerSlots>) -> bool {
    local(&AMID, Cell::get) == Some(address(slots))
}

fn address(slots: &Arc<WorkerSlots>) -> usize {
    Arc::as_ptr(slots).addr()
}
