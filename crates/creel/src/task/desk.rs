//! A desk: what a thread needs to run a seat's stealable tasks.
//!
//! One desk a seat: a run queue, a LIFO slot, a heap for cells. The thread that *holds* the desk
//! is normally the seat's own; while that sleeps or has not started, the caller of `block_on` may
//! stand in for it. So no more threads run stealable tasks than the pool has workers. Who holds a
//! desk is decided under the pool's `crew` lock (`crew.rs`).
//!
//! A wake from a running task puts the woken one in the LIFO slot, if that is empty, and tells
//! nobody: it runs next on the same core, its data in the cache. It is claimed by the wake itself,
//! so taking it costs no atomic operation; stuck there behind a long poll it can be taken by others.

use super::cell::{self, Ran, Schedule, Task};
use super::crew;
use super::hints::Hints;
use super::lifo::Lifo;
use super::slab::{CHANNEL_MAX, GRAIN, Heap};
use super::state::Claim;
use crate::pool::panics::quietly;
use crate::pool::shared::Shared;
use crate::pool::stats::Counter;
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Instant, Ordering, UnsafeCell,
    thread_local,
};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::future::Future;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::Waker;

/// Polls between two looks at the clock, at most; and the time between them that is aimed at.
const LOOK_POLLS_MAX: u32 = 64;
const LOOK_NS: u64 = 20_000;
/// Polls between two tasks that are taken from outside first, about: it is seen to at a look.
const OUTSIDE_EVERY: u32 = LOOK_POLLS_MAX;

/// One seat's share of the scheduler.
pub(crate) struct Desk {
    hints: Hints,
    lifo: CachePadded<Lifo>,
    /// Made when the desk is first held; then it does not change.
    heap: AtomicPtr<Heap>,
    own: CachePadded<UnsafeCell<Own>>,
    /// A guess of what a poll here takes, ns. Advice only.
    poll_ns: AtomicU32,
    /// The poll count at which the watch found the holder stuck. Advice only.
    stuck_at: AtomicU64,
    /// Set with the crew's word that the desk is its seat's thread's to take. `SeqCst`, against a
    /// seat's retirement.
    assigned: AtomicBool,
    pub(super) counters: Counters,
    /// Of bound tasks; written by the seat's thread only.
    pub(super) bound_counters: Counters,
    /// Tasks bound to this seat that are scheduled.
    pub(super) bound: super::inject::Inject,
    /// Tasks bound to this seat that are not complete. `SeqCst`, against a seat's retirement.
    pub(super) bound_alive: AtomicUsize,
}

/// What only the holder touches.
struct Own {
    /// Polls until the next look, and those from the last one to that; 0 before the first.
    polls_left: u32,
    polls_planned: u32,
    /// Polls until one is taken from outside first.
    outside_in: u32,
    /// Whether this thread is the pool's searcher: it was woken to be.
    searcher: bool,
    looked: Instant,
    last_ns: u64,
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

// SAFETY: `own` and the heap's owner part are the holder's alone, and the crew's lock passes
// the desk on; the rest is atomic.
unsafe impl Send for Desk {}
// SAFETY: as above.
unsafe impl Sync for Desk {}

#[derive(Clone, Copy)]
struct Here {
    desk: *const Desk,
    /// The pool's address, for comparison.
    pool: *const Shared,
}

thread_local! {
    /// The desk that this thread holds.
    static HERE: Cell<Here> = const {
        Cell::new(Here { desk: ptr::null(), pool: ptr::null() })
    };
}

/// A desk that the calling thread holds; only made on that thread, and gone before it lets go.
#[derive(Clone, Copy)]
pub(super) struct Held<'a> {
    pub(super) desk: &'a Desk,
    pub(super) pool: &'a Shared,
}

/// The desk that this thread holds, if it is one of the task's pool and the task is not bound.
#[inline]
pub(super) fn here_for<'a>(task: Task) -> Option<Held<'a>> {
    if cfg!(loom) {
        return None;
    }
    let held = here()?;
    (task.is_of(held.pool) && task.state().seat().is_none()).then_some(held)
}

