//! What the scheduler of tasks does in a worker's loop: it runs tasks in each turn, prepares to
//! wait, and rescues the tasks of stuck workers.

use super::cell::{self, Ran, Schedule, Task};
use super::context;
use super::local::{self, LocalContext, LocalScheduler};
use super::state::Claim;
use super::steal::{self, Progress};
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

/// The maximum number of tasks in one turn. Timers and sockets are checked afterwards.
const TURN: usize = 64;
/// The maximum number of chains of bound tasks in one turn.
const TURN_BOUND: usize = 32;
/// The maximum number of bound tasks in a chain, after the first one. Without a limit, two tasks
/// that wake each other would hold up all others.
const CHAIN: usize = 16;

/// `AHEAD` is the number of tasks with a due timer that we prefetch into the cache, and
/// `FETCHED_BYTES` is the number of bytes that we prefetch of each task. If thousands of tasks are
/// due, none of them is in a near cache.
const AHEAD: usize = 4;
const FETCHED_BYTES: usize = 320;

/// The maximum number of batches that one rescue of another worker's due timers fires.
const BATCHES: usize = 16;

impl Schedule for Tasks {
    fn schedule(self: Arc<Self>, task: Task) {
        self.queue(task);
    }
}

impl LocalScheduler {
    /// Runs a task that is bound to the worker of this local scheduler.
    ///
    /// # Safety
    ///
    /// The caller must have just taken the task from the worker's queue. The calling thread must be
    /// the worker's thread, or the only thread.
    pub(super) unsafe fn run_bound(&self, task: Task, cancel: bool) {
        let claim = task.state().claim_queued().or_cancel(cancel);
        // SAFETY: we have just claimed the task, and the caller guarantees that this thread may run
        // it.
        unsafe { self.run_claimed(task, claim) };
    }

    /// Runs a task that is bound to the worker of this local scheduler.
    ///
    /// # Safety
    ///
    /// The caller must have claimed the task, and must be the worker's thread or the only thread.
    unsafe fn run_claimed(&self, task: Task, claim: Claim) {
        self.bound_counters.polls.add(1);
        // SAFETY: the caller has claimed the task, and this thread may run it.
        match unsafe { task.run(claim, &self.bound_counters) } {
            Ran::Idle => {}
            Ran::Again => self.bound.push(task),
            Ran::Complete => {
                self.bound_alive.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Runs a *chain*: a task that is bound to this worker, then the bound tasks that it wakes, and
    /// so on. These tasks run before all queued tasks, because they often wait for data that is
    /// still in the cache, and because a message that passes through several tasks would otherwise
    /// wait for all queued tasks at each of them. A task that wakes itself is queued instead.
    ///
    /// # Safety
    ///
    /// The caller must have claimed the task, and must be the worker's thread.
    unsafe fn run_chain(&self, task: Task, claim: Claim, cancel: bool) {
        self.chains.store(true, Ordering::Relaxed);
        // SAFETY: the caller guarantees both conditions.
        unsafe { self.run_claimed(task, claim) };
        for _ in 0..CHAIN {
            let Some(task) = self.chain.pop() else { break };
            // SAFETY: the task was just taken from a queue of this worker, and this is the worker's
            // thread.
            unsafe { self.run_bound(task, cancel) };
        }
        self.chains.store(false, Ordering::Relaxed);
        while let Some(task) = self.chain.pop() {
            self.bound.push(task);
        }
    }
}

impl Tasks {
    /// Queues a task that has just become scheduled without hints, which means that `HINTED` in its
    /// state word is not set (`state.rs`). Any thread may call this.
    pub(super) fn queue(&self, task: Task) {
        let Some(slot) = task.state().slot() else {
            if let Some(context) = local::current_in(self).or_else(|| context::attach(self)) {
                return context.push_scheduled(task);
            }
            self.outside.push(task);
            // A waker cannot report that the OS refused a thread. We ignore the error, because the
            // next notification tries again.
            let _ = self.slots.notify_one(0, When::Later);
            return;
        };
        let slot = usize::from(slot);
        let scheduler = self.schedulers.at(slot);
        if scheduler.chains.load(Ordering::Relaxed) && context::is_worker(self, slot) {
            // This thread runs the chain, and takes the task after the current one.
            return scheduler.chain.push(task);
        }
        scheduler.bound.push(task);
        // We need not start a thread, because the worker has one. It does not end while a task
        // bound to it is alive, unless the pool ends.
        self.slots.at(slot).parker.notify_later();
    }

    /// Runs some tasks on the thread that serves this worker. Returns whether more tasks may be
    /// queued.
    ///
    /// If the worker was notified, `search` is the search that it now owns. `rescues` says whether
    /// the worker, as the watchdog, has found tasks whose holders make no progress.
    pub(super) fn turn(
        &self,
        slot: &WorkerSlot,
        mut search: Option<Search>,
        rescues: bool,
    ) -> bool {
        let closing = self.slots.is_closing();
        let bound = self.run_bound(slot, &mut search, closing);
        let called = search.is_some() || rescues || self.outside.len() > 0;
        let wanted = called || steal::is_worth_a_look(self);
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
            // This worker has left the idle state and is no longer the watchdog, but there may be
            // more stranded tasks. Therefore we ensure that there is another watchdog.
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

    /// Gives the calling thread, which serves this worker, its local scheduler, if the thread may
    /// run tasks. `leave` marks the worker as not idle, and returns the search if the worker had
    /// been notified.
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
        // We check again whether the worker may run tasks, because it may have been leased between
        // the check above and `leave`. From now on it cannot be leased, because it is not idle.
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

    /// Wakes the tasks whose timers are due, on the thread that serves this worker.
    ///
    /// In a pool with one worker, no other worker could take the woken tasks. Therefore each woken
    /// task, and the tasks that it wakes into the LIFO slot or into its chain, run before the next
    /// one is woken. In larger pools all woken tasks are queued, so that an idle worker finds them
    /// if one of them has a long poll.
    pub(super) fn run_due(&self, slot: &WorkerSlot, due: &mut Drain<'_, StoredWaker>) {
        // We do not check for loops before we wake these tasks, because due timers must not wait
        // for a share of a loop. The next turn begins with that check.
        let context = self.attach(slot, WorkerSlots::leave_idle);
        // We end the search first, because wakers are user code, which may take long, and no other
        // worker can search in that time.
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
            } else if let Some((task, claim)) = self.claim_bound(slot, &waker) {
                // We must not drop the waker, because the claim has taken over its reference.
                std::mem::forget(waker);
                // SAFETY: we have just claimed the task, which is bound to this worker, and this is
                // the worker's thread.
                unsafe { context.scheduler.run_chain(task, claim, false) };
            } else {
                context.run_woken(waker);
            }
        }
    }

    /// Claims the task that the waker wakes, if it is idle and bound to this worker. The claim takes
    /// over the waker's reference.
    fn claim_bound(&self, slot: &WorkerSlot, waker: &StoredWaker) -> Option<(Task, Claim)> {
        let task = cell::woken_by(waker.get()).filter(|task| task.is_of(self))?;
        let here = task.state().slot().map(usize::from) == Some(slot.index);
        let claim = here.then(|| task.state().claim_idle_bound()).flatten()?;
        Some((task, claim))
    }

    /// Runs chains of tasks that are bound to this worker, and ends the search before the first
    /// task. Returns whether more bound tasks may be queued.
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
            let claim = task.state().claim_queued().or_cancel(cancel);
            // SAFETY: the task was just taken from the worker's queue and claimed, and this is the
            // worker's thread.
            unsafe { scheduler.run_chain(task, claim, cancel) };
        }
        true
    }

