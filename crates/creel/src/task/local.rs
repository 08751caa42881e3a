//! A local scheduler: what a thread needs to run a worker's stealable tasks.
//!
//! A run queue, a LIFO slot, a heap for cells. Each worker has a local scheduler, which its own thread *holds*
//! while it runs tasks. A caller of `block_on` that stands in for a worker holds a `block_on` caller's local scheduler
//! (`block_on_driver.rs`). Who may hold one is told by `worker/idle.rs`, so that no more threads run
//! stealable tasks than the pool has workers, but for those whose code blocks them.
//!
//! A wake from a running task puts the woken one in the LIFO slot, if that is empty, and tells
//! nobody: it runs next on the same core, its data in the cache. It is claimed by the wake itself,
//! so taking it costs no atomic operation; stuck there behind a long poll it can be taken by others.

use super::cell::{Schedule, Task};
use super::lifo::Lifo;
use super::run_queue::RunQueue;
use super::slab::{CHANNEL_MAX, GRAIN, Heap};
use super::state::Claim;
use super::steal::POLL_NS_WORTH_A_STEAL;
use super::tasks::Tasks;
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Instant, Ordering, UnsafeCell, local,
    thread_local,
};
use crate::worker::idle::Search;
use crate::worker::stats::Counter;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// One worker's share of the scheduler.
pub(crate) struct LocalScheduler {
    pub(super) hints: RunQueue,
    pub(super) lifo: CachePadded<Lifo>,
    /// Made when the local scheduler is first held; then it does not change.
    pub(super) heap: AtomicPtr<Heap>,
    pub(super) own: CachePadded<UnsafeCell<Own>>,
    /// A guess of what a poll here takes, ns. Advice only.
    pub(super) poll_ns: AtomicU32,
    /// The poll count at which the watchdog found the holder stuck. Advice only.
    stuck_at: AtomicU64,
    /// A `block_on` caller's: somebody holds it. Stored by who does; advice.
    context: AtomicBool,
    /// Polls of what is no task: the future of a stand-in.
    pub(super) others: Counter,
    pub(super) counters: Counters,
    /// Of bound tasks; written by the worker's thread only.
    pub(super) bound_counters: Counters,
    /// Tasks bound to this worker that are scheduled.
    pub(super) bound: super::inject::Inject,
    /// Tasks bound to this worker that are not complete. `SeqCst`, against a worker's retirement.
    pub(super) bound_alive: AtomicUsize,
}

/// What only the holder touches.
pub(super) struct Own {
    /// Polls until the next look, and those from the last one to that; 0 before the first.
    pub(super) polls_left: u32,
    pub(super) polls_planned: u32,
    /// Polls until one is taken from outside first.
    pub(super) outside_in: u32,
    /// The pool's one search, if it is this thread's because the thread was called.
    pub(super) search: Option<Search>,
    pub(super) looked: Instant,
    pub(super) last_ns: u64,
}

/// What was done; each written by one thread at a time.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) spawned: Counter,
    pub(super) polls: Counter,
    pub(super) finished: Counter,
    pub(super) cancelled: Counter,
    pub(super) steals: Counter,
}

// SAFETY: nothing in a local scheduler belongs to a thread by its identity. `own` and the owner's part of the
// heap are the holder's alone. A worker's local scheduler passes from one thread to the next by the worker's
// `thread` lock, a `block_on` caller's by the lock of the list of free ones.
unsafe impl Send for LocalScheduler {}
// SAFETY: what is not the holder's alone is atomic or locked; see above for the rest.
unsafe impl Sync for LocalScheduler {}

#[derive(Clone, Copy)]
struct Here {
    scheduler: *const LocalScheduler,
    /// The pool's address, for comparison.
    tasks: *const Tasks,
}

thread_local! {
    /// The local scheduler that this thread holds.
    static HERE: Cell<Here> = const {
        Cell::new(Here { scheduler: ptr::null(), tasks: ptr::null() })
    };
}

/// A local scheduler that the calling thread holds; only made on that thread, and gone before it lets go.
#[derive(Clone, Copy)]
pub(super) struct LocalContext<'a> {
    pub(super) scheduler: &'a LocalScheduler,
    pub(super) tasks: &'a Tasks,
}

