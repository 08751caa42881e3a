//! A task's cell: its state word, its future or output, and the wakers that refer to it.
//!
//! Invariant: who may touch what in a cell is told by the state word (`state.rs`): the running
//! worker the future; before completion the handle the joiner's place; after it the handle the
//! output. Everything that belongs to the user (poll, drop of the future, of the output, of a
//! panic's payload, a joiner's waker) is called under `catch_unwind`, outside of any lock.
//!
//! A task is queued as a [`Task`], a pointer without a count: the state word keeps it alive.

use super::join::JoinError;
use super::local::{self, Counters};
use super::slab::{BLOCK_MAX, Block, GRAIN, Heap};
use super::state::{AfterPoll, Claim, Completed, State, Then};
use crate::sync::{UnsafeCell, local, prefetch, thread_local};
use crate::worker::stored_waker::StoredWaker;
use crate::worker::{budget, panics::quietly};
use std::any::Any;
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

/// Who puts scheduled tasks in a queue: a pool, or a test.
pub(super) trait Schedule: Send + Sync {
    /// Queues a task that has just become scheduled, not by a hint. From any thread.
    fn schedule(self: Arc<Self>, task: Task);
}

/// What all cells begin with.
#[repr(C)]
pub(super) struct Header {
    block: Block,
    vtable: &'static VTable,
    /// The handle's waker, if the word says `JOINER`.
    joiner: UnsafeCell<MaybeUninit<StoredWaker>>,
}

#[repr(C)]
struct Cell<F: Future, O> {
    header: Header,
    stage: UnsafeCell<Stage<F, O>>,
}

/// The future until it is complete, then the output as it is kept.
union Stage<F: Future, O> {
    future: ManuallyDrop<F>,
    output: ManuallyDrop<O>,
}

/// What the handle of a task gives.
pub(super) type Outcome<F> = Result<<F as Future>::Output, JoinError>;

/// How a task's outcome is kept until its handle takes it.
pub(super) trait Keep<T> {
    fn keep(outcome: T) -> Self;
    fn give(self) -> T;
}

/// In the cell.
impl<T> Keep<T> for T {
    fn keep(outcome: T) -> T {
        outcome
    }

    fn give(self) -> T {
        self
    }
}

/// Beside it, where it is too large.
pub(super) struct Apart<T>(Box<T>);

impl<T> Keep<T> for Apart<T> {
    fn keep(outcome: T) -> Self {
        Apart(Box::new(outcome))
    }

    fn give(self) -> T {
        *self.0
    }
}

/// What depends on the future's type. Each takes a cell of that type.
struct VTable {
    /// Polls; true: complete, the future is gone and the output in its place.
    poll: unsafe fn(Task, &mut Context<'_>) -> bool,
    /// Drops the future and puts the error of a cancelled task in its place.
    cancel: unsafe fn(Task),
    /// Moves the output to the place given, which is of the output's type.
    take: unsafe fn(Task, *mut ()),
    /// Drops the output.
    drop_output: unsafe fn(Task),
}

thread_local! {
    /// The task that this thread polls, if its spare reference is still there to be taken.
    static SPARE: std::cell::Cell<*mut Header> = const { std::cell::Cell::new(ptr::null_mut()) };
}

/// A pointer to a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Task(NonNull<Header>);

// SAFETY: a pointer; what may be done with it is told by the state word and each method.
unsafe impl Send for Task {}
// SAFETY: a pointer, and each use of it is checked by the state word or promised by a caller:
// shared it gives no more than copied.
unsafe impl Sync for Task {}

/// Whether a task of this future fits a block, its outcome kept as `O`.
pub(super) const fn fits<F: Future, O>() -> bool {
    size_of::<Cell<F, O>>() <= BLOCK_MAX && align_of::<Cell<F, O>>() <= GRAIN
}

/// Whether an outcome is kept in the cell.
pub(super) const fn outcome_fits<O>() -> bool {
    size_of::<O>() <= BLOCK_MAX / 2 && align_of::<O>() <= GRAIN
}

/// Drops something of the user's that may panic, and lets the pool go on.
pub(super) fn drop_quietly<T>(value: T) {
    quietly(|| drop(value));
}

impl<F: Future, O: Keep<Outcome<F>>> Cell<F, O> {
    const VTABLE: VTable = VTable {
        poll: Self::poll,
        cancel: Self::cancel,
        take: Self::take,
        drop_output: Self::drop_output,
    };

