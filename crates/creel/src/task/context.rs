//! The pool whose code the calling thread runs. Tasks spawned from that code inherit the pool.
//!
//! A thread runs the code of a pool if it is one of the pool's workers, or if it is in a `block_on`
//! of the pool. A worker of one pool can be in a `block_on` of another pool, and such calls can be
//! nested. The innermost `block_on` then decides.

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
    /// If the thread is a worker, the tasks of its pool and its index.
    static WORKER: RefCell<Option<(Arc<Tasks>, usize)>> = const { RefCell::new(None) };
}

/// Marks the calling thread as worker `index` until the guard is dropped.
pub(super) fn enter(tasks: Arc<Tasks>, index: usize) -> Entered {
    local(&WORKER, |worker| worker.replace(Some((tasks, index))));
    Entered
}

/// A guard that removes the mark from the thread when it is dropped.
pub(crate) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        let tasks = local(&WORKER, RefCell::take);
        drop(tasks);
    }
}

/// Returns the tasks of the calling worker's pool and the worker's index.
pub(super) fn worker() -> Option<(Arc<Tasks>, usize)> {
    local(&WORKER, |worker| worker.borrow().clone()).flatten()
}

/// Returns whether the calling thread is worker `index` of this pool.
pub(super) fn is_worker(tasks: &Tasks, index: usize) -> bool {
    let is_it = |worker: &RefCell<Option<(Arc<Tasks>, usize)>>| {
        let worker = worker.borrow();
        let own = worker.as_ref();
        own.is_some_and(|(own, at)| ptr::eq(Arc::as_ptr(own), tasks) && *at == index)
    };
    local(&WORKER, is_it).unwrap_or(false)
}

/// A `block_on` that this thread is in, with a link to the one around it.
pub(crate) struct Frame {
    tasks: *const Tasks,
    /// The driver that runs the pool's tasks during the `block_on`. It is only shared, never
    /// borrowed mutably.
    block_on_driver: *const BlockOnDriver<'static>,
    outer: *const Frame,
}

thread_local! {
    /// The innermost frame, or null. It is on this thread's stack.
    static INSIDE: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// Returns the frames of the calling thread, from the innermost to the outermost.
///
/// The caller must not keep a frame longer than the thread is in that `block_on`.
fn frames<'a>() -> impl Iterator<Item = &'a Frame> {
    let first = local(&INSIDE, Cell::get).unwrap_or(ptr::null());
    // SAFETY: the pointer is null, or points to the stack of a `block_on` that this thread is in.
    // That `block_on` removes the frame before it returns, and no code modifies it.
    let frame = |at: *const Frame| unsafe { at.as_ref() };
    successors(frame(first), move |inner| frame(inner.outer))
}

/// Returns the tasks of the pool whose `block_on` the calling thread is in. If several calls of
/// `block_on` are nested, the innermost one decides. Spawned tasks inherit that pool. The caller
/// must not keep the reference longer than the thread is in that `block_on`.
#[inline]
pub(super) fn innermost<'a>() -> Option<&'a Tasks> {
    let frame = frames().next()?;
    // SAFETY: that `block_on` borrows the tasks.
    Some(unsafe { &*frame.tasks })
}

/// Returns the workers of the pool whose `block_on` the calling thread is in. If several calls of
/// `block_on` are nested, the innermost one decides.
pub(super) fn innermost_slots() -> Option<Arc<WorkerSlots>> {
    innermost().map(|tasks| Arc::clone(&tasks.slots))
}

/// Returns whether the calling thread is in a `block_on` of this pool, even if a `block_on` of
/// another pool is nested inside it.
pub(super) fn is_in_context(tasks: &Tasks) -> bool {
    frames().any(|frame| ptr::eq(frame.tasks, tasks))
}

/// Returns the local scheduler with which the calling thread runs tasks of this pool, if the
/// thread's innermost `block_on` belongs to this pool. If this is the first poll of its future, the
/// thread leases a worker for that now.
#[cold]
pub(super) fn attach(tasks: &Tasks) -> Option<LocalContext<'_>> {
    let frame = frames().next()?;
    if !ptr::eq(frame.tasks, tasks) {
        return None;
    }
    // SAFETY: validity: that `block_on` borrows the driver, and outlives the time in which its
    // frame is the innermost. Aliasing: the driver is only shared.
    let block_on_driver = unsafe { &*frame.block_on_driver };
    block_on_driver.sit_down_in_first_poll();
    local::current_in(tasks)
}

impl Frame {
    /// Creates a frame, which represents one `block_on` of this thread. The caller must keep both
    /// arguments alive while the frame is entered.
    pub(crate) fn new(tasks: &Tasks, block_on_driver: &BlockOnDriver<'_>) -> Self {
        Self {
            tasks,
            block_on_driver: ptr::from_ref(block_on_driver).cast(),
            outer: local(&INSIDE, Cell::get).unwrap_or(ptr::null()),
        }
    }
}

/// A guard. Until it is dropped, its frame is the innermost frame of this thread.
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