/// The desk that this thread holds in this pool.
#[inline]
pub(super) fn here_in(pool: &Shared) -> Option<Held<'_>> {
    here().filter(|held| ptr::eq(held.pool, pool))
}

/// The desk that this thread holds, in whatever pool.
///
/// The caller does not keep it longer than the thread holds the desk.
#[inline]
pub(super) fn here<'a>() -> Option<Held<'a>> {
    let here = HERE.with(Cell::get);
    if here.desk.is_null() {
        return None;
    }
    // SAFETY: the thread holds a desk of this pool, which therefore lives.
    let pool = unsafe { &*here.pool };
    // SAFETY: as above.
    let desk = unsafe { &*here.desk };
    Some(Held { desk, pool })
}

/// The heap of the desk that this thread holds.
#[inline]
pub(super) fn heap() -> Option<NonNull<Heap>> {
    if cfg!(loom) {
        return None;
    }
    let here = HERE.with(Cell::get);
    if here.desk.is_null() {
        return None;
    }
    // SAFETY: the thread holds the desk.
    NonNull::new(unsafe { &*here.desk }.heap.load(Ordering::Relaxed))
}

/// Memory for a channel of type `C`, from the heap of the desk that this thread holds; `None` if
/// it holds none or the channel is too large.
#[inline]
pub(crate) fn block_for_channel<C>() -> Option<NonNull<C>> {
    // A block is reused as plain memory, which a model checker's atomics are not.
    if cfg!(shuttle) || size_of::<C>() > CHANNEL_MAX || align_of::<C>() > GRAIN {
        return None;
    }
    // SAFETY: this thread holds the desk and so owns its heap, which lives.
    let heap = unsafe { heap()?.as_ref() };
    // SAFETY: as above, and the size was looked at.
    Some(unsafe { heap.alloc_for_channel(size_of::<C>()) }.cast())
}

/// Gives the memory of a channel back, on any thread.
///
/// # Safety
///
/// It came from [`block_for_channel`] and is not used again.
#[inline]
pub(crate) unsafe fn free_channel<C>(channel: NonNull<C>) {
    // SAFETY: as the caller promises; `heap` is the calling thread's own.
    unsafe { Heap::free(channel.cast(), heap()) };
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self {
            hints: Hints::new(),
            lifo: CachePadded::new(Lifo::new()),
            heap: AtomicPtr::new(ptr::null_mut()),
            own: CachePadded::new(UnsafeCell::new(Own {
                polls_left: 0,
                polls_planned: 0,
                outside_in: OUTSIDE_EVERY,
                searcher: false,
                looked: Instant::now(),
                last_ns: 0,
            })),
            poll_ns: AtomicU32::new(0),
            stuck_at: AtomicU64::new(0),
            assigned: AtomicBool::new(false),
            counters: Counters::default(),
            bound_counters: Counters::default(),
            bound: super::inject::Inject::new(),
            bound_alive: AtomicUsize::new(0),
        }
    }

    /// Marks the desk as the calling thread's, who has just been given it by the crew.
    ///
    /// # Safety
    ///
    /// The crew's word, also on `searcher`; the thread holds no other desk.
    pub(super) unsafe fn sit_down(&self, pool: &Arc<Shared>, searcher: bool) {
        if self.heap.load(Ordering::Relaxed).is_null() {
            let scheduler: Arc<dyn Schedule> = pool.clone();
            self.heap
                .store(Heap::new(scheduler).as_ptr(), Ordering::Release);
        }
        self.own.with_mut(|own| {
            // SAFETY: the thread holds the desk.
            let own = unsafe { &mut *own };
            own.looked = Instant::now();
            own.polls_left = 0;
            own.polls_planned = 0;
            own.searcher = searcher;
        });
        let here = Here {
            desk: self,
            pool: Arc::as_ptr(pool),
        };
        HERE.with(|place| place.set(here));
    }

    /// The heap, if the desk was ever held.
    pub(super) fn heap(&self) -> Option<NonNull<Heap>> {
        NonNull::new(self.heap.load(Ordering::Acquire))
    }

    /// Claims a task that a stand-in left here, at the pool's end.
    ///
    /// # Safety
    ///
    /// Nobody holds the desk, nor will.
    pub(super) unsafe fn pop_left(&self) -> Option<(Task, Claim)> {
        // SAFETY: the caller is as good as the holder.
        if let Some(task) = unsafe { self.lifo.take() } {
            return Some((task, task.state().claimed()));
        }
        let claim = |task: Task| Some((task, task.state().claim_hinted()?));
        // SAFETY: as above.
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
        let short = (1..crew::POLL_NS_WORTH_A_STEAL).contains(&self.poll_ns());
        short && self.has_hints() && self.hints.len() <= 1
    }

    /// What a poll here takes, ns, by a recent guess.
    pub(super) fn poll_ns(&self) -> u32 {
        self.poll_ns.load(Ordering::Relaxed)
    }

    /// The watch has seen no progress since the poll count was `polls`.
    pub(super) fn mark_stuck(&self, polls: u64) {
        self.stuck_at.store(polls, Ordering::Relaxed);
    }

    /// Whether the holder is still in the poll that the watch found it stuck in.
    pub(super) fn is_stuck(&self) -> bool {
        let polls = self.counters.polls.get();
        polls != 0 && self.stuck_at.load(Ordering::Relaxed) == polls
    }

    /// The crew has assigned the desk. The caller sees to it that the seat has a thread, and
    /// notifies, after.
    pub(super) fn assign(&self) {
        self.assigned.store(true, Ordering::SeqCst);
    }

    /// Whether the crew has assigned the desk: then its seat's thread may not end.
    pub(super) fn is_assigned(&self) -> bool {
        self.assigned.load(Ordering::SeqCst)
    }

    /// Whether the crew has assigned the desk since the last call.
    pub(super) fn take_assigned(&self) -> bool {
        self.assigned.load(Ordering::Relaxed) && self.assigned.swap(false, Ordering::Acquire)
    }

    /// Claims a task from this desk for the thread that holds `own`: from the queue, or, if
    /// `slot`, from the LIFO slot too.
    ///
    /// # Safety
    ///
    /// The caller holds `own`, which is another desk, and is the searcher.
    pub(super) unsafe fn steal(&self, own: &Desk, slot: bool) -> Option<(Task, Claim)> {
        // SAFETY: as the caller promises.
        unsafe { self.hints.steal(&own.hints) }.or_else(|| {
            // SAFETY: there is one searcher at a time.
            let task = slot.then(|| unsafe { self.lifo.steal() })??;
            Some((task, task.state().claimed()))
        })
    }
}

