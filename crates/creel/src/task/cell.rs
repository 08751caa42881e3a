//! The cell of a task, which contains its state word, its future or output, and the place of the
//! joiner's waker.
//!
//! Invariant: the state word (`state.rs`) decides which thread may access which part of a cell. The
//! running worker may access the future. Before completion, the handle may access the place of the
//! joiner's waker. After completion, the handle may access the output. All user code runs under
//! `catch_unwind` and outside of any lock. This covers polls, the drop of a future, of an output or
//! of a panic's payload, and the joiner's waker.
//!
//! A task is queued as a [`Task`], which is a pointer without a reference count, because the state
//! word keeps the task alive.

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

/// A scheduler, which puts scheduled tasks into a queue. A pool implements it, and so do tests.
pub(super) trait Schedule: Send + Sync {
    /// Queues a task that has just become scheduled without hints, which means that `HINTED` in its
    /// state word is not set (`state.rs`). Any thread may call this.
    fn schedule(self: Arc<Self>, task: Task);
}

/// The beginning of every cell, which is the same for all types of futures.
#[repr(C)]
pub(super) struct Header {
    block: Block,
    vtable: &'static VTable,
    /// The waker of the handle (the joiner), if `JOINER` is set in the state word.
    joiner: UnsafeCell<MaybeUninit<StoredWaker>>,
}

#[repr(C)]
struct Cell<F: Future, O> {
    header: Header,
    stage: UnsafeCell<Stage<F, O>>,
}

/// The task's *stage*: the future until it is complete, and then the output in the form in which it
/// is kept.
union Stage<F: Future, O> {
    future: ManuallyDrop<F>,
    output: ManuallyDrop<O>,
}

/// The result that the handle of a task returns.
pub(super) type Outcome<F> = Result<<F as Future>::Output, JoinError>;

/// A form in which a task's outcome is kept until its handle takes it.
pub(super) trait Keep<T> {
    fn keep(outcome: T) -> Self;
    fn give(self) -> T;
}

/// The outcome is kept directly in the cell.
impl<T> Keep<T> for T {
    fn keep(outcome: T) -> T {
        outcome
    }

    fn give(self) -> T {
        self
    }
}

/// An outcome that is too large for the cell, and is therefore kept in a box.
pub(super) struct Apart<T>(Box<T>);

impl<T> Keep<T> for Apart<T> {
    fn keep(outcome: T) -> Self {
        Apart(Box::new(outcome))
    }

    fn give(self) -> T {
        *self.0
    }
}

/// The functions that depend on the type of the future. Each of them takes a cell of that type.
struct VTable {
    /// Polls the future. Returns true if it is complete. In that case the future is gone and the
    /// output is in its place.
    poll: unsafe fn(Task, &mut Context<'_>) -> bool,
    /// Drops the future and puts the error of a cancelled task in its place. If the drop panics,
    /// this puts the panic there instead.
    cancel: unsafe fn(Task),
    /// Moves the output to the given place, which must be of the output's type.
    take: unsafe fn(Task, *mut ()),
    drop_output: unsafe fn(Task),
}

thread_local! {
    /// The task that this thread polls, as long as no waker has taken its spare reference (`SPARE`
    /// in `state.rs`). It is null otherwise.
    static SPARE: std::cell::Cell<*mut Header> = const { std::cell::Cell::new(ptr::null_mut()) };
}

/// A pointer to a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Task(NonNull<Header>);

// SAFETY: this is only a pointer. The state word and the contract of each method decide how it may
// be used.
unsafe impl Send for Task {}
// SAFETY: this is only a pointer. The state word checks each use of it, or the caller guarantees
// it. A shared reference therefore gives no more access than a copy.
unsafe impl Sync for Task {}

/// Returns whether a task with this future, and with its outcome kept as `O`, fits into a block.
pub(super) const fn fits<F: Future, O>() -> bool {
    size_of::<Cell<F, O>>() <= BLOCK_MAX && align_of::<Cell<F, O>>() <= GRAIN
}

/// Returns whether an outcome is kept in the cell.
pub(super) const fn outcome_fits<O>() -> bool {
    size_of::<O>() <= BLOCK_MAX / 2 && align_of::<O>() <= GRAIN
}

/// Drops a value of the user, which may panic, and catches the panic so that the pool continues.
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