    /// # Safety
    ///
    /// `task` is a cell of this type whose stage the caller may touch, alone.
    unsafe fn with_stage<R>(task: Task, f: impl FnOnce(&mut Stage<F, O>) -> R) -> R {
        // SAFETY: the caller says that it is a cell of this type.
        let cell = unsafe { task.0.cast::<Self>().as_ref() };
        // SAFETY: the caller says that it alone may touch the stage.
        cell.stage.with_mut(|stage| f(unsafe { &mut *stage }))
    }

    /// # Safety
    ///
    /// The caller has claimed the task, and its future is there.
    unsafe fn poll(task: Task, context: &mut Context<'_>) -> bool {
        let poll = |stage: &mut Stage<F, O>| {
            let result = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: the future is there.
                let future: &mut F = unsafe { &mut stage.future };
                // SAFETY: the cell does not move, and the future is dropped in it.
                unsafe { Pin::new_unchecked(future) }.poll(context)
            }));
            let output = match result {
                Ok(Poll::Pending) => return false,
                Ok(Poll::Ready(output)) => Ok(output),
                Err(payload) => Err(JoinError::panicked(payload)),
            };
            // SAFETY: the future is there.
            unsafe { Self::finish(stage, output) };
            true
        };
        // SAFETY: the caller has claimed the task.
        unsafe { Self::with_stage(task, poll) }
    }

    /// Puts the output in the future's place.
    ///
    /// # Safety
    ///
    /// The future is there.
    unsafe fn finish(stage: &mut Stage<F, O>, output: Outcome<F>) {
        // SAFETY: the future is there, and overwritten below on every way.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe {
            ManuallyDrop::drop(&mut stage.future);
        }));
        let output = match dropped {
            Ok(()) => output,
            // The first panic is the one that is told.
            Err(second) if matches!(output, Err(JoinError::Panicked(_))) => {
                drop_quietly(second);
                output
            }
            Err(payload) => {
                drop_quietly(output);
                Err(JoinError::panicked(payload))
            }
        };
        stage.output = ManuallyDrop::new(O::keep(output));
    }

    /// # Safety
    ///
    /// As for `poll`.
    unsafe fn cancel(task: Task) {
        let drop_it = |stage: &mut Stage<F, O>| {
            // SAFETY: the future is there.
            unsafe { Self::finish(stage, Err(JoinError::Cancelled)) };
        };
        // SAFETY: the caller has claimed the task.
        unsafe { Self::with_stage(task, drop_it) };
    }

    /// # Safety
    ///
    /// The output is there and the caller's.
    unsafe fn output(task: Task) -> Outcome<F> {
        // SAFETY: the output is there, and the caller reads it once.
        let take = |stage: &mut Stage<F, O>| unsafe { ManuallyDrop::take(&mut stage.output) };
        // SAFETY: the output is the caller's.
        unsafe { Self::with_stage(task, take) }.give()
    }

    /// # Safety
    ///
    /// As for `output`; `to` is a place for a `Result<F::Output, JoinError>`.
    unsafe fn take(task: Task, to: *mut ()) {
        // SAFETY: the task is complete and its output the caller's, so nobody else touches the
        // stage.
        let output = unsafe { Self::output(task) };
        // SAFETY: validity: `to` is a place for this type, says the caller. Aliasing: it is the
        // caller's alone.
        unsafe { to.cast::<Outcome<F>>().write(output) };
    }

    /// # Safety
    ///
    /// As for `output`.
    unsafe fn drop_output(task: Task) {
        // SAFETY: the task is complete and its output the caller's, so nobody else touches the
        // stage.
        match unsafe { Self::output(task) } {
            Ok(_) if !std::mem::needs_drop::<F::Output>() => {}
            output => drop_quietly(output),
        }
    }
}

