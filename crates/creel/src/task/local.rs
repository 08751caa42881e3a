//! The local scheduler, which holds everything that a thread needs to run a worker's stealable
//! tasks.
//!
//! It consists of a run queue, a LIFO slot and a heap for task cells. Each worker has a local
//! scheduler, which its own thread *holds* while it runs tasks. A caller of `block_on` that runs
//! tasks in place of a worker holds a local scheduler of its own (`block_on_driver.rs`).
//! `worker/idle.rs` decides which threads may hold one. No more threads run stealable tasks than
//! the pool has workers, except for threads whose code blocks them.
//!
//! If a running task wakes another one and the LIFO slot is empty, the woken task goes there, and
//! no other worker is notified. It runs next on the same core, where its data is in the cache. The
//! wake-up itself claims the task, so that taking it out costs no atomic operation. If the task is
//! stuck there behind a long poll, other threads can take it.

use super::cell::{Schedule, Task};
use super::inject::Inject;
use super::lifo::Lifo;
use super::run_queue::RunQueue;
use super::slab::{CHANNEL_MAX, GRAIN, Heap};
use super::state::Claim;
use super::steal::{POLL_NS_WORTH_A_STEAL, copies};
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

/// A local scheduler: the queues, the heap and the counters with which one thread at a time runs
/// tasks.
pub(crate) struct LocalScheduler {
    pub(super) hints: RunQueue,
    pub(super) lifo: CachePadded<Lifo>,
    /// The heap, which is created when the local scheduler is first held and does not change until
    /// the pool ends.
    pub(super) heap: AtomicPtr<Heap>,
    pub(super) own: CachePadded<UnsafeCell<Own>>,
    /// What thieves read. It rarely changes, and has a cache line of its own.
    for_thieves: CachePadded<ForThieves>,
    /// Whether a thread holds this local scheduler. The watchdog reads it for the local schedulers
    /// of `block_on` callers. The holder stores it. It is only a hint.
    context: AtomicBool,
    /// The number of polls of futures that are not tasks, which are the futures of `block_on`
    /// drivers.
    pub(super) others: Counter,
    pub(super) counters: Counters,
    /// The counters of bound tasks. Only the worker's thread writes them.
    pub(super) bound_counters: Counters,
    /// The scheduled tasks that are bound to this worker.
    pub(super) bound: Inject,
    /// The bound tasks that bound tasks of the current chain have woken (`LocalScheduler::run_chain`
    /// in `turn.rs`). It is empty between two chains.
    pub(super) chain: Inject,
    /// Whether the worker's thread runs a chain. Only this thread writes it and relies on it, so
    /// relaxed is enough.
    pub(super) chains: AtomicBool,
    /// The number of tasks bound to this worker that are not complete. It is `SeqCst`. A spawn
    /// increments it and then reads whether the thread is running. A thread that retires stores
    /// that it is not running and then reads this. At least one of them sees the other's write.
    /// Otherwise, a new task could be left on a worker without a thread.
    pub(super) bound_alive: AtomicUsize,
}

/// The values from which thieves judge whether a steal is worth its cost.
struct ForThieves {
    /// An estimate of the duration of one poll in this local scheduler, in ns. It is only a hint.
    poll_ns: AtomicU32,
    /// The number of polls so far when the watchdog found the holder stuck. It is only a hint. It is
    /// `u64::MAX` before that.
    stuck_at: AtomicU64,
    /// The number of tasks that thieves may still take before the watchdog's next check, if the
    /// holder is stuck and the polls are too short to be worth a steal. It is only a hint.
    allowance_left: AtomicUsize,
    /// The value of `allowance_left` after the last check.
    allowance: AtomicUsize,
}

/// The first value of [`ForThieves::allowance_left`] for a stuck holder. It doubles with each
/// further check.
const ALLOWANCE_MIN: usize = 256;

/// The state that only the holder accesses.
pub(super) struct Own {
    /// The number of polls until the next maintenance.
    pub(super) polls_left: u32,
    /// The number of polls between the last maintenance and the next one. It is 0 before the first
    /// maintenance.
    pub(super) polls_planned: u32,
    /// The number of polls until a task from the injection queue has priority.
    pub(super) outside_in: u32,
    /// The search for work that this thread owns, if it was notified. A pool has at most one
    /// search.
    pub(super) search: Option<Search>,
    pub(super) looked: Instant,
    pub(super) last_ns: u64,
}