    /// Calls `f` with the future or output of the cell.
    ///
    /// # Safety
    ///
    /// `task` must be a cell of this type, and only the caller may access its stage.
    unsafe fn with_stage<R>(task: Task, f: impl FnOnce(&mut Stage<F, O>) -> R) -> R {
        // SAFETY: the caller guarantees that it is a cell of this type.
        let cell = unsafe { task.0.cast::<Self>().as_ref() };
        // SAFETY: the caller guarantees that no other thread may access the stage.
        cell.stage.with_mut(|stage| f(unsafe { &mut *stage }))
    }

    /// Polls the future. Returns whether it is complete. In that case the output is in its place.
    ///
    /// # Safety
    ///
    /// The caller must have claimed the task, and its future must be there.
    unsafe fn poll(task: Task, context: &mut Context<'_>) -> bool {
        let poll = |stage: &mut Stage<F, O>| {
            let result = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: the caller guarantees that the cell still contains the future.
                let future: &mut F = unsafe { &mut stage.future };
                // SAFETY: the cell does not move, and the future is dropped in place.
                unsafe { Pin::new_unchecked(future) }.poll(context)
            }));
            let output = match result {
                Ok(Poll::Pending) => return false,
                Ok(Poll::Ready(output)) => Ok(output),
                Err(payload) => Err(JoinError::panicked(payload)),
            };
            // SAFETY: the caller guarantees that the cell still contains the future.
            unsafe { Self::finish(stage, output) };
            true
        };
        // SAFETY: the caller has claimed the task, so only this thread accesses its future.
        unsafe { Self::with_stage(task, poll) }
    }

    /// Puts the output in the place of the future.
    ///
    /// # Safety
    ///
    /// The future must be there.
    unsafe fn finish(stage: &mut Stage<F, O>, output: Outcome<F>) {
        // SAFETY: the future is there, and is overwritten below in every case.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe {
            ManuallyDrop::drop(&mut stage.future);
        }));
        let output = match dropped {
            Ok(()) => output,
            // The task has panicked already. We report only the first panic and drop this one.
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

    /// Drops the future, and puts the error of a cancelled task in its place.
    ///
    /// # Safety
    ///
    /// The same conditions as for `poll` apply.
    unsafe fn cancel(task: Task) {
        let drop_it = |stage: &mut Stage<F, O>| {
            // SAFETY: the caller guarantees that the cell still contains the future.
            unsafe { Self::finish(stage, Err(JoinError::Cancelled)) };
        };
        // SAFETY: the caller has claimed the task, so only this thread accesses its future.
        unsafe { Self::with_stage(task, drop_it) };
    }

    /// Moves the outcome out of the cell.
    ///
    /// # Safety
    ///
    /// The output must be there and belong to the caller.
    unsafe fn output(task: Task) -> Outcome<F> {
        // SAFETY: the output is there, and the caller reads it once.
        let take = |stage: &mut Stage<F, O>| unsafe { ManuallyDrop::take(&mut stage.output) };
        // SAFETY: the output belongs to the caller.
        unsafe { Self::with_stage(task, take) }.give()
    }

    /// Moves the outcome to the place `to`.
    ///
    /// # Safety
    ///
    /// The same conditions as for `output` apply. In addition, `to` must be a place for a
    /// `Result<F::Output, JoinError>`.
    unsafe fn take(task: Task, to: *mut ()) {
        // SAFETY: the task is complete and its output belongs to the caller, so no other thread
        // accesses the stage.
        let output = unsafe { Self::output(task) };
        // SAFETY: validity: the caller guarantees that `to` is a place for this type. Aliasing:
        // only the caller uses it.
        unsafe { to.cast::<Outcome<F>>().write(output) };
    }

    /// Drops the outcome. A panic in its drop is caught.
    ///
    /// # Safety
    ///
    /// The same conditions as for `output` apply.
    unsafe fn drop_output(task: Task) {
        // SAFETY: the task is complete and its output belongs to the caller, so no other thread
        // accesses the stage.
        match unsafe { Self::output(task) } {
            Ok(_) if !std::mem::needs_drop::<F::Output>() => {}
            output => drop_quietly(output),
        }
    }
}