impl Task {
    /// Makes a cell in `heap`, with the state word given.
    ///
    /// # Safety
    ///
    /// The caller owns `heap`, and `fits::<F, O>()`.
    pub(super) unsafe fn new<F: Future, O: Keep<Outcome<F>>>(
        heap: &Heap,
        word: u64,
        future: F,
    ) -> Task {
        debug_assert!(fits::<F, O>());
        // SAFETY: the caller owns the heap, and the size is in range.
        let block = unsafe { heap.alloc(size_of::<Cell<F, O>>()) };
        let cell = block.cast::<Cell<F, O>>().as_ptr();
        // The block's own words stay: others may be looking at the state.
        // SAFETY: the block is ours, large and aligned enough.
        let vtable = unsafe { &raw mut (*cell).header.vtable };
        // SAFETY: validity: inside the block, aligned. Aliasing: a thread with a stale hint reads
        // the block's own words only.
        unsafe { vtable.write(&Cell::<F, O>::VTABLE) };
        // SAFETY: validity: inside the block. Aliasing: a pointer, no reference, to what only this
        // thread uses.
        let joiner = unsafe { &raw mut (*cell).header.joiner };
        // SAFETY: validity: inside the block, aligned. Aliasing: nobody else uses the joiner's
        // place yet.
        unsafe { joiner.write(UnsafeCell::new(MaybeUninit::uninit())) };
        // SAFETY: validity: inside the block, which is as large as the cell. Aliasing: a pointer,
        // no reference.
        let stage = unsafe { &raw mut (*cell).stage };
        let future = ManuallyDrop::new(future);
        // SAFETY: validity: inside the block, aligned for `F`, as `fits` says. Aliasing: nobody
        // knows the task yet.
        unsafe { stage.write(UnsafeCell::new(Stage { future })) };
        let task = Task(block.cast());
        task.state().restart(word);
        task
    }

    pub(super) fn from_block(block: NonNull<Block>) -> Task {
        Task(block.cast())
    }

    pub(super) fn as_ptr(self) -> *mut Header {
        self.0.as_ptr()
    }

    pub(super) fn from_ptr(header: *mut Header) -> Option<Task> {
        NonNull::new(header).map(Task)
    }

    /// The state word. Good for a stale hint too, while the cell's heap lives.
    #[inline]
    pub(super) fn state(&self) -> &State {
        // SAFETY: blocks are type-stable.
        unsafe { &(*self.0.as_ptr()).block.state }
    }

    /// The link for the queue that holds this task alone.
    pub(super) fn link(&self) -> &crate::sync::AtomicPtr<Block> {
        // SAFETY: blocks are type-stable.
        unsafe { &(*self.0.as_ptr()).block.next }
    }