/// The local scheduler that this thread holds, if it is one of the task's pool and the task is not bound.
#[inline]
pub(super) fn current_for<'a>(task: Task) -> Option<LocalContext<'a>> {
    if cfg!(loom) {
        return None;
    }
    let context = here()?;
    (task.is_of(context.tasks) && task.state().slot().is_none()).then_some(context)
}

/// The local scheduler that this thread holds in this pool.
#[inline]
pub(super) fn current_in(tasks: &Tasks) -> Option<LocalContext<'_>> {
    here().filter(|context| ptr::eq(context.tasks, tasks))
}

/// Whether this thread holds a local scheduler of this pool.
pub(crate) fn runs_tasks_of(tasks: &Tasks) -> bool {
    current_in(tasks).is_some()
}

/// The local scheduler that this thread holds, in whatever pool.
///
/// The caller does not keep it longer than the thread holds the local scheduler.
#[inline]
pub(super) fn here<'a>() -> Option<LocalContext<'a>> {
    let here = local(&HERE, Cell::get).filter(|here| !here.scheduler.is_null())?;
    // SAFETY: the thread holds a local scheduler of this pool, which therefore lives.
    let tasks = unsafe { &*here.tasks };
    // SAFETY: validity: schedulers are in a table of `tasks`, which lives. Aliasing: it is only shared;
    // `own` is touched by this thread alone, which holds the local scheduler.
    let scheduler = unsafe { &*here.scheduler };
    Some(LocalContext { scheduler, tasks })
}

/// Whether this thread may take a local scheduler: it holds none, and is not about to end.
pub(super) fn may_attach() -> bool {
    local(&HERE, Cell::get).is_some_and(|here| here.scheduler.is_null())
}

/// The heap of the local scheduler that this thread holds.
#[inline]
pub(super) fn heap() -> Option<NonNull<Heap>> {
    if cfg!(loom) {
        return None;
    }
    let here = local(&HERE, Cell::get).filter(|here| !here.scheduler.is_null())?;
    // SAFETY: the thread holds the local scheduler.
    NonNull::new(unsafe { &*here.scheduler }.heap.load(Ordering::Relaxed))
}

/// Memory for a channel of type `C`, from the heap of the local scheduler that this thread holds; `None` if
/// it holds none or the channel is too large.
#[inline]
pub(crate) fn block_for_channel<C>() -> Option<NonNull<C>> {
    // A block is reused as plain memory, which a model checker's atomics are not.
    if cfg!(shuttle) || size_of::<C>() > CHANNEL_MAX || align_of::<C>() > GRAIN {
        return None;
    }
    // SAFETY: this thread holds the local scheduler and so owns its heap, which lives.
    let heap = unsafe { heap()?.as_ref() };
    // SAFETY: validity: the size was looked at. Aliasing: this thread holds the local scheduler, so it is the
    // heap's owner.
    Some(unsafe { heap.alloc_for_channel(size_of::<C>()) }.cast())
}

/// Gives the memory of a channel back, on any thread.
///
/// # Safety
///
/// It came from [`block_for_channel`] and is not used again.
#[inline]
pub(crate) unsafe fn free_channel<C>(channel: NonNull<C>) {
    // SAFETY: validity: a block from a heap of schedulers, which lives while the block is out. Aliasing:
    // it is not used again, says the caller; `heap` is the calling thread's own.
    unsafe { Heap::free(channel.cast(), heap()) };
}

impl LocalScheduler {
    pub(crate) fn new() -> Self {
        Self {
            hints: RunQueue::new(),
            lifo: CachePadded::new(Lifo::new()),
            heap: AtomicPtr::new(ptr::null_mut()),
            own: CachePadded::new(UnsafeCell::new(Own {
                polls_left: 0,
                polls_planned: 0,
                outside_in: super::local_context::OUTSIDE_EVERY,
                search: None,
                looked: Instant::now(),
                last_ns: 0,
            })),
            poll_ns: AtomicU32::new(0),
            stuck_at: AtomicU64::new(u64::MAX),
            context: AtomicBool::new(false),
            others: Counter::default(),
            counters: Counters::default(),
            bound_counters: Counters::default(),
            bound: super::inject::Inject::new(),
            bound_alive: AtomicUsize::new(0),
        }
    }