impl Task {
    /// Creates a cell in `heap`, with the given state word.
    ///
    /// # Safety
    ///
    /// The caller must own `heap`, and `fits::<F, O>()` must be true.
    pub(super) unsafe fn new<F: Future, O: Keep<Outcome<F>>>(
        heap: &Heap,
        word: u64,
        future: F,
    ) -> Task {
        debug_assert!(fits::<F, O>());
        // SAFETY: the caller owns the heap, and the size is in range.
        let block = unsafe { heap.alloc(size_of::<Cell<F, O>>()) };
        let cell = block.cast::<Cell<F, O>>().as_ptr();
        // We write only the parts behind the block's own words, because other threads may read its
        // state word.
        // SAFETY: the block belongs to us, and is large and aligned enough.
        let vtable = unsafe { &raw mut (*cell).header.vtable };
        // SAFETY: validity: the pointer is inside the block and aligned. Aliasing: a thread with a
        // stale hint reads only the block's own words.
        unsafe { vtable.write(&Cell::<F, O>::VTABLE) };
        // SAFETY: validity: the pointer is inside the block. Aliasing: we create a pointer and not
        // a reference, to a part that only this thread uses.
        let joiner = unsafe { &raw mut (*cell).header.joiner };
        // SAFETY: validity: the pointer is inside the block and aligned. Aliasing: no other thread
        // uses the joiner's place yet.
        unsafe { joiner.write(UnsafeCell::new(MaybeUninit::uninit())) };
        // SAFETY: validity: the pointer is inside the block, which is as large as the cell.
        // Aliasing: we create a pointer and not a reference.
        let stage = unsafe { &raw mut (*cell).stage };
        let future = ManuallyDrop::new(future);
        // SAFETY: validity: the pointer is inside the block and aligned for `F`, because `fits` is
        // true. Aliasing: no other thread knows the task yet.
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

    /// Returns the state word. This works for a stale hint too, as long as the cell's heap lives.
    #[inline]
    pub(super) fn state(&self) -> &State {
        // SAFETY: blocks are type-stable.
        unsafe { &(*self.0.as_ptr()).block.state }
    }

    /// Returns the link for the only queue that holds this task.
    pub(super) fn link(&self) -> &crate::sync::AtomicPtr<Block> {
        // SAFETY: blocks are type-stable.
        unsafe { &(*self.0.as_ptr()).block.next }
    }

    fn vtable(self) -> &'static VTable {
        // SAFETY: the pointer was written before any other thread knew the task, and the caller
        // keeps the task alive.
        unsafe { (*self.0.as_ptr()).vtable }
    }

    fn joiner(&self) -> &UnsafeCell<MaybeUninit<StoredWaker>> {
        // SAFETY: validity: it was written before any other thread knew the task, and the caller
        // keeps the task alive. Aliasing: the reference is shared, and the state word decides which
        // thread may access the contents.
        unsafe { &(*self.0.as_ptr()).joiner }
    }

    /// Returns whether this task belongs to the given scheduler. The caller must keep the task
    /// alive.
    #[inline]
    pub(super) fn is_of<S>(&self, scheduler: *const S) -> bool {
        // SAFETY: the caller keeps the task alive, so its block is in use.
        ptr::addr_eq(unsafe { Heap::scheduler_at(self.0.cast()) }, scheduler)
    }

