//! The operations of a thread on the local scheduler that it holds: it creates, queues and runs
//! tasks.

use super::cell::{self, Keep, Outcome, Ran, Task};
use super::local::{LocalContext, Own};
use super::state::Claim;
use super::steal;
use crate::sync::{Instant, Ordering};
use crate::worker::idle::Search;
use crate::worker::stored_waker::StoredWaker;
use std::future::Future;

/// `MAINTENANCE_POLLS_MAX` is the maximum number of polls between two maintenances of the local
/// scheduler (`maintain`). `MAINTENANCE_NS` is the time between them that we aim for, in ns.
/// Maintenances must not follow each other too closely, because each of them reads the clock.
const MAINTENANCE_POLLS_MAX: u32 = 64;
const MAINTENANCE_NS: u64 = 20_000;
/// After about this number of polls, a task from the injection queue has priority. We check this at
/// each maintenance.
pub(super) const OUTSIDE_EVERY: u32 = MAINTENANCE_POLLS_MAX;

impl<'a> LocalContext<'a> {
    #[inline]
    fn own<R>(&self, f: impl FnOnce(&mut Own) -> R) -> R {
        self.scheduler.own.with_mut(|own| {
            // SAFETY: a `LocalContext` exists only on the thread that holds the local scheduler, so
            // no other thread uses it. `f` is always in this file, and calls nothing that comes
            // back here.
            f(unsafe { &mut *own })
        })
    }

    /// Wakes an idle task into the LIFO slot if that is empty, so that the task runs next. If
    /// `spare` is true, the waker's reference stays with the task. Returns false if nothing was
    /// done.
    #[inline]
    pub(super) fn wakes_into_slot(self, task: Task, spare: bool) -> bool {
        if !self.scheduler.lifo.is_empty() || !task.state().wake_into_slot(spare) {
            return false;
        }
        // SAFETY: this thread holds the local scheduler and has found the slot empty, and the
        // wake-up has claimed the task.
        unsafe { self.scheduler.lifo.put(task) };
        self.ensure_watchdog();
        true
    }

    /// Queues a scheduled task that is in no other queue. It runs next if the LIFO slot is empty.
    pub(super) fn push_scheduled(self, task: Task) {
        if self.scheduler.lifo.is_empty() {
            task.state().claim_queued();
            // SAFETY: this thread holds the local scheduler and has found the slot empty.
            unsafe { self.scheduler.lifo.put(task) };
            self.ensure_watchdog();
        } else {
            task.state().to_hinted();
            self.push_back(task);
        }
    }

    /// Puts a hint to the task at the end of the run queue.
    #[inline]
    pub(super) fn push_back(self, task: Task) {
        // SAFETY: this thread holds the local scheduler, so it owns the run queue and the LIFO
        // slot.
        unsafe { self.scheduler.hints.push(task) };
        self.ensure_watchdog();
    }

    /// Ensures that there is a watchdog, which checks every millisecond whether this thread is
    /// stuck in a poll.
    #[inline]
    fn ensure_watchdog(self) {
        self.tasks.slots.ensure_watchdog();
    }

    /// Creates a task in the heap of this local scheduler.
    #[inline]
    pub(super) fn make<F, O>(self, word: u64, future: F) -> Task
    where
        F: Future,
        O: Keep<Outcome<F>>,
    {
        self.scheduler.counters.spawned.add(1);
        // SAFETY: the heap was created when the local scheduler was first held.
        let heap = unsafe { &*self.scheduler.heap.load(Ordering::Relaxed) };
        // SAFETY: this thread holds the local scheduler and therefore owns its heap. The callers
        // box everything that does not fit.
        unsafe { Task::new::<F, O>(heap, word, future) }
    }

    /// Runs one task. The task is queued in this local scheduler, comes from the injection queue,
    /// or is stolen. Returns false if it finds no task.
    ///
    /// If `cancel` is true, it drops the task's future instead.
    #[inline(always)]
    pub(super) fn step(self, cancel: bool) -> bool {
        if self.own(|own| own.polls_left == 0) {
            return self.step_after_maintenance(cancel);
        }
        let Some((task, claim)) = self.next() else {
            return false;
        };
        self.run(task, claim.or_cancel(cancel));
        true
    }