    fn vtable(self) -> &'static VTable {
        // SAFETY: written before the task was known to anybody; the caller keeps it alive.
        unsafe { (*self.0.as_ptr()).vtable }
    }

    fn joiner(&self) -> &UnsafeCell<MaybeUninit<StoredWaker>> {
        // SAFETY: validity: written before the task was known to anybody, and the caller keeps it
        // alive. Aliasing: only shared; the state word says who may touch what is in it.
        unsafe { &(*self.0.as_ptr()).joiner }
    }

    /// Whether this task, which the caller keeps alive, is of this scheduler.
    #[inline]
    pub(super) fn is_of<S>(&self, scheduler: *const S) -> bool {
        // SAFETY: the block is live.
        ptr::addr_eq(unsafe { Heap::scheduler_at(self.0.cast()) }, scheduler)
    }

    /// The heap of this task, which the caller keeps alive.
    #[inline]
    pub(super) fn heap(&self) -> &Heap {
        // SAFETY: the block is live.
        let heap = unsafe { Heap::of(self.0.cast()) };
        // SAFETY: a heap lives while one of its blocks is out.
        unsafe { &*heap.as_ptr() }
    }

    /// Does what a step of the state word has left to do.
    ///
    /// # Safety
    ///
    /// `then` is what a step of this task's word told the caller.
    #[inline]
    pub(super) unsafe fn follow(self, then: Then) {
        match then {
            Then::Rest => {}
            Then::Enqueue => Arc::clone(&self.heap().scheduler).schedule(self),
            // SAFETY: the step made the caller the last to know the cell.
            Then::Free => unsafe { self.free() },
        }
    }

    /// # Safety
    ///
    /// The state word has told the caller to, once.
    unsafe fn free(self) {
        // SAFETY: nobody uses the cell any more; `local::heap` is the calling thread's own.
        unsafe { Heap::free(self.0.cast(), local::heap()) };
    }

    /// Polls a task that the caller has claimed, or drops its future if the claim says so.
    ///
    /// Counts what became of it in `counters`, which are the calling thread's.
    ///
    /// # Safety
    ///
    /// The caller has claimed the task, and is the worker's thread if it is bound.
    #[inline]
    pub(super) unsafe fn run(self, claim: Claim, counters: &Counters) -> Ran {
        let mut spare = claim.spare;
        if !claim.cancelled {
            let raw = RawWaker::new(self.0.as_ptr().cast(), &WAKER);
            // SAFETY: the waker is lent, not owned: `RUNNING` keeps the cell alive for it.
            let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw) });
            let mut context = Context::from_waker(&waker);
            let lent = if spare {
                self.0.as_ptr()
            } else {
                ptr::null_mut()
            };
            // A poll may run another task, of another pool, within.
            let outer = local(&SPARE, |place| place.replace(lent));
            // SAFETY: the caller has claimed the task.
            let ready = budget::fresh(|| unsafe { (self.vtable().poll)(self, &mut context) });
            if let Some(outer) = outer {
                // It was lent, and has been taken if it is not there any more.
                spare = local(&SPARE, |place| place.replace(outer)).is_some_and(|it| !it.is_null());
            }
            if ready {
                // Before the joiner can know.
                counters.finished.add(1);
                // SAFETY: the output is in the cell.
                unsafe { self.complete(spare) };
                return Ran::Complete;
            }
            match self.state().pend(spare) {
                AfterPoll::Idle => return Ran::Idle,
                AfterPoll::Again => return Ran::Again,
                AfterPoll::Cancel => {}
            }
        }
        // SAFETY: the caller has claimed the task, and its future is there.
        unsafe { (self.vtable().cancel)(self) };
        counters.cancelled.add(1);
        // SAFETY: the output is in the cell.
        unsafe { self.complete(spare) };
        Ran::Complete
    }

    /// # Safety
    ///
    /// The caller runs the task, has put the output in the cell, and knows of a spare reference.
    unsafe fn complete(self, spare: bool) {
        let mut has_output = true;
        loop {
            match self.state().complete(has_output, spare) {
                Completed::Rest => return,
                // SAFETY: the word has told us.
                Completed::Free => return unsafe { self.free() },
                Completed::DropOutput => {
                    // SAFETY: the handle is gone, the output is still the worker's.
                    unsafe { (self.vtable().drop_output)(self) };
                    has_output = false;
                }
                Completed::WakeJoiner => {
                    // SAFETY: the step made the waker the worker's.
                    let waker = unsafe { self.take_joiner() };
                    waker.wake_quietly();
                    let then = self.state().release_run();
                    // SAFETY: the step told it.
                    unsafe { self.follow(then) };
                    return;
                }
            }
        }
    }

    /// Moves the joiner's waker out.
    ///
    /// # Safety
    ///
    /// It is there and the caller's.
    pub(super) unsafe fn take_joiner(self) -> StoredWaker {
        self.joiner().with_mut(|place| {
            // SAFETY: the caller alone may touch it.
            let place = unsafe { &mut *place };
            // SAFETY: it is there, and not read again.
            unsafe { place.assume_init_read() }
        })
    }

    /// Puts the joiner's waker in.
    ///
    /// # Safety
    ///
    /// The place is empty and the caller's.
    pub(super) unsafe fn put_joiner(self, waker: StoredWaker) {
        self.joiner().with_mut(|place| {
            // SAFETY: the caller alone may touch it.
            let place = unsafe { &mut *place };
            place.write(waker);
        });
    }

    /// Moves the output out.
    ///
    /// # Safety
    ///
    /// The task is complete, its output of type `T` there and the caller's.
    pub(super) unsafe fn take_output<T>(self) -> Result<T, JoinError> {
        let mut output = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: validity: the output is there, of type `T`, and its place is `output`. Aliasing:
        // it is the caller's, once.
        unsafe { (self.vtable().take)(self, output.as_mut_ptr().cast()) };
        // SAFETY: just written.
        unsafe { output.assume_init() }
    }

    /// Drops the output.
    ///
    /// # Safety
    ///
    /// The task is complete, its output there and the caller's.
    pub(super) unsafe fn drop_output(self) {
        // SAFETY: validity: the task is complete and its output there. Aliasing: it is the
        // caller's, once.
        unsafe { (self.vtable().drop_output)(self) };
    }
}

