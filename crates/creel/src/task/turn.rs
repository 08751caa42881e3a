//! What tasks add to a worker's turn, its wait and its end; and the end of the pool.

use super::cell::{Ran, Schedule, Task};
use super::crew::{self, Crew, WATCH_EVERY};
use super::desk::{self, Counters, Held};
use super::inject::Inject;
use super::seeded::Seeded;
use super::slab::Heap;
use super::state::Then;
use crate::pool::panics::quietly;
use crate::pool::seat::Seat;
use crate::pool::shared::Shared;
use crate::pool::woken::wake_all;
use crate::pool::{TaskStats, current};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, barrier, lock, prefetch, thread};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use std::vec::Drain;

/// Tasks a turn, at most: timers and sockets come after.
const TURN: usize = 64;
/// Bound tasks a turn, at most.
const TURN_BOUND: usize = 32;

/// A pool's part of the scheduler.
pub(crate) struct Tasks {
    /// Stealable tasks that became scheduled on a thread without a desk.
    pub(super) outside: Inject,
    pub(super) crew: Crew,
    /// In the deterministic mode.
    pub(super) seeded: Option<Seeded>,
    /// The heap for tasks spawned on such a thread, which owns it while it holds the lock.
    pub(super) guests: Mutex<Guests>,
    /// Threads that serve seats, and the pool's owner: the last one to leave ends the heaps.
    users: AtomicUsize,
    /// Tasks spawned on a thread without a desk.
    pub(super) spawned: AtomicU64,
    /// What was dropped at the pool's end, by the one who ends it.
    dropped: Counters,
}

// The user's code runs under `catch_unwind` or leaves the pool's own data whole.
impl std::panic::UnwindSafe for Shared {}
impl std::panic::RefUnwindSafe for Shared {}

/// The heap of the threads without a desk.
#[derive(Default)]
pub(super) struct Guests {
    pub(super) heap: Option<NonNull<Heap>>,
    /// The pool has ended: no heap is made any more.
    pub(super) ended: bool,
}

// SAFETY: the heap is used under the lock around this.
unsafe impl Send for Guests {}

impl Tasks {
    /// Whether no thread is to be started.
    pub(crate) fn is_seeded(&self) -> bool {
        self.seeded.is_some()
    }

    pub(crate) fn new(workers: usize, seed: Option<u64>) -> Self {
        // For the LIFO slots.
        barrier::prepare();
        Self {
            outside: Inject::new(),
            crew: Crew::new(workers),
            seeded: seed.map(Seeded::new),
            guests: Mutex::new(Guests::default()),
            users: AtomicUsize::new(1),
            spawned: AtomicU64::new(0),
            dropped: Counters::default(),
        }
    }
}

impl Schedule for Shared {
    fn schedule(self: Arc<Self>, task: Task) {
        if let Some(seat) = task.state().seat() {
            let seat = self.seats.seat(seat.into());
            seat.desk.bound.push(task);
            if !self.is_closing() {
                self.ensure_started(seat);
            }
            seat.notify_later();
            return;
        }
        // A worker that has no desk yet (it runs a timer, a socket's event) takes its own.
        let own = current::index_in(&self).and_then(|index| sit_down(&self, index));
        if let Some(held) = own {
            // It may go on with a long job: not as the searcher.
            held.end_search();
            held.push_scheduled(task);
        } else {
            self.tasks.outside.push(task);
            crew::call_for_woken(&self);
        }
    }
}

/// Gives the calling thread, which serves this seat, its desk, if it is to be had.
fn sit_down(pool: &Arc<Shared>, index: usize) -> Option<Held<'_>> {
    if let Some(held) = desk::here_in(pool) {
        return Some(held);
    }
    let searcher = pool.tasks.crew.take_for_seat(index)?;
    // SAFETY: the crew has just given it; this thread holds no other, since it serves one seat.
    unsafe { pool.seats.seat(index).desk.sit_down(pool, searcher) };
    desk::here_in(pool)
}

/// Runs some tasks on the thread that serves this seat. Says whether there may be more.
pub(crate) fn turn(pool: &Arc<Shared>, seat: &Seat) -> bool {
    let closing = pool.is_closing();
    let bound = run_bound(seat, closing);
    let Some(held) = desk_for_turn(pool, seat) else {
        return bound;
    };
    if seat.index >= pool.workers() && !closing {
        clear_desk(pool, seat);
        return bound;
    }
    for _ in 0..TURN {
        if !held.step(closing) {
            return bound;
        }
        if seat.has_urgent() {
            break;
        }
    }
    true
}