    /// Returns the heap of this task. The caller must keep the task alive.
    #[inline]
    pub(super) fn heap(&self) -> &Heap {
        // SAFETY: the caller keeps the task alive, so its block is in use.
        let heap = unsafe { Heap::of(self.0.cast()) };
        // SAFETY: a heap lives as long as one of its blocks is in use.
        unsafe { &*heap.as_ptr() }
    }

    /// Does the action that a step of the state word has returned.
    ///
    /// # Safety
    ///
    /// `then` must be the result of a step of this task's state word.
    #[inline]
    pub(super) unsafe fn follow(self, then: Then) {
        match then {
            Then::Rest => {}
            Then::Enqueue => Arc::clone(&self.heap().scheduler).schedule(self),
            // SAFETY: after the step, only the caller knows the cell.
            Then::Free => unsafe { self.free() },
        }
    }

    /// Frees the cell.
    ///
    /// # Safety
    ///
    /// A step of the state word must have returned to the caller the action to free the cell. The
    /// caller must call this only once.
    unsafe fn free(self) {
        // SAFETY: no thread uses the cell any more, and `local::heap` belongs to the calling
        // thread.
        unsafe { Heap::free(self.0.cast(), local::heap()) };
    }

    /// Polls a task that the caller has claimed, or drops its future if the claim is cancelled. It
    /// counts the result in `counters`, which belong to the calling thread.
    ///
    /// # Safety
    ///
    /// The caller must have claimed the task. If the task is bound, the caller must be the thread
    /// of its worker.
    #[inline]
    pub(super) unsafe fn run(self, claim: Claim, counters: &Counters) -> Ran {
        let mut spare = claim.spare;
        if !claim.cancelled {
            let raw = RawWaker::new(self.0.as_ptr().cast(), &WAKER);
            // SAFETY: the waker is borrowed and not owned. `RUNNING` keeps the cell alive for it.
            let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw) });
            let mut context = Context::from_waker(&waker);
            let lent = if spare {
                self.0.as_ptr()
            } else {
                ptr::null_mut()
            };
            // We save the outer value, because a poll may run another task inside it, for example
            // in a `block_on` of another pool.
            let outer = local(&SPARE, |place| place.replace(lent));
            // SAFETY: the caller has claimed the task, so only this thread accesses its future.
            let ready = budget::fresh(|| unsafe { (self.vtable().poll)(self, &mut context) });
            if let Some(outer) = outer {
                // The spare reference was offered to the wakers of this poll. If `SPARE` no longer
                // holds it, a waker has taken it.
                spare = local(&SPARE, |place| place.replace(outer)).is_some_and(|it| !it.is_null());
            }
            if ready {
                // We count before we complete the task, so that a caller that joins it sees the
                // count.
                counters.finished.add(1);
                // SAFETY: the output, or the error of a cancelled task, is in the cell.
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
        // SAFETY: the output, or the error of a cancelled task, is in the cell.
        unsafe { self.complete(spare) };
        Ran::Complete
    }

    /// Completes the task, and wakes the waker that its handle has registered, for example that of
    /// another task or of a caller of `block_on`.
    ///
    /// # Safety
    ///
    /// The caller must be running the task and must have put the output into the cell. `spare` must
    /// say whether the spare reference is still there.
    unsafe fn complete(self, spare: bool) {
        let mut has_output = true;
        loop {
            match self.state().complete(has_output, spare) {
                Completed::Rest => return,
                // SAFETY: the step of the state word has returned this action.
                Completed::Free => return unsafe { self.free() },
                Completed::DropOutput => {
                    // SAFETY: the handle is gone, so the output still belongs to the worker.
                    unsafe { (self.vtable().drop_output)(self) };
                    has_output = false;
                }
                Completed::WakeJoiner => {
                    // SAFETY: after the step, the waker belongs to the worker.
                    let waker = unsafe { self.take_joiner() };
                    waker.wake_quietly();
                    let then = self.state().release_run();
                    // SAFETY: the step of the state word has returned this action.
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
    /// The waker must be there and belong to the caller.
    pub(super) unsafe fn take_joiner(self) -> StoredWaker {
        self.joiner().with_mut(|place| {
            // SAFETY: the place of the waker belongs to the caller alone.
            let place = unsafe { &mut *place };
            // SAFETY: the waker is there, and is not read again.
            unsafe { place.assume_init_read() }
        })
    }

    /// Puts the joiner's waker in.
    ///
    /// # Safety
    ///
    /// The place must be empty and belong to the caller.
    pub(super) unsafe fn put_joiner(self, waker: StoredWaker) {
        self.joiner().with_mut(|place| {
            // SAFETY: the place of the waker belongs to the caller alone.
            let place = unsafe { &mut *place };
            place.write(waker);
        });
    }

    /// Moves the output out.
    ///
    /// # Safety
    ///
    /// The task must be complete. Its output must be of type `T`, be there, and belong to the
    /// caller.
    pub(super) unsafe fn take_output<T>(self) -> Result<T, JoinError> {
        let mut output = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: validity: the output is there and of type `T`, and `output` is a place for it.
        // Aliasing: it belongs to the caller, which takes it once.
        unsafe { (self.vtable().take)(self, output.as_mut_ptr().cast()) };
        // SAFETY: the output has just been written to this place.
        unsafe { output.assume_init() }
    }

    /// Drops the output.
    ///
    /// # Safety
    ///
    /// The task must be complete. Its output must be there and belong to the caller.
    pub(super) unsafe fn drop_output(self) {
        // SAFETY: validity: the task is complete and its output is there. Aliasing: it belongs to
        // the caller, which drops it once.
        unsafe { (self.vtable().drop_output)(self) };
    }
}

/// The result of running a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    /// The task is complete. Its output is there, or its future was dropped unfinished.
    Complete,
    /// The task waits for a wake-up.
    Idle,
    /// The task is scheduled again, by hints unless it is bound. The caller must queue it.
    Again,
}

/// The payload of a panic.
pub(super) type Payload = Box<dyn Any + Send>;

static WAKER: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

fn task_of(data: *const ()) -> Task {
    // SAFETY: the data of these wakers is the address of a cell.
    Task(unsafe { NonNull::new_unchecked(data.cast_mut().cast()) })
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // Under loom we cannot use the thread-local `SPARE`, because loom's threads share it.
    let spare =
        !cfg!(creel_loom) && local(&SPARE, |place| ptr::addr_eq(place.get(), data)) == Some(true);
    if spare {
        local(&SPARE, |place| place.set(ptr::null_mut()));
    } else {
        task_of(data).state().add_reference();
    }
    RawWaker::new(data, &WAKER)
}

/// Returns the task that a waker wakes, if the waker belongs to Creel.
#[inline]
pub(super) fn woken_by(waker: &Waker) -> Option<Task> {
    // Under loom we cannot use thread-locals, because loom's threads share them.
    (!cfg!(creel_loom) && ptr::eq(waker.vtable(), &WAKER)).then(|| task_of(waker.data()))
}

/// The number of bytes of a cell, and of the memory behind it, that a wake-up prefetches into the
/// cache. If the task is polled next, the poll need not wait for one cache line after the other.
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
            // SAFETY: the step of the state word has returned this action.
            then => unsafe { task.follow(then) },
        }
    } else {
        // We hold the reference until the task is queued, because we reach the scheduler through
        // it.
        // SAFETY: the reference belongs to the caller.
        unsafe { wake_by_ref(data) };
        // SAFETY: the reference belongs to the caller and is used up here.
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
        // SAFETY: the step of the state word has returned this action.
        unsafe { task.follow(then) };
    }
}

unsafe fn drop_waker(data: *const ()) {
    let task = task_of(data);
    let then = task.state().drop_reference();
    // SAFETY: the step of the state word has returned this action.
    unsafe { task.follow(then) };
}