/// What became of a task that was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    /// Its output is there, or its future was dropped unfinished.
    Complete,
    /// It waits for a wake.
    Idle,
    /// It is scheduled again, by hints unless it is bound: the caller queues it.
    Again,
}

/// The payload of a panic.
pub(super) type Payload = Box<dyn Any + Send>;

static WAKER: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

fn task_of(data: *const ()) -> Task {
    // SAFETY: the data of these wakers is a cell's address.
    Task(unsafe { NonNull::new_unchecked(data.cast_mut().cast()) })
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // Loom's threads share what is the thread's own.
    let spare = !cfg!(loom) && local(&SPARE, |place| ptr::addr_eq(place.get(), data)) == Some(true);
    if spare {
        local(&SPARE, |place| place.set(ptr::null_mut()));
    } else {
        task_of(data).state().add_reference();
    }
    RawWaker::new(data, &WAKER)
}

/// The task that a waker wakes, if it is one of ours.
#[inline]
pub(super) fn woken_by(waker: &Waker) -> Option<Task> {
    // Loom's threads share what is the thread's own.
    (!cfg!(loom) && ptr::eq(waker.vtable(), &WAKER)).then(|| task_of(waker.data()))
}

/// How much of a cell, or of what follows it, a wake fetches into the cache: its poll, if it comes
/// next, need not wait for one line after the other.
const FETCHED_BYTES: usize = 192;

unsafe fn wake(data: *const ()) {
    let task = task_of(data);
    prefetch(data, FETCHED_BYTES);
    if let Some(scheduler) = local::current_for(task) {
        if scheduler.wakes_into_slot(task, true) {
            return;
        }
        match task.state().wake_and_drop(true) {
            Then::Enqueue => scheduler.push_back(task),
            // SAFETY: the step told it.
            then => unsafe { task.follow(then) },
        }
    } else {
        // The reference is held until the task is queued: the scheduler is reached through it.
        // SAFETY: the caller's reference.
        unsafe { wake_by_ref(data) };
        // SAFETY: the caller's reference, used up.
        unsafe { drop_waker(data) };
    }
}

unsafe fn wake_by_ref(data: *const ()) {
    let task = task_of(data);
    if let Some(scheduler) = local::current_for(task) {
        if !scheduler.wakes_into_slot(task, false) && task.state().wake(true) == Then::Enqueue {
            scheduler.push_back(task);
        }
    } else {
        let then = task.state().wake(false);
        // SAFETY: the step told it.
        unsafe { task.follow(then) };
    }
}

unsafe fn drop_waker(data: *const ()) {
    let task = task_of(data);
    let then = task.state().drop_reference();
    // SAFETY: the step told it.
    unsafe { task.follow(then) };
}