/// The counters of spawned, polled, stolen and ended tasks. Only one thread writes them at a time.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) spawned: Counter,
    pub(super) polls: Counter,
    pub(super) finished: Counter,
    pub(super) cancelled: Counter,
    pub(super) steals: Counter,
}

// SAFETY: nothing in a local scheduler depends on the identity of a thread. Only the holder
// accesses `own` and the owner's part of the heap. The local scheduler of a worker passes from one
// thread to the next by the worker's `thread` lock. The local scheduler of a `block_on` caller
// passes by the lock of the list of free local schedulers.
unsafe impl Send for LocalScheduler {}
// SAFETY: everything that other threads than the holder access is atomic or locked. The comment
// above covers the rest.
unsafe impl Sync for LocalScheduler {}

#[derive(Clone, Copy)]
struct Current {
    scheduler: *const LocalScheduler,
    /// The address of the pool's tasks, for comparison.
    tasks: *const Tasks,
}

thread_local! {
    /// The local scheduler that the calling thread holds.
    static CURRENT: Cell<Current> = const {
        Cell::new(Current { scheduler: ptr::null(), tasks: ptr::null() })
    };
}

/// A local scheduler that the calling thread holds. It is only created on that thread, and is gone
/// before the thread releases the local scheduler.
#[derive(Clone, Copy)]
pub(super) struct LocalContext<'a> {
    pub(super) scheduler: &'a LocalScheduler,
    pub(super) tasks: &'a Tasks,
}

/// Returns the local scheduler that this thread holds, if it belongs to the task's pool and the
/// task is not bound.
#[inline]
pub(super) fn current_for<'a>(task: Task) -> Option<LocalContext<'a>> {
    if cfg!(creel_loom) {
        return None;
    }
    let context = current()?;
    (task.is_of(context.tasks) && task.state().slot().is_none()).then_some(context)
}

/// Returns the local scheduler that this thread holds, if it belongs to this pool.
#[inline]
pub(super) fn current_in(tasks: &Tasks) -> Option<LocalContext<'_>> {
    current().filter(|context| ptr::eq(context.tasks, tasks))
}

/// Returns whether this thread holds a local scheduler of this pool.
pub(super) fn runs_tasks_of(tasks: &Tasks) -> bool {
    current_in(tasks).is_some()
}

/// Returns the local scheduler that this thread holds, in any pool.
///
/// The caller must not keep it longer than the thread holds the local scheduler.
#[inline]
pub(super) fn current<'a>() -> Option<LocalContext<'a>> {
    let current = local(&CURRENT, Cell::get).filter(|current| !current.scheduler.is_null())?;
    // SAFETY: the thread holds a local scheduler of this pool, and the pool lives as long.
    let tasks = unsafe { &*current.tasks };
    // SAFETY: validity: the local schedulers are in a table of `tasks`, which is alive. Aliasing:
    // the reference is shared, and only this thread accesses `own`, because it holds the local
    // scheduler.
    let scheduler = unsafe { &*current.scheduler };
    Some(LocalContext { scheduler, tasks })
}

/// Returns whether this thread may take a local scheduler. It must hold none, and its thread-locals
/// must not have been destroyed.
pub(super) fn may_attach() -> bool {
    local(&CURRENT, Cell::get).is_some_and(|current| current.scheduler.is_null())
}

/// Returns the heap of the local scheduler that this thread holds.
#[inline]
pub(super) fn heap() -> Option<NonNull<Heap>> {
    if cfg!(creel_loom) {
        return None;
    }
    let current = local(&CURRENT, Cell::get).filter(|current| !current.scheduler.is_null())?;
    // SAFETY: the thread holds the local scheduler, which is therefore alive.
    NonNull::new(unsafe { &*current.scheduler }.heap.load(Ordering::Relaxed))
}

/// Allocates memory for a channel of type `C` from the heap of the local scheduler that this thread
/// holds. Returns `None` if the thread holds none, or if the channel is too large or needs a larger
/// alignment than the heap has.
#[inline]
pub(crate) fn block_for_channel<C>() -> Option<NonNull<C>> {
    // A freed block is reused as plain memory for another type. This does not work with the atomics
    // of a model checker.
    if cfg!(creel_shuttle) || size_of::<C>() > CHANNEL_MAX || align_of::<C>() > GRAIN {
        return None;
    }
    // SAFETY: this thread holds the local scheduler and therefore owns its heap, which is alive.
    let heap = unsafe { heap()?.as_ref() };
    // SAFETY: validity: we have checked the size. Aliasing: this thread holds the local scheduler,
    // so it is the owner of the heap.
    Some(unsafe { heap.alloc_for_channel(size_of::<C>()) }.cast())
}

