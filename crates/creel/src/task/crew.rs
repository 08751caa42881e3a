//! Who holds which desk, who is woken, who watches: the policy of the scheduler.
//!
//! # Desks
//!
//! A desk is free, or held by its seat's thread or by a caller of `block_on` that stands in for
//! it, or assigned: taken for the seat's thread, which has been notified. All changes are made
//! under one lock, at a park or a wake of a thread, never for a task.
//!
//! # Waking
//!
//! - A task that comes from outside wakes one free desk's thread, unless one is searching.
//! - A worker with a queue and polls long enough to be worth a steal has one more woken, at most
//!   one every [`WAKE_EVERY`] in the whole pool.
//! - Nobody is woken for a LIFO slot, nor for tiny polls: moving a task of some 50 ns to another
//!   core costs more than running it.
//!
//! # The watch
//!
//! While a worker runs tasks and another is free, one of the free ones sleeps with a time-out of
//! 1 ms. If a desk's poll count has not moved since its last look and tasks lie there,
//! it takes them. It stops when nobody runs tasks; the first push after that calls it again.
//!
//! # Why no task is slept over
//!
//! A push outside stores the queue's length and then looks for a free desk; a worker frees its
//! desk and then looks at the length (`SeqCst` both). A searcher, for whose sake a push wakes
//! nobody, looks again in the same way before it sleeps. What lies at a held desk is its holder's,
//! who frees the desk only when it is empty, under no push but its own.

use super::cell::Task;
use super::desk::Desk;
use super::state::Claim;
use crate::pool::seat::Seat;
use crate::pool::shared::Shared;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Instant, Mutex, Ordering, lock};
use std::sync::Arc;
use std::time::Duration;

/// Tasks whose polls are shorter are not stolen: the move would cost more.
pub(super) const POLL_NS_WORTH_A_STEAL: u32 = 700;
/// The shortest time between two wakes for the sake of a queue.
const WAKE_EVERY: Duration = Duration::from_micros(100);
/// How often the watch looks.
pub(super) const WATCH_EVERY: Duration = Duration::from_millis(1);

/// In `watching`.
const NOBODY: usize = usize::MAX;

/// Who holds a desk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Free,
    /// Taken for the seat's thread, which has been or will be notified.
    Assigned,
    Seat,
    StandIn,
}

/// The crew of a pool.
pub(crate) struct Crew {
    desks: Mutex<Desks>,
    /// How many desks are free; the lock's mirror. `SeqCst`, see above.
    free: AtomicUsize,
    /// Some desk is free, some is not, and nobody watches. Advice: read relaxed at every push.
    unwatched: AtomicBool,
    /// A worker looks for tasks at other desks, or has been woken to.
    searching: AtomicBool,
    /// The watch's seat, or `NOBODY`; the lock's mirror. Advice.
    watching: AtomicUsize,
    /// When the last worker was woken for a queue's sake: ns since `start`.
    called: AtomicU64,
    start: Instant,
}

struct Desks {
    /// By seat.
    holders: Vec<Holder>,
    /// The seats of the free desks below the number of workers; the next to be woken last.
    free: Vec<usize>,
    watch: Option<Watch>,
}

struct Watch {
    seat: usize,
    since: Instant,
    /// The poll count of each desk at the last look.
    polls: Vec<u64>,
}

