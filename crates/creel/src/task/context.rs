//! Which pool the calling thread runs code of: children inherit it.

use super::block_on_driver::BlockOnDriver;
use super::local::{self, LocalContext};
use super::tasks::Tasks;
use crate::sync::{local, thread_local};
use crate::worker::slots::WorkerSlots;
use std::cell::{Cell, RefCell};
use std::iter::successors;
use std::ptr;
use std::sync::Arc;

thread_local! {
    /// Of a worker: its pool's tasks and its index.
    static WORKER: RefCell<Option<(Arc<Tasks>, usize)>> = const { RefCell::new(None) };
}

/// Marks the calling thread as the one of worker `index` until the guard is dropped.
pub(crate) fn enter(tasks: Arc<Tasks>, index: usize) -> Entered {
    local(&WORKER, |worker| worker.replace(Some((tasks, index))));
    Entered
}

/// Unmarks the thread when dropped.
pub(crate) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        let tasks = local(&WORKER, RefCell::take);
        drop(tasks);
    }
}

/// The tasks of the calling worker's pool, and its index.
pub(super) fn worker() -> Option<(Arc<Tasks>, usize)> {
    local(&WORKER, |worker| worker.borrow().clone()).flatten()
}

/// A `block_on` that this thread is in, and the one around it.
pub(crate) struct Frame {
    tasks: *const Tasks,
    /// What runs the pool's tasks meanwhile. Only ever shared.
    block_on_driver: *const BlockOnDriver<'static>,
    outer: *const Frame,
}

thread_local! {
    /// The innermost, or null. It lies on this thread's stack.
    static INSIDE: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// The frames of the calling thread, the innermost first.
///
/// The caller does not keep them longer than the thread is in there.
fn frames<'a>() -> impl Iterator<Item = &'a Frame> {
    let first = local(&INSIDE, Cell::get).unwrap_or(ptr::null());
    // SAFETY: null, or on the stack of a `block_on` that this thread is in, which takes it out
    // before it returns; and nobody changes it.
    let frame = |at: *const Frame| unsafe { at.as_ref() };
    successors(frame(first), move |inner| frame(inner.outer))
}

/// The tasks of the pool whose `block_on` the calling thread is in, of several the innermost:
/// children inherit it. The caller does not keep it longer than the thread is in there.
#[inline]
pub(super) fn innermost<'a>() -> Option<&'a Tasks> {
    let frame = frames().next()?;
    // SAFETY: borrowed by that `block_on`.
    Some(unsafe { &*frame.tasks })
}

/// The workers of the pool whose `block_on` the calling thread is in, of several the innermost.
pub(crate) fn innermost_slots() -> Option<Arc<WorkerSlots>> {
    innermost().map(|tasks| Arc::clone(&tasks.slots))
}

/// Whether the calling thread is in a `block_on` of this pool, also one around another's.
pub(crate) fn is_in_context(tasks: &Tasks) -> bool {
    frames().any(|frame| ptr::eq(frame.tasks, tasks))
}

/// The local scheduler at which the calling thread runs tasks of this pool, in a `block_on` of it that is the
/// innermost. In the first poll of its future it borrows a worker for that now.
#[cold]
pub(super) fn attach(tasks: &Tasks) -> Option<LocalContext<'_>> {
    let frame = frames().next()?;
    if !ptr::eq(frame.tasks, tasks) {
        return None;
    }
    // SAFETY: validity: it is borrowed by that `block_on`, which outlives its frame's time as the
    // innermost. Aliasing: it is only shared.
    let block_on_driver = unsafe { &*frame.block_on_driver };
    block_on_driver.sit_down_in_first_poll();
    local::current_in(tasks)
}

impl Frame {
    /// The caller keeps both for as long as the frame is entered.
    pub(crate) fn new(tasks: &Tasks, block_on_driver: &BlockOnDriver<'_>) -> Self {
        Self {
            tasks,
            block_on_driver: ptr::from_ref(block_on_driver).cast(),
            outer: local(&INSIDE, Cell::get).unwrap_or(ptr::null()),
        }
    }
}

/// Keeps a frame the innermost until it is dropped.
pub(crate) struct ContextGuard<'a>(&'a Frame);

impl<'a> ContextGuard<'a> {
    pub(crate) fn enter(frame: &'a Frame) -> Self {
        local(&INSIDE, |inside| inside.set(frame));
        Self(frame)
    }
}

impl Drop for ContextGuard<'_> {
    fn drop(&mut self) {
        local(&INSIDE, |inside| inside.set(self.0.outer));
    }
}
