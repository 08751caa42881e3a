//! What tasks add to a worker's turn, its wait and its rescue of others.

use super::cell::{Ran, Schedule, Task};
use super::desk::{self, Desk, Held};
use super::inside;
use super::steal::Progress;
use super::tasks::Tasks;
use crate::seat::idle::Search;
use crate::seat::seat::Seat;
use crate::seat::seats::{Seats, When};
use crate::seat::stored_waker::StoredWaker;
use crate::seat::woken::wake_all;
use crate::sync::{Ordering, prefetch};
use crate::time::timers::Timers;
use std::sync::Arc;
use std::vec::Drain;

/// Tasks a turn, at most: timers and sockets come after.
const TURN: usize = 64;
/// Bound tasks a turn, at most.
const TURN_BOUND: usize = 32;

/// How many due tasks ahead are fetched into the cache, and how much of each: one of thousands is
/// in no near one.
const AHEAD: usize = 4;
const FETCHED_BYTES: usize = 320;

/// Batches of another's due timers that are fired at once, at most.
const BATCHES: usize = 16;

impl Schedule for Tasks {
    fn schedule(self: Arc<Self>, task: Task) {
        self.queue(task);
    }
}

impl Desk {
    /// Runs a task that is bound to the desk's seat.
    ///
    /// # Safety
    ///
    /// The caller has just taken it from the seat's queue, and is the seat's thread or the only one.
    pub(super) unsafe fn run_bound(&self, task: Task, cancel: bool) {
        let claim = task.state().claim_queued().or_cancel(cancel);
        self.bound_counters.polls.add(1);
        // SAFETY: just claimed, by what may run it, says the caller.
        match unsafe { task.run(claim, &self.bound_counters) } {
            Ran::Idle => {}
            Ran::Again => self.bound.push(task),
            Ran::Complete => {
                self.bound_alive.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
}

impl Tasks {
    /// Queues a task that has just become scheduled, not by a hint. From any thread.
    pub(super) fn queue(&self, task: Task) {
        let Some(seat) = task.state().seat() else {
            if let Some(held) = desk::here_in(self).or_else(|| inside::sit_down(self)) {
                return held.push_scheduled(task);
            }
            self.outside.push(task);
            // Who wakes has nobody to tell that no thread can be had: the next call tries again.
            let _ = self.seats.call(0, When::Later);
            return;
        };
        let seat = usize::from(seat);
        self.desks.at(seat).bound.push(task);
        // It has a thread, which does not end while such a task lives, unless the pool ends.
        self.seats.at(seat).parker.notify_later();
    }

    /// Runs some tasks on the thread that serves this seat. Says whether there may be more.
    ///
    /// `search`: it was called, and the search is its own. `rescues`: as the watch, it has found
    /// tasks whose holders do not get on.
    pub(crate) fn turn(&self, seat: &Seat, mut search: Option<Search>, rescues: bool) -> bool {
        let closing = self.seats.is_closing();
        let bound = self.run_bound(seat, &mut search, closing);
        let wanted = search.is_some() || rescues || self.outside.len() > 0;
        let held = desk::here_in(self).or_else(|| {
            wanted
                .then(|| self.sit_down(seat, Seats::leave_idle_for_code))
                .flatten()
        });
        let Some(held) = held else {
            self.seats.end_search_of(&mut search);
            return bound;
        };
        if let Some(search) = search {
            held.begin_search(search);
        }
        if rescues {
            // There may be more that does not get on, and this one is not the watch any more.
            self.seats.see_to_a_watch();
        }
        if seat.index >= self.seats.workers() && !closing {
            self.clear_desk(seat);
            return bound;
        }
        for _ in 0..TURN {
            if !held.step(closing) {
                return bound;
            }
            if seat.urgent.any() {
                break;
            }
        }
        true
    }

    /// Gives the calling thread, which serves this seat, its desk, if it may run tasks. `leave`
    /// takes it out of the idle, and returns the search if it had been called.
    fn sit_down<'a>(
        &'a self,
        seat: &'a Seat,
        leave: fn(&Seats, &Seat) -> Option<Search>,
    ) -> Option<Held<'a>> {
        if let Some(held) = desk::here_in(self) {
            return Some(held);
        }
        if !desk::may_sit_down()
            || !self.seats.idle.may_run_tasks(seat.index) && !self.seats.is_closing()
        {
            return None;
        }
        let mut search = leave(&self.seats, seat);
        // Again, because the seat may have been lent until just now. It cannot be lent any more.
        if !self.seats.idle.may_run_tasks(seat.index) && !self.seats.is_closing() {
            self.seats.end_search_of(&mut search);
            return None;
        }
        // SAFETY: this thread serves the seat, and holds no other desk.
        unsafe { self.desks.at(seat.index).sit_down(self) };
        let held = desk::here_in(self)?;
        if let Some(search) = search {
            held.begin_search(search);
        }
        Some(held)
    }

    /// Wakes what due timers wait with, on the thread that serves this seat.
    ///
    /// On a pool of one nobody else could take what is woken, so each task runs before the next is
    /// woken, by way of the slot. Elsewhere all are queued, where an idle worker finds them behind a
    /// long poll.
    pub(crate) fn run_due(&self, seat: &Seat, due: &mut Drain<'_, StoredWaker>) {
        // Without a look at the loops, because what is due must not wait for a share: the next turn
        // begins with one.
        let held = self.sit_down(seat, Seats::leave_idle);
        // Wakers are somebody's code, behind which nobody else could search.
        if let Some(held) = held {
            held.end_search();
        }
        let alone = self.seats.workers() == 1 && !self.seats.is_closing();
        let Some(held) = held.filter(|_| alone) else {
            return wake_all(due);
        };
        let fetch = |waker: &StoredWaker| prefetch(waker.data(), FETCHED_BYTES);
        due.as_slice().iter().take(AHEAD).for_each(fetch);
        while let Some(waker) = due.next() {
            due.as_slice().get(AHEAD - 1).into_iter().for_each(fetch);
            if seat.urgent.any() {
                waker.wake_quietly();
            } else {
                held.run_woken(waker);
            }
        }
    }

    /// Runs tasks that are bound to this seat, and ends the search before the first. Says whether
    /// there may be more.
    fn run_bound(&self, seat: &Seat, search: &mut Option<Search>, cancel: bool) -> bool {
        let desk = self.desks.at(seat.index);
        if desk.bound.len() == 0 {
            return false;
        }
        self.seats.end_search_of(search);
        let mut left = self.seats.leave_idle_for_code(seat);
        self.seats.end_search_of(&mut left);
        for _ in 0..TURN_BOUND {
            let Some(task) = desk.bound.pop() else {
                return false;
            };
            // SAFETY: just taken from the seat's queue, and this is the seat's thread.
            unsafe { desk.run_bound(task, cancel) };
        }
        true
    }

    /// Runs tasks that are bound to any seat, on the only thread of a system without threads. Says
    /// whether there were any.
    pub(crate) fn run_all_bound(&self) -> bool {
        let mut found = false;
        for index in self.seats.made().map(|seat| seat.index) {
            let desk = self.desks.at(index);
            for _ in 0..TURN_BOUND.min(desk.bound.len()) {
                let Some(task) = desk.bound.pop() else { break };
                let _inside = inside::enter(self.counted(), index);
                found = true;
                // SAFETY: just taken from the seat's queue; the only thread is as good as the seat's.
                unsafe { desk.run_bound(task, false) };
            }
        }
        found
    }

    /// Called by a worker whose turn found nothing, before it waits: frees its desk, and puts the
    /// seat among the idle. False: there is one after all.
    pub(crate) fn rest(&self, seat: &Seat) -> bool {
        if let Some(held) = desk::here_in(self) {
            if held.desk.has_hints() {
                return false;
            }
            held.end_search();
            held.stand_up();
        }
        self.seats.enter_idle(seat);
        let takes = self.outside.len() > 0 && self.seats.idle.may_run_tasks(seat.index);
        !takes && self.desks.at(seat.index).bound.len() == 0
    }

    /// Frees the desk of a seat that is no longer wanted; the others get what lies there.
    ///
    /// Not while the seat's thread is retiring: the one that is called may be of this very seat, if
    /// it is wanted again.
    pub(crate) fn clear_desk(&self, seat: &Seat) {
        if let Some(held) = desk::here_in(self) {
            held.clear();
            held.end_search();
            held.stand_up();
        }
        self.seats.enter_idle(seat);
        self.seats.call_if_work();
    }

    /// Whether the thread of a seat that is no longer wanted may end: nothing bound to it is left.
    pub(crate) fn may_retire(&self, seat: &Seat) -> bool {
        if self.desks.at(seat.index).bound_alive.load(Ordering::SeqCst) == 0 {
            return true;
        }
        if self.seats.is_closing() {
            // A bound task that was spawned while the pool was closing may have been missed.
            self.cancel_all();
        }
        false
    }

    /// What the watch does for tasks, which have come so far between two looks. Says whether this
    /// worker shall search, or take from outside.
    ///
    /// One whose seat is lent takes the seat back from a borrower who is stuck.
    pub(crate) fn rescue(&self, seat: &Seat, before: &Progress, now: &Progress) -> bool {
        let found = now.mark_stuck(before, self) || self.outside.len() > 0;
        if !found || self.seats.idle.may_run_tasks(seat.index) {
            return found;
        }
        let relieves = now.has_stuck_guest(before, self);
        if relieves {
            // The seat's borrower may be another by now, or none. One who is relieved for nothing
            // only stands up, and leaves what lies at its desk to the others.
            self.seats.idle.relieve(seat.index);
        }
        relieves
    }

    /// Fires the due timers of another seat, whose thread does not get on. Says whether there were
    /// any.
    pub(crate) fn rescue_timers(&self, seat: &Seat, timers: &Timers) -> bool {
        let mut found = false;
        for _ in 0..BATCHES {
            let mut rescued = timers.rescue();
            found |= !rescued.due.list().is_empty();
            rescued.due.run(|due| {
                // They are queued here, if this thread may run tasks. Wakers are somebody's code,
                // behind which nobody else could search.
                if let Some(held) = self.sit_down(seat, Seats::leave_idle) {
                    held.end_search();
                }
                wake_all(due);
            });
            if !rescued.more {
                break;
            }
        }
        found
    }
}