/// The seat's desk, if it is held, assigned or worth taking.
fn desk_for_turn<'a>(pool: &'a Arc<Shared>, seat: &Seat) -> Option<Held<'a>> {
    // Also where it is held already, taken in a reaction: a call that nobody answers would keep the
    // thread from ending, and its notification is used up.
    let assigned = seat.desk.take_assigned();
    if let Some(held) = desk::here_in(pool) {
        return Some(held);
    }
    let called = assigned || pool.tasks.outside.len() > 0;
    if called || pool.tasks.crew.look(pool, seat.index) {
        sit_down(pool, seat.index)
    } else {
        None
    }
}

/// How many due tasks ahead are fetched into the cache, and how much of each: one of thousands is
/// in no near one.
const AHEAD: usize = 4;
const FETCHED_BYTES: usize = 320;

/// Wakes what due timers wait with, on the thread that serves this seat.
///
/// On a pool of one nobody else could take what is woken, so each task runs before the next is
/// woken, by way of the slot. Elsewhere all are queued, where an idle worker finds them behind a
/// long poll.
pub(crate) fn run_due(pool: &Arc<Shared>, seat: &Seat, due: &mut Drain<'_, Waker>) {
    let alone = pool.workers() == 1 && !pool.is_closing();
    let held = alone.then(|| sit_down(pool, seat.index)).flatten();
    let Some(held) = held else {
        return wake_all(due);
    };
    held.end_search();
    let fetch = |waker: &Waker| prefetch(waker.data(), FETCHED_BYTES);
    due.as_slice().iter().take(AHEAD).for_each(fetch);
    while let Some(waker) = due.next() {
        due.as_slice().get(AHEAD - 1).into_iter().for_each(fetch);
        if seat.has_urgent() {
            quietly(|| waker.wake());
        } else {
            held.run_woken(waker);
        }
    }
}

