//! What tasks add to a worker's turn, its wait and its rescue of others.

use super::cell::{Ran, Schedule, Task};
use super::desk::{self, Held};
use super::steal::Progress;
use crate::pool::panics::quietly;
use crate::pool::seat::Seat;
use crate::pool::shared::{Shared, When};
use crate::pool::woken::wake_all;
use crate::sync::{Ordering, prefetch};
use crate::time::timers::Timers;
use std::sync::Arc;
use std::task::Waker;
use std::vec::Drain;

/// Tasks a turn, at most: timers and sockets come after.
const TURN: usize = 64;
/// Bound tasks a turn, at most.
const TURN_BOUND: usize = 32;

impl Schedule for Shared {
    fn schedule(self: Arc<Self>, task: Task) {
        let Some(seat) = task.state().seat() else {
            if let Some(held) = desk::here_in(&self) {
                return held.push_scheduled(task);
            }
            self.tasks.outside.push(task);
            // Who wakes has nobody to tell that no thread can be had: the next call tries again.
            let _ = self.call(0, When::Later);
            return;
        };
        let seat = self.seats.at(seat.into());
        seat.desk.bound.push(task);
        // It has a thread, which does not end while such a task lives, unless the pool ends.
        seat.notify_later();
    }
}

/// Runs some tasks on the thread that serves this seat. Says whether there may be more.
///
/// `searches`: it was called, and the search is its own. `rescues`: as the watch, it has found
/// tasks whose holders do not get on.
pub(crate) fn turn(pool: &Arc<Shared>, seat: &Seat, searches: bool, rescues: bool) -> bool {
    let closing = pool.is_closing();
    let bound = run_bound(pool, seat, closing);
    let wanted = searches || rescues || pool.tasks.outside.len() > 0;
    let held = desk::here_in(pool).or_else(|| wanted.then(|| sit_down(pool, seat)).flatten());
    let Some(held) = held else {
        if searches {
            pool.end_search();
        }
        return bound;
    };
    if searches {
        held.begin_search();
    }
    if rescues {
        // There may be more that does not get on, and this one is not the watch any more.
        pool.see_to_a_watch();
    }
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

/// Gives the calling thread, which serves this seat, its desk, if it may run tasks.
fn sit_down<'a>(pool: &'a Arc<Shared>, seat: &'a Seat) -> Option<Held<'a>> {
    if let Some(held) = desk::here_in(pool) {
        return Some(held);
    }
    if !desk::may_sit_down() || !pool.idle.may_run_tasks(seat.index) && !pool.is_closing() {
        return None;
    }
    let searches = pool.leave_idle(seat);
    // SAFETY: this thread serves the seat, and holds no other desk.
    unsafe { seat.desk.sit_down(pool) };
    let held = desk::here_in(pool)?;
    if searches {
        held.begin_search();
    }
    Some(held)
}

/// How many due tasks ahead are fetched into the cache, and how much of each: one of thousands is
/// in no near one.
const AHEAD: usize = 4;
const FETCHED_BYTES: usize = 320;

/// Batches of another's due timers that are fired at once, at most.
const BATCHES: usize = 16;

/// Wakes what due timers wait with, on the thread that serves this seat.
///
/// On a pool of one nobody else could take what is woken, so each task runs before the next is
/// woken, by way of the slot. Elsewhere all are queued, where an idle worker finds them behind a
/// long poll.
pub(crate) fn run_due(pool: &Arc<Shared>, seat: &Seat, due: &mut Drain<'_, Waker>) {
    let held = sit_down(pool, seat);
    let alone = pool.workers() == 1 && !pool.is_closing();
    let Some(held) = held.filter(|_| alone) else {
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
fn run_bound(pool: &Arc<Shared>, seat: &Seat, cancel: bool) -> bool {
    let desk = &seat.desk;
    for _ in 0..TURN_BOUND {
        let Some(task) = desk.bound.pop() else {
            return false;
        };
        pool.leave_idle_for_long(seat);
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

/// Called by a worker whose turn found nothing, before it waits: frees its desk, and puts the
/// seat among the idle. False: there is work after all.
pub(crate) fn rest(pool: &Arc<Shared>, seat: &Seat) -> bool {
    if let Some(held) = desk::here_in(pool) {
        if held.desk.has_hints() {
            return false;
        }
        held.end_search();
        held.stand_up();
    }
    pool.enter_idle(seat);
    let takes = pool.tasks.outside.len() > 0 && pool.idle.may_run_tasks(seat.index);
    !takes && !pool.offers.any_left() && seat.desk.bound.len() == 0
}

/// Frees the desk of a seat that is no longer wanted; the others get what lies there.
///
/// Not while the seat's thread is retiring: the one that is called may be of this very seat, if
/// it is wanted again.
pub(crate) fn clear_desk(pool: &Arc<Shared>, seat: &Seat) {
    if let Some(held) = desk::here_in(pool) {
        held.clear();
        held.end_search();
        held.stand_up();
    }
    pool.enter_idle(seat);
    pool.call_if_work();
}

/// Whether the thread of a seat that is no longer wanted may end: nothing bound to it is left.
pub(crate) fn may_retire(pool: &Arc<Shared>, seat: &Seat) -> bool {
    if seat.desk.bound_alive.load(Ordering::SeqCst) == 0 {
        return true;
    }
    if pool.is_closing() {
        // A bound task that was spawned while the pool was closing may have been missed.
        super::cancel_all(pool);
    }
    false
}

/// What the watch does for tasks, which have come so far between two looks. Says whether this
/// worker shall search, or take from outside.
///
/// One whose seat is lent takes the seat back from a borrower who is stuck.
pub(crate) fn rescue_tasks(pool: &Shared, seat: &Seat, before: &Progress, now: &Progress) -> bool {
    let found = now.mark_stuck(before, pool) || pool.tasks.outside.len() > 0;
    if !found || pool.idle.may_run_tasks(seat.index) {
        return found;
    }
    let relieves = now.has_stuck_guest(before, pool);
    if relieves {
        pool.idle.relieve(seat.index);
    }
    relieves
}

/// Fires the due timers of another seat, whose thread does not get on. Says whether there were
/// any.
pub(crate) fn rescue_timers(pool: &Arc<Shared>, seat: &Seat, timers: &Timers) -> bool {
    let mut found = false;
    for _ in 0..BATCHES {
        let mut rescued = timers.rescue();
        found |= !rescued.due.list().is_empty();
        rescued.due.run(|due| {
            // They are queued here, if this thread may run tasks.
            sit_down(pool, seat);
            wake_all(due);
        });
        if !rescued.more {
            break;
        }
    }
    found
}
