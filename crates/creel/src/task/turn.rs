//! What tasks add to a worker's turn, its wait and its rescue of others.

use super::cell::{Ran, Schedule, Task};
use super::context;
use super::local::{self, LocalContext, LocalScheduler};
use super::steal::Progress;
use super::tasks::Tasks;
use crate::sync::{Ordering, prefetch};
use crate::time::timers::Timers;
use crate::worker::idle::Search;
use crate::worker::slot::WorkerSlot;
use crate::worker::slots::{When, WorkerSlots};
use crate::worker::stored_waker::StoredWaker;
use crate::worker::woken::wake_all;
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

impl LocalScheduler {
    /// Runs a task that is bound to the local scheduler's worker.
    ///
    /// # Safety
    ///
    /// The caller has just taken it from the worker's queue, and is the worker's thread or the only one.
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
        let Some(slot) = task.state().slot() else {
            if let Some(context) = local::current_in(self).or_else(|| context::attach(self)) {
                return context.push_scheduled(task);
            }
            self.outside.push(task);
            // Who wakes has nobody to tell that no thread can be had: the next call tries again.
            let _ = self.slots.notify_one(0, When::Later);
            return;
        };
        let slot = usize::from(slot);
        self.schedulers.at(slot).bound.push(task);
        // It has a thread, which does not end while such a task lives, unless the pool ends.
        self.slots.at(slot).parker.notify_later();
    }

    /// Runs some tasks on the thread that serves this worker. Says whether there may be more.
    ///
    /// `search`: it was called, and the search is its own. `rescues`: as the watchdog, it has found
    /// tasks whose holders do not get on.
    pub(crate) fn turn(
        &self,
        slot: &WorkerSlot,
        mut search: Option<Search>,
        rescues: bool,
    ) -> bool {
        let closing = self.slots.is_closing();
        let bound = self.run_bound(slot, &mut search, closing);
        let wanted = search.is_some() || rescues || self.outside.len() > 0;
        let context = local::current_in(self).or_else(|| {
            wanted
                .then(|| self.attach(slot, WorkerSlots::leave_idle_for_code))
                .flatten()
        });
        let Some(context) = context else {
            self.slots.end_search_of(&mut search);
            return bound;
        };
        if let Some(search) = search {
            context.begin_search(search);
        }
        if rescues {
            // There may be more that does not get on, and this one is not the watchdog any more.
            self.slots.ensure_watchdog();
        }
        if slot.index >= self.slots.workers() && !closing {
            self.clear_scheduler(slot);
            return bound;
        }
        for _ in 0..TURN {
            if !context.step(closing) {
                return bound;
            }
            if slot.inbox.any() {
                break;
            }
        }
        true
    }

    /// Gives the calling thread, which serves this worker, its local scheduler, if it may run tasks. `leave`
    /// takes it out of the idle, and returns the search if it had been called.
    fn attach<'a>(
        &'a self,
        slot: &'a WorkerSlot,
        leave: fn(&WorkerSlots, &WorkerSlot) -> Option<Search>,
    ) -> Option<LocalContext<'a>> {
        if let Some(context) = local::current_in(self) {
            return Some(context);
        }
        if !local::may_attach()
            || !self.slots.idle.may_run_tasks(slot.index) && !self.slots.is_closing()
        {
            return None;
        }
        let mut search = leave(&self.slots, slot);
        // Again, because the worker may have been lent until just now. It cannot be lent any more.
        if !self.slots.idle.may_run_tasks(slot.index) && !self.slots.is_closing() {
            self.slots.end_search_of(&mut search);
            return None;
        }
        // SAFETY: this thread serves the worker, and holds no other local scheduler.
        unsafe { self.schedulers.at(slot.index).attach(self) };
        let context = local::current_in(self)?;
        if let Some(search) = search {
            context.begin_search(search);
        }
        Some(context)
    }

    /// Wakes what due timers wait with, on the thread that serves this worker.
    ///
    /// On a pool of one nobody else could take what is woken, so each task runs before the next is
    /// woken, by way of the slot. Elsewhere all are queued, where an idle worker finds them behind a
    /// long poll.
    pub(crate) fn run_due(&self, slot: &WorkerSlot, due: &mut Drain<'_, StoredWaker>) {
        // Without a look at the loops, because what is due must not wait for a share: the next turn
        // begins with one.
        let context = self.attach(slot, WorkerSlots::leave_idle);
        // Wakers are somebody's code, behind which nobody else could search.
        if let Some(context) = context {
            context.end_search();
        }
        let alone = self.slots.workers() == 1 && !self.slots.is_closing();
        let Some(context) = context.filter(|_| alone) else {
            return wake_all(due);
        };
        let fetch = |waker: &StoredWaker| prefetch(waker.data(), FETCHED_BYTES);
        due.as_slice().iter().take(AHEAD).for_each(fetch);
        while let Some(waker) = due.next() {
            due.as_slice().get(AHEAD - 1).into_iter().for_each(fetch);
            if slot.inbox.any() {
                waker.wake_quietly();
            } else {
                context.run_woken(waker);
            }
        }
    }

    /// Runs tasks that are bound to this worker, and ends the search before the first. Says whether
    /// there may be more.
    fn run_bound(&self, slot: &WorkerSlot, search: &mut Option<Search>, cancel: bool) -> bool {
        let scheduler = self.schedulers.at(slot.index);
        if scheduler.bound.len() == 0 {
            return false;
        }
        self.slots.end_search_of(search);
        let mut left = self.slots.leave_idle_for_code(slot);
        self.slots.end_search_of(&mut left);
        for _ in 0..TURN_BOUND {
            let Some(task) = scheduler.bound.pop() else {
                return false;
            };
            // SAFETY: just taken from the worker's queue, and this is the worker's thread.
            unsafe { scheduler.run_bound(task, cancel) };
        }
        true
    }

    /// Runs tasks that are bound to any worker, on the only thread of a system without threads. Says
    /// whether there were any.
    pub(crate) fn run_all_bound(&self) -> bool {
        let mut found = false;
        for index in self.slots.made().map(|slot| slot.index) {
            let scheduler = self.schedulers.at(index);
            for _ in 0..TURN_BOUND.min(scheduler.bound.len()) {
                let Some(task) = scheduler.bound.pop() else {
                    break;
                };
                let _inside = context::enter(self.counted(), index);
                found = true;
                // SAFETY: just taken from the worker's queue; the only thread is as good as the worker's.
                unsafe { scheduler.run_bound(task, false) };
            }
        }
        found
    }

    /// Called by a worker whose turn found nothing, before it waits: frees its local scheduler, and puts the
    /// worker among the idle. False: there is one after all.
    pub(crate) fn rest(&self, slot: &WorkerSlot) -> bool {
        if let Some(context) = local::current_in(self) {
            if context.scheduler.has_hints() {
                return false;
            }
            context.end_search();
            context.detach_thread();
        }
        self.slots.enter_idle(slot);
        let takes = self.outside.len() > 0 && self.slots.idle.may_run_tasks(slot.index);
        !takes && self.schedulers.at(slot.index).bound.len() == 0
    }

    /// Frees the local scheduler of a worker that is no longer wanted; the others get what lies there.
    ///
    /// Not while the worker's thread is retiring: the one that is called may be of this very worker, if
    /// it is wanted again.
    pub(crate) fn clear_scheduler(&self, slot: &WorkerSlot) {
        if let Some(context) = local::current_in(self) {
            context.clear();
            context.end_search();
            context.detach_thread();
        }
        self.slots.enter_idle(slot);
        self.slots.notify_if_work();
    }

    /// Whether the thread of a worker that is no longer wanted may end: nothing bound to it is left.
    pub(crate) fn may_retire(&self, slot: &WorkerSlot) -> bool {
        if self
            .schedulers
            .at(slot.index)
            .bound_alive
            .load(Ordering::SeqCst)
            == 0
        {
            return true;
        }
        if self.slots.is_closing() {
            // A bound task that was spawned while the pool was closing may have been missed.
            self.cancel_all();
        }
        false
    }

    /// What the watchdog does for tasks, which have come so far between two looks. Says whether this
    /// worker shall search, or take from outside.
    ///
    /// One whose worker is lent takes the worker back from a borrower who is stuck.
    pub(crate) fn rescue(&self, slot: &WorkerSlot, before: &Progress, now: &Progress) -> bool {
        let found = now.mark_stuck(before, self) || self.outside.len() > 0;
        if !found || self.slots.idle.may_run_tasks(slot.index) {
            return found;
        }
        let revokes = now.has_stuck_block_on(before, self);
        if revokes {
            // The worker's borrower may be another by now, or none. One who is revoked for nothing
            // only stands up, and leaves what lies at its local scheduler to the others.
            self.slots.idle.revoke(slot.index);
        }
        revokes
    }

    /// Fires the due timers of another worker, whose thread does not get on. Says whether there were
    /// any.
    pub(crate) fn rescue_timers(&self, slot: &WorkerSlot, timers: &Timers) -> bool {
        let mut found = false;
        for _ in 0..BATCHES {
            let mut rescued = timers.rescue();
            found |= !rescued.due.list().is_empty();
            rescued.due.run(|due| {
                // They are queued here, if this thread may run tasks. Wakers are somebody's code,
                // behind which nobody else could search.
                if let Some(context) = self.attach(slot, WorkerSlots::leave_idle) {
                    context.end_search();
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