/// Frees the memory of a channel, on any thread.
///
/// # Safety
///
/// The memory must come from [`block_for_channel`], and must not be used again.
#[inline]
pub(crate) unsafe fn free_channel<C>(channel: NonNull<C>) {
    // SAFETY: validity: the block comes from the heap of a local scheduler, which lives as long as
    // the block is in use. Aliasing: the caller guarantees that it is not used again, and `heap`
    // belongs to the calling thread.
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
            for_thieves: CachePadded::new(ForThieves {
                poll_ns: AtomicU32::new(0),
                stuck_at: AtomicU64::new(u64::MAX),
                allowance_left: AtomicUsize::new(0),
                allowance: AtomicUsize::new(0),
            }),
            context: AtomicBool::new(false),
            others: Counter::default(),
            counters: Counters::default(),
            bound_counters: Counters::default(),
            bound: Inject::new(),
            chain: Inject::new(),
            chains: AtomicBool::new(false),
            bound_alive: AtomicUsize::new(0),
        }
    }

    /// Marks the local scheduler as held by the calling thread.
    ///
    /// # Safety
    ///
    /// The local scheduler must belong to the worker that the thread serves, or be one for
    /// `block_on` callers that this thread has been given. The thread must hold no other.
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
        let current = Current {
            scheduler: self,
            tasks,
        };
        local(&CURRENT, |place| place.set(current));
    }

    /// Returns the heap, or `None` if the local scheduler has never been held or its heap has been
    /// removed.
    pub(super) fn heap(&self) -> Option<NonNull<Heap>> {
        NonNull::new(self.heap.load(Ordering::Acquire))
    }

    /// Claims a task that a `block_on` driver has left in this local scheduler. Called when the
    /// pool ends.
    ///
    /// # Safety
    ///
    /// No thread may hold the local scheduler, now or later.
    pub(super) unsafe fn pop_left(&self) -> Option<(Task, Claim)> {
        // SAFETY: the caller has the rights of the holder, because no thread holds the local
        // scheduler.
        if let Some(task) = unsafe { self.lifo.take() } {
            return Some((task, task.state().claimed()));
        }
        let claim = |task: Task| Some((task, task.state().claim_hinted()?));
        // SAFETY: no thread holds the local scheduler or will hold it, so the caller is the only
        // owner of its queue.
        std::iter::from_fn(|| unsafe { self.hints.pop() }).find_map(claim)
    }

    /// Removes and returns the heap, when the pool ends.
    pub(super) fn take_heap(&self) -> Option<NonNull<Heap>> {
        NonNull::new(self.heap.swap(ptr::null_mut(), Ordering::AcqRel))
    }

    /// Returns whether scheduled tasks are queued in this local scheduler. The answer may be out of
    /// date, and stale hints count too.
    pub(super) fn has_hints(&self) -> bool {
        !self.lifo.is_empty() || self.hints.len() > 0
    }

    /// Returns whether this local scheduler has a task in the LIFO slot, or a hint that no thief has
    /// copied.
    pub(super) fn has_stealable(&self) -> bool {
        !self.lifo.is_empty() || self.hints.unreserved() > 0
    }

    /// Returns whether recent polls were short, and only one or two tasks are queued in this local
    /// scheduler: a task in the LIFO slot, a hint in the run queue, or both.
    pub(super) fn has_short_chain(&self) -> bool {
        let short = (1..POLL_NS_WORTH_A_STEAL).contains(&self.poll_ns());
        short && self.has_hints() && self.hints.len() <= 1
    }

    /// Returns a recent estimate of the duration of a poll in this local scheduler, in ns.
    pub(super) fn poll_ns(&self) -> u32 {
        self.for_thieves.poll_ns.load(Ordering::Relaxed)
    }

    /// Returns an estimate of the work in the run queue that no thief has reserved, in ns.
    pub(super) fn queued_ns(&self) -> u64 {
        self.hints.unreserved() as u64 * u64::from(self.poll_ns())
    }

    /// Stores a new estimate of the duration of a poll in this local scheduler, in ns.
    pub(super) fn set_poll_ns(&self, ns: u32) {
        // Thieves read the estimate, so we write it only if it has changed noticeably.
        let before = self.poll_ns();
        if ns.abs_diff(before) > before / 8
            || (ns < POLL_NS_WORTH_A_STEAL) != (before < POLL_NS_WORTH_A_STEAL)
        {
            self.for_thieves.poll_ns.store(ns, Ordering::Relaxed);
        }
    }

    /// Returns the number of polls that have begun in this local scheduler, which measures the
    /// holder's progress.
    pub(super) fn progress(&self) -> u64 {
        let bound = self.bound_counters.polls.get();
        self.counters.polls.get() + self.others.get() + bound
    }

    /// Records that the watchdog has seen no progress beyond this count.
    ///
    /// Tasks with short polls are faster where they are, even if they wait for milliseconds: a
    /// thief would have to fetch their memory, and the holder would fetch it back. The holder may
    /// be in a poll that spawns many of them. Thieves therefore take only a few at first, and twice
    /// as many after each further check.
    pub(super) fn mark_stuck(&self, progress: u64) {
        let for_thieves = &self.for_thieves;
        let again = for_thieves.stuck_at.swap(progress, Ordering::Relaxed) == progress;
        let allowance = for_thieves.allowance.load(Ordering::Relaxed);
        let allowance = if again {
            allowance.saturating_mul(2)
        } else {
            ALLOWANCE_MIN
        };
        for_thieves.allowance.store(allowance, Ordering::Relaxed);
        for_thieves
            .allowance_left
            .store(allowance, Ordering::Relaxed);
    }

    /// Returns whether the holder has made no progress since the watchdog found it stuck.
    pub(super) fn is_stuck(&self) -> bool {
        let stuck_at = self.for_thieves.stuck_at.load(Ordering::Relaxed);
        stuck_at != u64::MAX && stuck_at == self.progress()
    }

    /// Returns whether a thread holds this local scheduler, which is one for `block_on` callers.
    pub(super) fn is_held(&self) -> bool {
        self.context.load(Ordering::Relaxed)
    }

    /// Claims a task from this local scheduler for the thread that holds `own`, if the polls here
    /// are long enough to be worth a steal, or if the holder is stuck. The task comes from the
    /// queue, or from the LIFO slot of a holder that is stuck.
    ///
    /// # Safety
    ///
    /// The caller must hold `own`, which must be another local scheduler.
    pub(super) unsafe fn steal(&self, own: &LocalScheduler) -> Option<(Task, Claim)> {
        let (poll_ns, stuck) = (self.poll_ns(), self.is_stuck());
        // The tasks behind a stuck holder may be of another kind than those before. The thief
        // estimates their polls while it runs the first ones.
        let longest = poll_ns.max(if stuck { own.poll_ns() } else { 0 });
        let worth = longest >= POLL_NS_WORTH_A_STEAL;
        let left = self.for_thieves.allowance_left.load(Ordering::Relaxed);
        if worth || (stuck && left > 0) {
            let copies = copies(poll_ns);
            // SAFETY: validity: queues live as long as their local schedulers. Aliasing: the caller
            // holds `own`, so it is the owner of that queue, and it accesses only atomics of this
            // one.
            let stolen = unsafe { self.hints.steal(&own.hints, copies) };
            if stolen.is_some() {
                if !worth {
                    let left = left.saturating_sub(1 + copies);
                    self.for_thieves
                        .allowance_left
                        .store(left, Ordering::Relaxed);
                }
                return stolen;
            }
        }
        let task = stuck.then(|| self.lifo.steal())??;
        Some((task, task.state().claimed()))
    }
}

impl LocalContext<'_> {
    /// Releases the local scheduler, which reverses [`LocalScheduler::attach`].
    pub(super) fn detach_thread(self) {
        if let Some(heap) = self.scheduler.heap() {
            // SAFETY: the heap lives until the pool ends.
            let heap = unsafe { heap.as_ref() };
            // SAFETY: this thread still holds the local scheduler, so it owns the heap.
            unsafe { heap.return_collected() };
        }
        self.scheduler.context.store(false, Ordering::Relaxed);
        let none = Current {
            scheduler: ptr::null(),
            tasks: ptr::null(),
        };
        local(&CURRENT, |place| place.set(none));
    }
}
