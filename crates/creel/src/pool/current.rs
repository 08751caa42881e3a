//! Which worker the calling thread is, if any.

use super::shared::Shared;
use crate::sync::{local, thread_local};
use std::{cell::RefCell, sync::Arc};

thread_local! {
    static CURRENT: RefCell<Option<(Arc<Shared>, usize)>> = const { RefCell::new(None) };
}

/// Marks the calling thread as worker `index` until the guard is dropped.
pub(crate) fn enter(shared: Arc<Shared>, index: usize) -> Entered {
    local(&CURRENT, |current| current.replace(Some((shared, index))));
    Entered
}

/// Unmarks the thread when dropped.
pub(crate) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        local(&CURRENT, RefCell::take);
    }
}

/// The pool and index of the calling worker.
pub(crate) fn worker() -> Option<(Arc<Shared>, usize)> {
    local(&CURRENT, |current| current.borrow().clone()).flatten()
}

/// Whether others may wait for the calling thread: it is a worker, of whatever pool.
pub(crate) fn may_be_waited_for() -> bool {
    local(&CURRENT, |current| current.borrow().is_some()).unwrap_or(false)
}

/// The index of the calling worker in this pool.
pub(crate) fn index_in(shared: &Arc<Shared>) -> Option<usize> {
    let index = local(&CURRENT, |current| match &*current.borrow() {
        Some((own, index)) if Arc::ptr_eq(own, shared) => Some(*index),
        _ => None,
    });
    index.flatten()
}
