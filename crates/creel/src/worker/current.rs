//! The worker that the calling thread is, if any, and whether the thread runs user code in the
//! middle of one of the pool's methods.
//!
//! The runtime needs to know both, because a worker must not wait for itself. For example, a pool
//! that is dropped on its own worker must not join that worker's thread.

use super::slots::WorkerSlots;
use crate::sync::{local, thread_local};
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

thread_local! {
    static CURRENT: RefCell<Option<(Arc<WorkerSlots>, usize)>> = const { RefCell::new(None) };
    /// The address of the `WorkerSlots` of the pool in whose method the thread is running user
    /// code, or 0.
    static AMID: Cell<usize> = const { Cell::new(0) };
    /// Whether the thread is inside [`helping`].
    static HELPS: Cell<bool> = const { Cell::new(false) };
}

/// Marks the calling thread as worker `index` until the guard is dropped.
pub(crate) fn enter(slots: Arc<WorkerSlots>, index: usize) -> Entered {
    local(&CURRENT, |current| current.replace(Some((slots, index))));
    Entered
}

/// A guard that removes the mark from the thread when it is dropped.
pub(crate) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        local(&CURRENT, RefCell::take);
    }
}

/// Returns the pool's workers and the index of the calling worker. Returns `None` if the calling
/// thread is not a worker.
pub(crate) fn worker() -> Option<(Arc<WorkerSlots>, usize)> {
    local(&CURRENT, |current| current.borrow().clone()).flatten()
}

/// Returns whether a worker may wait for the calling thread. This is so if the thread is a worker of
/// any pool, or runs a closure that it may have taken from one.
pub(crate) fn may_be_waited_for() -> bool {
    local(&HELPS, Cell::get).unwrap_or(false)
        || local(&CURRENT, |current| current.borrow().is_some()).unwrap_or(false)
}

/// Runs `f`, which may run closures that the calling thread has taken from another one.
pub(crate) fn helping<R>(f: impl FnOnce() -> R) -> R {
    let before = local(&HELPS, |helps| helps.replace(true));
    let result = f();
    local(&HELPS, |helps| helps.set(before.unwrap_or(false)));
    result
}

/// Returns the index of the calling worker in the pool of these workers.
pub(crate) fn index_in(slots: &Arc<WorkerSlots>) -> Option<usize> {
    let index = local(&CURRENT, |current| match &*current.borrow() {
        Some((own, index)) if Arc::ptr_eq(own, slots) => Some(*index),
        _ => None,
    });
    index.flatten()
}

/// Runs `f`, which is user code, in the middle of a method of these workers. The workers are in use
/// for that time, so if the pool is dropped inside `f`, the drop must not wait for this method.
pub(crate) fn amid(slots: &Arc<WorkerSlots>, f: impl FnOnce()) {
    let before = local(&AMID, |amid| amid.replace(address(slots)));
    f();
    local(&AMID, |amid| amid.set(before.unwrap_or(0)));
}

/// Returns whether the calling thread is inside [`amid`] for these workers.
pub(crate) fn is_amid(slots: &Arc<WorkerSlots>) -> bool {
    local(&AMID, Cell::get) == Some(address(slots))
}

fn address(slots: &Arc<WorkerSlots>) -> usize {
    Arc::as_ptr(slots).addr()
}