impl<'a> Held<'a> {
    #[inline]
    fn own<R>(&self, f: impl FnOnce(&mut Own) -> R) -> R {
        // SAFETY: a `Held` exists only on the thread that holds the desk, and `f`, always within
        // this file, calls nothing that comes back here.
        self.desk.own.with_mut(|own| f(unsafe { &mut *own }))
    }

    /// Wakes an idle task into the slot, if that is empty: it goes next. `spare`: the waker's
    /// reference stays with it. False: nothing was done.
    #[inline]
    pub(super) fn wakes_into_slot(self, task: Task, spare: bool) -> bool {
        if !self.desk.lifo.is_empty() || !task.state().wake_into_slot(spare) {
            return false;
        }
        // SAFETY: this thread holds the desk and has found the slot empty; the wake claimed it.
        unsafe { self.desk.lifo.put(task) };
        self.see_to_a_watch();
        true
    }

    /// Queues a scheduled task that nobody else knows of: next, if the slot is empty.
    pub(super) fn push_scheduled(self, task: Task) {
        if self.desk.lifo.is_empty() {
            task.state().claim_queued();
            // SAFETY: this thread holds the desk and has found the slot empty.
            unsafe { self.desk.lifo.put(task) };
            self.see_to_a_watch();
        } else {
            task.state().to_hinted();
            self.push_back(task);
        }
    }

    /// Queues a task behind the others.
    #[inline]
    pub(super) fn push_back(self, task: Task) {
        // SAFETY: this thread holds the desk.
        unsafe { self.desk.hints.push(task) };
        self.see_to_a_watch();
    }

    /// Somebody idle shall look every millisecond whether this thread is stuck in a poll.
    #[inline]
    fn see_to_a_watch(self) {
        if self.pool.tasks.crew.is_unwatched() {
            crew::call_watch(&self.pool.counted());
        }
    }