    /// Runs tasks that are bound to any worker, on the only thread of a system without threads.
    /// Returns whether there were such tasks.
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
                // SAFETY: the task was just taken from the worker's queue, and this is the only
                // thread, so it may act as the worker's.
                unsafe { scheduler.run_bound(task, false) };
            }
        }
        found
    }

    /// A worker whose turn found nothing calls this before it waits. Returns false if the worker's
    /// local scheduler has tasks. Otherwise releases the local scheduler, marks the worker as idle,
    /// and returns whether there is no other task that the worker can run.
    pub(super) fn before_park(&self, slot: &WorkerSlot) -> bool {
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

    /// Releases the local scheduler of a worker that is no longer in use. Other workers get the
    /// tasks that are queued there.
    ///
    /// This must not be called while the worker's thread is retiring, because the worker that we
    /// notify may be this one, if it is in use again.
    pub(super) fn clear_scheduler(&self, slot: &WorkerSlot) {
        if let Some(context) = local::current_in(self) {
            context.clear();
            context.end_search();
            context.detach_thread();
        }
        self.slots.enter_idle(slot);
        self.slots.notify_if_work();
    }

    /// Returns whether the thread of a worker that is no longer in use may end, because no task
    /// bound to it is left.
    pub(super) fn may_retire(&self, slot: &WorkerSlot) -> bool {
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
            // We cancel all tasks again, because the first time may have missed a bound task that
            // was spawned while the pool was closing.
            self.cancel_all();
        }
        false
    }

    /// Does the watchdog's work for tasks, based on the progress at the last check and now. Returns
    /// whether this worker must search for tasks or take them from the injection queue.
    ///
    /// If there are tasks to take, but this worker is leased, it revokes its lease as soon as any
    /// `block_on` caller is stuck. That caller need not be the one that has the lease.
    pub(super) fn rescue(&self, slot: &WorkerSlot, before: &Progress, now: &Progress) -> bool {
        let found = now.mark_stuck(before, self) || self.outside.len() > 0;
        if !found || self.slots.idle.may_run_tasks(slot.index) {
            return found;
        }
        let revokes = now.has_stuck_block_on(before, self);
        if revokes {
            // By now the worker may be leased to another caller, or not at all. A caller whose
            // lease is revoked without need only releases its local scheduler, and leaves the tasks
            // there to the others.
            self.slots.idle.revoke(slot.index);
        }
        revokes
    }

    /// Fires the due timers of another worker whose thread makes no progress. Returns whether there
    /// were such timers.
    pub(super) fn rescue_timers(&self, slot: &WorkerSlot, timers: &Timers) -> bool {
        let mut found = false;
        for _ in 0..BATCHES {
            let mut rescued = timers.rescue();
            found |= !rescued.due.list().is_empty();
            rescued.due.run(|due| {
                // If this thread may run tasks, the woken tasks are queued in its local scheduler.
                // We end the search first, because wakers are user code, and no other worker can
                // search in that time.
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