/// Runs tasks that are bound to this seat. Says whether there may be more.
fn run_bound(seat: &Seat, cancel: bool) -> bool {
    let desk = &seat.desk;
    for _ in 0..TURN_BOUND {
        let Some(task) = desk.bound.pop() else {
            return false;
        };
        desk.bound_counters.polls.add(1);
        let claim = task.state().claim_queued().or_cancel(cancel);
        // SAFETY: just claimed, and this is the seat's thread.
        match unsafe { task.run(claim, &desk.bound_counters) } {
            Ran::Idle => {}
            Ran::Again => desk.bound.push(task),
            Ran::Complete => {
                desk.bound_alive.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
    true
}

/// What a worker whose turn found nothing shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// There is work after all.
    Busy,
    /// Wait, for so long at most.
    For(Option<Duration>),
}

/// Called by a worker whose turn found nothing, before it waits: frees its desk.
pub(crate) fn rest(pool: &Arc<Shared>, seat: &Seat) -> Rest {
    let crew = &pool.tasks.crew;
    if let Some(held) = desk::here_in(pool) {
        if held.desk.has_hints() {
            return Rest::Busy;
        }
        held.stand_up();
        crew.release(pool, seat.index);
    }
    let takes = pool.tasks.outside.len() > 0 && crew.is_free(seat.index);
    if takes || seat.desk.bound.len() > 0 {
        return Rest::Busy;
    }
    Rest::For(crew.watches(pool, seat.index).then_some(WATCH_EVERY))
}

/// Frees the desk of a seat that is no longer wanted; the others get what lies there.
///
/// Not while the seat's thread is retiring: the one that is called may be of this very seat, if
/// it is wanted again.
pub(crate) fn clear_desk(pool: &Arc<Shared>, seat: &Seat) {
    if let Some(held) = desk::here_in(pool) {
        held.clear();
        held.stand_up();
        pool.tasks.crew.release(pool, seat.index);
        crew::call_for_outside(pool);
    }
}

/// Whether the thread of a seat that is no longer wanted may end: nothing bound to it is left,
/// and nobody has called it.
pub(crate) fn may_retire(pool: &Arc<Shared>, seat: &Seat) -> bool {
    if seat.desk.is_assigned() {
        return false;
    }
    if seat.desk.bound_alive.load(Ordering::SeqCst) == 0 {
        return true;
    }
    if pool.is_closing() {
        // A bound task that was spawned while the pool was closing may have been missed.
        cancel_all(pool);
    }
    false
}

/// What became of the pool's tasks.
pub(crate) fn stats(pool: &Shared) -> TaskStats {
    let mut stats = TaskStats {
        spawned: pool.tasks.spawned.load(Ordering::Relaxed),
        cancelled: pool.tasks.dropped.cancelled.get(),
        ..TaskStats::default()
    };
    for seat in pool.seats.made() {
        for counters in [&seat.desk.counters, &seat.desk.bound_counters] {
            stats.spawned += counters.spawned.get();
            stats.finished += counters.finished.get();
            stats.cancelled += counters.cancelled.get();
            stats.polls += counters.polls.get();
            stats.steals += counters.steals.get();
        }
    }
    stats
}

/// The number of workers has changed.
pub(crate) fn resize(pool: &Arc<Shared>, workers: usize) {
    pool.tasks.crew.resize(workers);
    if pool.tasks.crew.is_unwatched() {
        crew::call_watch(pool);
    }
    if pool.tasks.outside.len() > 0 {
        crew::call_for_outside(pool);
    }
}

/// A thread begins to serve a seat; called before it starts.
pub(crate) fn enter(pool: &Shared) {
    pool.tasks.users.fetch_add(1, Ordering::Relaxed);
}

/// A thread, or the pool's owner, has gone.
pub(crate) fn leave(pool: &Arc<Shared>) {
    // Acquire and release: the last one sees what all others did to the heaps.
    if pool.tasks.users.fetch_sub(1, Ordering::AcqRel) == 1 {
        end(pool);
    }
}

/// Cancels every task of the pool that is not complete; their workers drop the futures.
pub(crate) fn cancel_all(pool: &Arc<Shared>) {
    let mut scheduled = Vec::new();
    for_each_cell(pool, |task| {
        if let Some(Then::Enqueue) = task.state().cancel() {
            scheduled.push(task);
        }
    });
    for task in scheduled {
        match task.state().seat() {
            Some(seat) => {
                let seat = pool.seats.seat(seat.into());
                seat.desk.bound.push(task);
                seat.notify();
            }
            None => pool.tasks.outside.push(task),
        }
    }
}

/// Calls `f` with every cell that there ever was, in use or not: only the word tells.
fn for_each_cell(pool: &Shared, mut f: impl FnMut(Task)) {
    let guests = lock(&pool.tasks.guests).heap;
    let desks = pool.seats.made().filter_map(|seat| seat.desk.heap());
    for heap in desks.chain(guests) {
        // SAFETY: heaps are orphaned by `end` only, after everybody has left.
        let heap = unsafe { heap.as_ref() };
        // SAFETY: as above, and only the word is used.
        unsafe { heap.walk(|block| f(Task::from_block(block))) };
    }
}

/// Drops what is left of the tasks and lets go of the heaps. Nobody serves the pool any more.
fn end(pool: &Arc<Shared>) {
    lock(&pool.tasks.guests).ended = true;
    loop {
        cancel_all(pool);
        let bound = |seat: &Seat| seat.desk.bound.pop();
        let left = || {
            pool.tasks
                .outside
                .pop()
                .or_else(|| pool.seats.made().find_map(bound))
        };
        while let Some(task) = left() {
            let claim = task.state().claim_queued().or_cancel(true);
            // SAFETY: just claimed. A bound task that is still here is one of `spawn_on`, which
            // any thread may drop: a seat's thread outlives its `spawn_local` tasks.
            unsafe { task.run(claim, &pool.tasks.dropped) };
        }
        for seat in pool.seats.made() {
            // SAFETY: nobody serves the pool any more.
            while let Some((task, claim)) = unsafe { seat.desk.pop_left() } {
                // SAFETY: just claimed.
                unsafe { task.run(claim.or_cancel(true), &pool.tasks.dropped) };
            }
        }
        // A task that another thread has just woken is on its way to a queue.
        let mut unfinished = false;
        for_each_cell(pool, |task| unfinished |= task.state().is_unfinished());
        if !unfinished {
            break;
        }
        thread::yield_now();
    }
    let guests = lock(&pool.tasks.guests).heap.take();
    let desks = pool.seats.made().filter_map(|seat| seat.desk.take_heap());
    for heap in desks.chain(guests) {
        // SAFETY: nobody holds a desk any more, nor reads a hint, nor makes a guest's task.
        unsafe { Heap::orphan(heap) };
    }
}