    /// Makes a task in this desk's heap.
    #[inline]
    pub(super) fn make<F: Future>(self, word: u64, future: F) -> Task {
        self.desk.counters.spawned.add(1);
        // SAFETY: made when the desk was first held.
        let heap = unsafe { &*self.desk.heap.load(Ordering::Relaxed) };
        // SAFETY: this thread holds the desk and so owns its heap; callers box what does not fit.
        unsafe { Task::new(heap, word, future) }
    }

    /// Runs one task, from here, from outside or stolen. False: there is none.
    ///
    /// With `cancel` it drops the task's future instead.
    #[inline]
    pub(super) fn step(self, cancel: bool) -> bool {
        if self.own(|own| own.polls_left == 0) {
            return self.step_after_a_look(cancel);
        }
        let Some((task, claim)) = self.next() else {
            return false;
        };
        self.run(task, claim.or_cancel(cancel));
        true
    }

    /// Wakes; and if that is for an idle task of this pool, runs it, and what it hands over to by
    /// the slot. The task itself does not go by the slot: nobody else could have taken it.
    ///
    /// The pool has one worker.
    #[inline]
    pub(super) fn run_woken(self, waker: Waker) {
        let task = cell::woken_by(&waker).filter(|task| task.is_of(self.pool));
        let free = self.desk.lifo.is_empty() && self.own(|own| own.polls_left > 0);
        let claimed = task.filter(|_| free).and_then(|task| {
            let claim = task.state().claim_idle()?;
            Some((task, claim))
        });
        match claimed {
            Some((task, claim)) => {
                // The claim has its reference.
                std::mem::forget(waker);
                self.run(task, claim);
            }
            None => quietly(|| waker.wake()),
        }
        self.run_slot();
    }

    /// Runs what lies in the slot, and what that hands over to by it, for so many tasks at most.
    ///
    /// What is queued stays so, also after a look: it may wait for what all of a turn do.
    #[inline]
    pub(super) fn run_slot(self) {
        const MOST: u32 = 16;
        for _ in 0..MOST {
            // SAFETY: this thread holds the desk.
            let Some(task) = (unsafe { self.desk.lifo.take() }) else {
                return;
            };
            if self.own(|own| own.polls_left == 0) {
                self.look();
            }
            self.run(task, task.state().claimed());
        }
    }

    /// The same as `step`, after all that need not be seen to at each step.
    #[cold]
    fn step_after_a_look(self, cancel: bool) -> bool {
        let outside = self.look();
        if self.desk.hints.len() > 0 {
            self.spill();
        }
        let from_outside = || {
            let task = self.pool.tasks.outside.pop()?;
            Some((task, task.state().claim_queued()))
        };
        let first = if outside { from_outside() } else { None };
        let next = first.or_else(|| self.next());
        if self.own(|own| std::mem::take(&mut own.searcher)) {
            self.found(next.is_some());
        }
        let Some((task, claim)) = next else {
            return false;
        };
        self.run(task, claim.or_cancel(cancel));
        true
    }

    /// Runs a task that was just claimed here, which is not bound.
    #[inline]
    fn run(self, task: Task, claim: Claim) {
        self.own(|own| own.polls_left -= 1);
        // Before the poll: who finds the count unchanged a millisecond later sees a stuck worker.
        self.desk.counters.polls.add(1);
        // SAFETY: the caller has claimed the task.
        if unsafe { task.run(claim, &self.desk.counters) } == Ran::Again {
            self.push_back(task);
        }
    }

    /// Claims the next task to run.
    #[inline]
    fn next(self) -> Option<(Task, Claim)> {
        // SAFETY: this thread holds the desk.
        if let Some(task) = unsafe { self.desk.lifo.take() } {
            return Some((task, task.state().claimed()));
        }
        // SAFETY: this thread holds the desk.
        while let Some(task) = unsafe { self.desk.hints.pop() } {
            if let Some(claim) = task.state().claim_hinted() {
                return Some((task, claim));
            }
        }
        self.elsewhere()
    }