    /// Calls `waker`. If this wakes an idle task of this pool, it runs the task at once, and then
    /// the tasks that follow through the LIFO slot. The woken task itself need not go through the
    /// slot, because no other worker could take it from there.
    ///
    /// The pool must have one worker.
    #[inline]
    pub(super) fn run_woken(self, waker: StoredWaker) {
        let task = cell::woken_by(waker.get());
        let task = task.filter(|task| task.is_of(self.tasks));
        let free = self.scheduler.lifo.is_empty() && self.own(|own| own.polls_left > 0);
        let claimed = task.filter(|_| free).and_then(|task| {
            let claim = task.state().claim_idle()?;
            Some((task, claim))
        });
        match claimed {
            Some((task, claim)) => {
                // We must not drop the waker, because the claim has taken over its reference.
                std::mem::forget(waker);
                self.run(task, claim);
            }
            None => waker.wake_quietly(),
        }
        self.run_slot();
    }

    /// Runs the task in the LIFO slot, and the tasks that it wakes into the slot in turn, up to a
    /// limit.
    ///
    /// This does not run queued tasks, even after maintenance, because they may wait for the result
    /// of everything that is done in this turn.
    #[inline]
    pub(super) fn run_slot(self) {
        const MOST: u32 = 16;
        for _ in 0..MOST {
            // SAFETY: this thread holds the local scheduler, so it owns the run queue and the LIFO
            // slot.
            let Some(task) = (unsafe { self.scheduler.lifo.take() }) else {
                return;
            };
            if self.own(|own| own.polls_left == 0) {
                self.maintain();
            }
            self.run(task, task.state().claimed());
        }
    }

    /// Does the maintenance, and then runs one task like [`step`](Self::step).
    #[cold]
    fn step_after_maintenance(self, cancel: bool) -> bool {
        let outside = self.maintain();
        if self.scheduler.hints.len() > 0 {
            self.spill();
        }
        let from_outside = || {
            let task = self.tasks.outside.pop()?;
            Some((task, task.state().claim_queued()))
        };
        let first = if outside { from_outside() } else { None };
        let next = first.or_else(|| self.next());
        // We end the search now, because the task that runs next is user code.
        self.end_search();
        let Some((task, claim)) = next else {
            return false;
        };
        self.run(task, claim.or_cancel(cancel));
        true
    }

    /// Runs a task that this thread has just claimed and that is not bound to a worker.
    #[inline(always)]
    fn run(self, task: Task, claim: Claim) {
        self.own(|own| own.polls_left -= 1);
        // We count the poll before it begins. If the watchdog finds the count unchanged a
        // millisecond later, this thread is stuck in the poll.
        self.scheduler.counters.polls.add(1);
        // SAFETY: the caller has claimed the task.
        if unsafe { task.run(claim, &self.scheduler.counters) } == Ran::Again {
            self.push_back(task);
        }
    }

    /// Claims the next task to run.
    #[inline(always)]
    fn next(self) -> Option<(Task, Claim)> {
        // SAFETY: this thread holds the local scheduler, so it owns the run queue and the LIFO
        // slot.
        if let Some(task) = unsafe { self.scheduler.lifo.take() } {
            return Some((task, task.state().claimed()));
        }
        // SAFETY: this thread holds the local scheduler, so it owns the run queue and the LIFO
        // slot.
        while let Some(task) = unsafe { self.scheduler.hints.pop() } {
            if let Some(claim) = task.state().claim_hinted() {
                return Some((task, claim));
            }
        }
        self.elsewhere()
    }

    /// Claims a task from the injection queue or from another local scheduler.
    ///
    /// A worker that was notified owns the pool's only search, and ends it here. Other workers that
    /// have run out of tasks do not need it, because any number of threads may steal. They begin it
    /// if they can, so that nobody is notified for work that they are about to find.
    #[cold]
    fn elsewhere(self) -> Option<(Task, Claim)> {
        if let Some(task) = self.tasks.outside.pop() {
            return Some((task, task.state().claim_queued()));
        }
        let idle = &self.tasks.slots.idle;
        let called = self.own(|own| own.search.take());
        let search = called.or_else(|| idle.begin_search());
        // SAFETY: this thread holds the local scheduler, so it owns the run queue and the LIFO
        // slot.
        let stolen = unsafe { steal::search(self.tasks, self.scheduler) };
        if stolen.is_some() {
            self.scheduler.counters.steals.add(1);
            // The hints that were copied to this run queue wait behind the stolen task, whose poll
            // may be long. If it is, a watchdog must find them.
            self.ensure_watchdog();
        }
        if let Some(search) = search {
            self.tasks.slots.end_search(search);
        }
        let stolen = stolen?;
        steal::notify_thieves(self.tasks, stolen.left_ns);
        Some((stolen.task, stolen.claim))
    }