    /// Marks the local scheduler as the calling thread's.
    ///
    /// # Safety
    ///
    /// It is the worker's own, or a `block_on` caller's that this thread has been given; the thread holds no
    /// other.
    pub(super) unsafe fn attach(&self, tasks: &Tasks) {
        if self.heap.load(Ordering::Relaxed).is_null() {
            let scheduler: Arc<dyn Schedule> = tasks.counted();
            self.heap
                .store(Heap::new(scheduler).as_ptr(), Ordering::Release);
        }
        self.own.with_mut(|own| {
            // SAFETY: the thread holds the local scheduler.
            let own = unsafe { &mut *own };
            own.looked = Instant::now();
            own.polls_left = 0;
            own.polls_planned = 0;
            debug_assert!(own.search.is_none(), "the last holder has ended its search");
        });
        self.context.store(true, Ordering::Relaxed);
        let here = Here {
            scheduler: self,
            tasks,
        };
        local(&HERE, |place| place.set(here));
    }

    /// The heap, if the local scheduler was ever held.
    pub(super) fn heap(&self) -> Option<NonNull<Heap>> {
        NonNull::new(self.heap.load(Ordering::Acquire))
    }

    /// Claims a task that a stand-in left here, at the pool's end.
    ///
    /// # Safety
    ///
    /// Nobody holds the local scheduler, nor will.
    pub(super) unsafe fn pop_left(&self) -> Option<(Task, Claim)> {
        // SAFETY: the caller is as good as the holder.
        if let Some(task) = unsafe { self.lifo.take() } {
            return Some((task, task.state().claimed()));
        }
        let claim = |task: Task| Some((task, task.state().claim_hinted()?));
        // SAFETY: nobody holds the local scheduler, nor will, so the caller is its queue's only owner.
        std::iter::from_fn(|| unsafe { self.hints.pop() }).find_map(claim)
    }

    /// Forgets the heap, at the pool's end.
    pub(super) fn take_heap(&self) -> Option<NonNull<Heap>> {
        NonNull::new(self.heap.swap(ptr::null_mut(), Ordering::AcqRel))
    }

    /// Whether scheduled tasks lie here; a moment ago, and stale hints count.
    pub(super) fn has_hints(&self) -> bool {
        !self.lifo.is_empty() || self.hints.len() > 0
    }

    /// Whether one task lies here and polls were short of late.
    pub(super) fn has_short_chain(&self) -> bool {
        let short = (1..POLL_NS_WORTH_A_STEAL).contains(&self.poll_ns());
        short && self.has_hints() && self.hints.len() <= 1
    }

    /// What a poll here takes, ns, by a recent guess.
    pub(super) fn poll_ns(&self) -> u32 {
        self.poll_ns.load(Ordering::Relaxed)
    }

    /// How far its holder has come: the polls begun.
    pub(super) fn progress(&self) -> u64 {
        let bound = self.bound_counters.polls.get();
        self.counters.polls.get() + self.others.get() + bound
    }

    /// The watchdog has seen no progress beyond this.
    pub(super) fn mark_stuck(&self, progress: u64) {
        self.stuck_at.store(progress, Ordering::Relaxed);
    }

    /// Whether the holder is still where the watchdog found it stuck.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck_at.load(Ordering::Relaxed) == self.progress()
    }

    /// A `block_on` caller's: whether somebody holds it.
    pub(super) fn is_held(&self) -> bool {
        self.context.load(Ordering::Relaxed)
    }

    /// Claims a task from this local scheduler for the thread that holds `own`: from the queue, or, if
    /// `slot`, from the LIFO slot too.
    ///
    /// # Safety
    ///
    /// The caller holds `own`, which is another local scheduler.
    pub(super) unsafe fn steal(&self, own: &LocalScheduler, slot: bool) -> Option<(Task, Claim)> {
        // SAFETY: validity: queues live with their schedulers. Aliasing: the caller holds `own`, so it
        // is its queue's owner, and only reads this one.
        unsafe { self.hints.steal(&own.hints) }.or_else(|| {
            let task = slot.then(|| self.lifo.steal())??;
            Some((task, task.state().claimed()))
        })
    }
}

impl LocalContext<'_> {
    /// The reverse of [`LocalScheduler::attach`].
    pub(super) fn detach_thread(self) {
        self.scheduler.context.store(false, Ordering::Relaxed);
        let nowhere = Here {
            scheduler: ptr::null(),
            tasks: ptr::null(),
        };
        local(&HERE, |place| place.set(nowhere));
    }
}