    /// Claims a task from outside or, as the searcher, from another desk.
    #[cold]
    fn elsewhere(self) -> Option<(Task, Claim)> {
        if let Some(task) = self.pool.tasks.outside.pop() {
            return Some((task, task.state().claim_queued()));
        }
        let crew = &self.pool.tasks.crew;
        let called = self.own(|own| own.searcher);
        if !called && !crew.begin_search() {
            return None;
        }
        // SAFETY: this thread holds the desk, and is the searcher.
        let stolen = unsafe { crew::search(self.pool, self.desk) };
        self.desk.counters.steals.add(stolen.is_some().into());
        if !called {
            crew.end_search();
        }
        stolen
    }

    /// Ends the search that this thread was woken for, before it runs anything.
    #[cold]
    fn found(self, something: bool) {
        self.pool.tasks.crew.end_search();
        if something && self.pool.tasks.outside.len() > 0 {
            crew::call_help(self.pool, Instant::now(), || self.pool.counted());
        }
    }

    /// Lets another be the searcher.
    pub(super) fn end_search(self) {
        if self.own(|own| std::mem::take(&mut own.searcher)) {
            self.pool.tasks.crew.end_search();
        }
    }

    /// The reverse of [`Desk::sit_down`].
    pub(super) fn stand_up(self) {
        self.end_search();
        let nowhere = Here {
            desk: ptr::null(),
            pool: ptr::null(),
        };
        HERE.with(|place| place.set(nowhere));
    }

    /// Reads the clock, guesses what a poll takes, plans the next look, and has another worker
    /// woken if that pays. Says whether the next task shall come from outside.
    fn look(self) -> bool {
        if self.own(|own| own.polls_planned == 0) {
            self.own(|own| (own.polls_left, own.polls_planned) = (1, 1));
            return false;
        }
        let now = Instant::now();
        let (guess, outside) = self.own(|own| {
            let elapsed = now.duration_since(own.looked).as_nanos() as u64;
            let each = elapsed / u64::from(own.polls_planned);
            // The lower of the last two: one long poll among tiny ones tells nothing about what
            // is in the queue.
            let guess = each.min(own.last_ns);
            own.last_ns = each;
            own.looked = now;
            own.outside_in = own.outside_in.saturating_sub(own.polls_planned);
            let outside = own.outside_in == 0;
            if outside {
                own.outside_in = OUTSIDE_EVERY;
            }
            own.polls_planned = (LOOK_NS / each.max(1)).clamp(1, LOOK_POLLS_MAX.into()) as u32;
            own.polls_left = own.polls_planned;
            (guess, outside)
        });
        self.desk
            .poll_ns
            .store(guess.min(u32::MAX.into()) as u32, Ordering::Relaxed);
        let queued = self.desk.hints.len() > 0 || self.pool.tasks.outside.len() > 0;
        if queued && guess >= crew::POLL_NS_WORTH_A_STEAL.into() {
            crew::call_help(self.pool, now, || self.pool.counted());
        }
        outside
    }

    /// How many hints there are, the slot's not counted.
    pub(super) fn hints(self) -> usize {
        self.desk.hints.len()
    }

    /// Moves the task in the slot to the end of the queue.
    fn spill(self) {
        // SAFETY: this thread holds the desk.
        if let Some(task) = unsafe { self.desk.lifo.take() } {
            task.state().unclaim();
            self.push_back(task);
        }
    }

    /// Moves every stealable task that is scheduled to this desk's queue.
    pub(super) fn gather(self) {
        self.spill();
        while let Some(task) = self.pool.tasks.outside.pop() {
            task.state().to_hinted();
            self.push_back(task);
        }
    }

    /// Moves the first `count` hints to the end.
    pub(super) fn rotate(self, count: usize) {
        for _ in 0..count {
            // SAFETY: this thread holds the desk.
            if let Some(task) = unsafe { self.desk.hints.pop() } {
                self.push_back(task);
            }
        }
    }

    /// Moves what lies here to the queue outside, for the others.
    pub(super) fn clear(self) {
        self.spill();
        // SAFETY: this thread holds the desk.
        for task in std::iter::from_fn(|| unsafe { self.desk.hints.pop() }) {
            if task.state().unhint() {
                self.pool.tasks.outside.push(task);
            }
        }
    }
}
