//! Which worker the calling thread is, if any.

use super::shared::Shared;
use crate::sync::thread_local;
use std::{cell::RefCell, sync::Arc};

thread_local! {
    static CURRENT: RefCell<Option<(Arc<Shared>, usize)>> = const { RefCell::new(None) };
}

/// Marks the calling thread as worker `index` until the guard is dropped.
pub(crate) fn enter(shared: Arc<Shared>, index: usize) -> Entered {
    CURRENT.with(|current| current.replace(Some((shared, index))));
    Entered
}

/// Unmarks the thread when dropped.
pub(crate) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with(RefCell::take);
    }
}

/// The pool and index of the calling worker.
pub(crate) fn worker() -> Option<(Arc<Shared>, usize)> {
    CURRENT.with(|current| current.borrow().clone())
}

/// The index of the calling worker in this pool.
pub(crate) fn index_in(shared: &Arc<Shared>) -> Option<usize> {
    CURRENT.with(|current| match &*current.borrow() {
        Some((own, index)) if Arc::ptr_eq(own, shared) => Some(*index),
        _ => None,
    })
}