impl Crew {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            desks: Mutex::new(Desks {
                holders: vec![Holder::Free; workers],
                free: (0..workers).rev().collect(),
                watch: None,
            }),
            free: AtomicUsize::new(workers),
            unwatched: AtomicBool::new(false),
            searching: AtomicBool::new(false),
            watching: AtomicUsize::new(NOBODY),
            called: AtomicU64::new(0),
            start: Instant::now(),
        }
    }

    /// Whether a watch is missing.
    #[inline]
    pub(super) fn is_unwatched(&self) -> bool {
        self.unwatched.load(Ordering::Relaxed)
    }

    /// Renews the mirrors of what the lock guards.
    fn mirror(&self, desks: &Desks) {
        self.free.store(desks.free.len(), Ordering::SeqCst);
        let missing = desks.watch.is_none() && !desks.free.is_empty() && desks.work();
        self.unwatched.store(missing, Ordering::Relaxed);
        let seat = desks.watch.as_ref().map_or(NOBODY, |watch| watch.seat);
        self.watching.store(seat, Ordering::Relaxed);
    }

    /// Adds desks for new seats and frees those that came back in use, or the reverse.
    pub(super) fn resize(&self, workers: usize) {
        let mut desks = lock(&self.desks);
        let desks = &mut *desks;
        if desks.holders.len() < workers {
            desks.holders.resize(workers, Holder::Free);
        }
        let holders = &desks.holders;
        desks.free = (0..workers)
            .rev()
            .filter(|&seat| holders[seat] == Holder::Free)
            .collect();
        if desks.watch.as_ref().is_some_and(|w| w.seat >= workers) {
            desks.watch = None;
        }
        self.mirror(desks);
    }

    /// Takes a desk for the seat's own thread. `None`: somebody stands in, or the seat is gone.
    /// Else whether it had been assigned, with the right to search.
    pub(super) fn take_for_seat(&self, seat: usize) -> Option<bool> {
        let mut desks = lock(&self.desks);
        let desks = &mut *desks;
        let assigned = match desks.holders.get(seat)? {
            Holder::Assigned => true,
            Holder::Free => {
                let at = desks.free.iter().position(|&free| free == seat)?;
                desks.free.remove(at);
                false
            }
            Holder::Seat | Holder::StandIn => return None,
        };
        desks.holders[seat] = Holder::Seat;
        // Who works does not watch.
        desks.end_watch_of(seat);
        self.mirror(desks);
        Some(assigned)
    }

    /// Takes the first free desk for a caller of `block_on`.
    pub(super) fn take_for_stand_in(&self) -> Option<usize> {
        if self.free.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut desks = lock(&self.desks);
        let desks = &mut *desks;
        let seat = desks.free.pop()?;
        desks.holders[seat] = Holder::StandIn;
        desks.end_watch_of(seat);
        self.mirror(desks);
        Some(seat)
    }

    /// Takes a free desk, if there is one, for its seat's thread; the watch's last of all.
    fn assign(&self) -> Option<usize> {
        let mut desks = lock(&self.desks);
        let desks = &mut *desks;
        let watch = desks.watch.as_ref().map(|watch| watch.seat);
        let others = |seat: &usize| Some(*seat) != watch;
        let at = desks.free.iter().rposition(others);
        let seat = match at {
            Some(at) => desks.free.remove(at),
            None => desks.free.pop()?,
        };
        desks.holders[seat] = Holder::Assigned;
        desks.end_watch_of(seat);
        self.mirror(desks);
        Some(seat)
    }

    /// Frees a desk that is empty.
    pub(super) fn release(&self, pool: &Shared, seat: usize) {
        let mut desks = lock(&self.desks);
        let desks = &mut *desks;
        desks.holders[seat] = Holder::Free;
        // Under the lock: a resize that is not seen here comes to `resize` after.
        if seat < pool.workers() {
            desks.free.push(seat);
        }
        self.mirror(desks);
    }

    /// Gives a stand-in's desk to its seat's thread, which the caller notifies.
    pub(super) fn hand_over(&self, seat: usize) {
        let mut desks = lock(&self.desks);
        desks.holders[seat] = Holder::Assigned;
        self.mirror(&desks);
    }

    /// Whether a seat that has nothing to do shall sleep with a time-out, as the watch.
    pub(super) fn watches(&self, pool: &Shared, seat: usize) -> bool {
        if self.watching.load(Ordering::Relaxed) != seat && !self.is_unwatched() {
            return false;
        }
        let mut desks = lock(&self.desks);
        let desks = &mut *desks;
        let mine = desks.watch.as_ref().is_none_or(|w| w.seat == seat);
        let watches = desks.work() && mine && desks.free.contains(&seat);
        if !watches {
            desks.end_watch_of(seat);
        } else if desks.watch.is_none() {
            desks.watch = Some(Watch::begin(pool, seat, desks.holders.len()));
        }
        self.mirror(desks);
        watches
    }

    /// The watch's look: whether there is something to take.
    ///
    /// Marks the desks that are stuck, so that a search takes from them.
    pub(super) fn look(&self, pool: &Shared, seat: usize) -> bool {
        if self.watching.load(Ordering::Relaxed) != seat {
            return false;
        }
        let mut desks = lock(&self.desks);
        let Some(watch) = desks.watch.as_mut().filter(|watch| watch.seat == seat) else {
            return false;
        };
        let since = watch.since.elapsed();
        if since < WATCH_EVERY {
            return false;
        }
        let before = std::mem::replace(watch, Watch::begin(pool, seat, watch.polls.len()));
        let stuck = before.polls.iter().zip(&watch.polls).enumerate();
        let mut found = pool.tasks.outside.len() > 0;
        for (seat, (before, now)) in stuck {
            let desk = &pool.seats.seat(seat).desk;
            if before == now && desk.has_hints() {
                desk.mark_stuck(*now);
                found = true;
            }
        }
        found
    }

    /// Becomes the searcher, if there is none.
    pub(super) fn begin_search(&self) -> bool {
        !self.searching.load(Ordering::Relaxed) && !self.searching.swap(true, Ordering::SeqCst)
    }

    pub(super) fn end_search(&self) {
        self.searching.store(false, Ordering::SeqCst);
    }

    /// Whether a worker may be woken now for a queue's sake.
    fn may_call(&self, now: Instant) -> bool {
        let now = now.duration_since(self.start).as_nanos() as u64;
        let called = self.called.load(Ordering::Relaxed);
        let due = now.saturating_sub(called) >= WAKE_EVERY.as_nanos() as u64;
        due && self
            .called
            .compare_exchange(called, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether the desk of this seat is free, so that its thread may take it.
    pub(super) fn is_free(&self, seat: usize) -> bool {
        lock(&self.desks).free.contains(&seat)
    }

    fn has_free(&self) -> bool {
        self.free.load(Ordering::SeqCst) > 0
    }
}

impl Desks {
    /// Whether somebody runs tasks, or will.
    fn work(&self) -> bool {
        self.holders.iter().any(|&holder| holder != Holder::Free)
    }

    fn end_watch_of(&mut self, seat: usize) {
        if self.watch.as_ref().is_some_and(|watch| watch.seat == seat) {
            self.watch = None;
        }
    }
}

impl Watch {
    fn begin(pool: &Shared, seat: usize, desks: usize) -> Self {
        let polls = |seat| pool.seats.seat(seat).desk.counters.polls.get();
        Self {
            seat,
            polls: (0..desks).map(polls).collect(),
            since: Instant::now(),
        }
    }
}

/// Has a free desk's thread look at the queue outside, where a task has just been put.
pub(super) fn call_for_outside(pool: &Arc<Shared>) {
    call(pool, Seat::notify_asleep);
}

/// The same for a task that another thread has woken: under a throttle it waits for the end of
/// the quantum.
pub(super) fn call_for_woken(pool: &Arc<Shared>) {
    call(pool, Seat::notify_later);
}

fn call(pool: &Arc<Shared>, tell: fn(&Seat) -> bool) {
    let crew = &pool.tasks.crew;
    // While the pool ends, its threads come by themselves and none is started.
    if pool.is_closing() || pool.tasks.is_seeded() || !crew.has_free() || !crew.begin_search() {
        return;
    }
    match crew.assign() {
        Some(seat) => hand_to(pool, seat, tell),
        None => crew.end_search(),
    }
}

/// Has one more worker woken for the sake of a queue, if one is free and the last was not woken
/// just now.
pub(super) fn call_help(pool: &Shared, now: Instant, counted: impl FnOnce() -> Arc<Shared>) {
    let crew = &pool.tasks.crew;
    if !crew.has_free() || crew.searching.load(Ordering::Relaxed) || !crew.may_call(now) {
        return;
    }
    call_for_outside(&counted());
}

/// Makes a free desk's thread the watch, if there is none and somebody works.
#[cold]
pub(super) fn call_watch(pool: &Arc<Shared>) {
    let crew = &pool.tasks.crew;
    let mut desks = lock(&crew.desks);
    let chosen = match (&desks.watch, desks.free.last()) {
        (None, Some(&seat)) if desks.work() => {
            let watch = Watch::begin(pool, seat, desks.holders.len());
            desks.watch = Some(watch);
            Some(seat)
        }
        _ => None,
    };
    crew.mirror(&desks);
    drop(desks);
    if let Some(seat) = chosen {
        let seat = pool.seats.seat(seat);
        pool.ensure_started(seat);
        seat.notify();
    }
}

/// Tells the thread of a desk that was assigned to it.
pub(super) fn notify(pool: &Arc<Shared>, seat: usize) {
    hand_to(pool, seat, Seat::notify_asleep);
}

fn hand_to(pool: &Arc<Shared>, seat: usize, tell: fn(&Seat) -> bool) {
    let seat = pool.seats.seat(seat);
    seat.desk.assign();
    pool.ensure_started(seat);
    let slept = tell(seat);
    if !slept && pool.tasks.crew.is_unwatched() {
        // It may be in a loop or a long job, and not come for a while.
        call_watch(pool);
    }
}

/// Claims a task from another desk whose polls are worth it, or who is stuck.
///
/// # Safety
///
/// The caller holds `own` and is the searcher.
pub(super) unsafe fn search(pool: &Shared, own: &Desk) -> Option<(Task, Claim)> {
    let seats = pool.workers();
    let start = own.counters.steals.get() as usize + own.counters.polls.get() as usize;
    (0..seats).find_map(|offset| {
        let desk = &pool.seats.seat((start + offset) % seats).desk;
        let stuck = desk.is_stuck();
        let worth = stuck || desk.poll_ns() >= POLL_NS_WORTH_A_STEAL;
        if std::ptr::eq(desk, own) || !worth {
            return None;
        }
        // SAFETY: as the caller promises, and `own` is another desk.
        unsafe { desk.steal(own, stuck) }
    })
}