    /// Records that this thread owns the search, because it was notified. The search ends at the
    /// maintenance before the next task.
    pub(super) fn begin_search(self, search: Search) {
        self.own(|own| (own.search, own.polls_left) = (Some(search), 0));
    }

    /// Ends the search, so that another worker can search.
    pub(super) fn end_search(self) {
        if let Some(search) = self.own(|own| own.search.take()) {
            self.tasks.slots.end_search(search);
        }
    }

    /// Does the maintenance of the local scheduler. It reads the clock, estimates the duration of a
    /// poll, and plans the next maintenance. It also notifies another worker if that is worth it.
    /// Returns whether the next task must come from the injection queue.
    fn maintain(self) -> bool {
        if self.own(|own| own.polls_planned == 0) {
            self.own(|own| (own.polls_left, own.polls_planned) = (1, 1));
            return false;
        }
        let now = Instant::now();
        let (guess, outside) = self.own(|own| {
            let elapsed = now.duration_since(own.looked).as_nanos() as u64;
            let each = elapsed / u64::from(own.polls_planned);
            // We use the lower of the last two values, because one long poll among tiny ones does
            // not say anything about the tasks in the queue.
            let guess = each.min(own.last_ns);
            own.last_ns = each;
            own.looked = now;
            own.outside_in = own.outside_in.saturating_sub(own.polls_planned);
            let outside = own.outside_in == 0;
            if outside {
                own.outside_in = OUTSIDE_EVERY;
            }
            own.polls_planned =
                (MAINTENANCE_NS / each.max(1)).clamp(1, MAINTENANCE_POLLS_MAX.into()) as u32;
            own.polls_left = own.polls_planned;
            (guess, outside)
        });
        self.scheduler
            .set_poll_ns(guess.min(u32::MAX.into()) as u32);
        self.scheduler.hints.forget_popped();
        let (here, outside_here) = (self.scheduler.hints.unreserved(), self.tasks.outside.len());
        if here + outside_here > 0 && guess >= steal::POLL_NS_WORTH_A_STEAL.into() {
            steal::notify_helpers(self.tasks, here as u64 * guess, Some(now));
        }
        outside
    }

    /// Returns the number of hints in the run queue, without the task in the LIFO slot.
    pub(super) fn hints(self) -> usize {
        self.scheduler.hints.len()
    }

    /// Returns the number of tasks that wait for this thread, or for any thread. Stale hints count
    /// too.
    pub(super) fn waiting(self) -> usize {
        let slot = usize::from(!self.scheduler.lifo.is_empty());
        self.scheduler.hints.len() + slot + self.tasks.outside.len()
    }

    /// Moves the task in the LIFO slot to the end of the queue.
    fn spill(self) {
        // SAFETY: this thread holds the local scheduler, so it owns the run queue and the LIFO
        // slot.
        if let Some(task) = unsafe { self.scheduler.lifo.take() } {
            task.state().unclaim();
            self.push_back(task);
        }
    }

    /// Moves the task in the LIFO slot and all tasks in the injection queue to the end of this
    /// local scheduler's run queue.
    pub(super) fn gather(self) {
        self.spill();
        while let Some(task) = self.tasks.outside.pop() {
            task.state().to_hinted();
            self.push_back(task);
        }
    }

    /// Moves the first `count` hints of the run queue to its end.
    pub(super) fn rotate(self, count: usize) {
        for _ in 0..count {
            // SAFETY: this thread holds the local scheduler, so it owns the run queue and the LIFO
            // slot.
            if let Some(task) = unsafe { self.scheduler.hints.pop() } {
                self.push_back(task);
            }
        }
    }

    /// Moves all tasks that are queued in this local scheduler to the injection queue, so that
    /// other threads can take them.
    pub(super) fn clear(self) {
        self.spill();
        // SAFETY: this thread holds the local scheduler, so it owns the run queue and the LIFO
        // slot.
        for task in std::iter::from_fn(|| unsafe { self.scheduler.hints.pop() }) {
            if task.state().unhint() {
                self.tasks.outside.push(task);
            }
        }
    }
}
