//! Runs tasks of stuck workers, and cancels and drops all tasks when the pool ends.
//!
//! When a pool is dropped, its tasks end in three steps:
//!
//! 1. [`Tasks::cancel_all`] marks every task as cancelled.
//! 2. The workers drop the futures in their turns. If a worker is stuck, the thread that drops the
//!    pool cancels the tasks that are stranded there, with [`Tasks::run_stranded`].
//! 3. The last user that leaves the pool drops what is left, and releases the heaps
//!    ([`Tasks::end`]).
//!
//! A substitute for workers that wait in other pools (`pool/away.rs`) also uses `run_stranded`, but
//! it runs the tasks and does not cancel them.

use super::local::{self, LocalScheduler};
use super::slab::Heap;
use super::state::Then;
use super::steal::Progress;
use super::tasks::Tasks;
use crate::sync::{lock, thread};
use crate::worker::idle::Notification;

/// The maximum number of stranded tasks that a call runs. Then its caller checks whether a worker
/// is back.
const STEPS: usize = 256;

/// The state of all workers when the owner of this value last checked them.
#[derive(Default)]
pub(crate) struct Stranded {
    progress: Progress,
    notified: Option<Notification>,
}

impl Tasks {
    /// Cancels every task of the pool that is not complete. The threads that run the tasks then
    /// drop the futures.
    pub(super) fn cancel_all(&self) {
        let mut scheduled = Vec::new();
        self.for_each_cell(|task| {
            if let Some(Then::Enqueue) = task.state().cancel() {
                scheduled.push(task);
            }
        });
        for task in scheduled {
            match task.state().slot() {
                Some(slot) => {
                    let slot = usize::from(slot);
                    self.schedulers.at(slot).bound.push(task);
                    self.slots.at(slot).notify();
                }
                None => self.outside.push(task),
            }
        }
    }

    /// Runs tasks that are in the injection queue, or that are stranded at workers without progress
    /// since `last`. Then it updates `last`. Returns whether there was a task. If the pool ends,
    /// `cancel` is true and the tasks are cancelled instead. A thread that holds no local scheduler
    /// calls this from time to time.
    pub(super) fn run_stranded(&self, last: &mut Stranded, cancel: bool) -> bool {
        let (mut now, notified) = (Progress::default(), self.slots.idle.notified());
        now.take(self);
        if let Some(notified) = notified.filter(|notified| last.notified == Some(*notified)) {
            // The notified worker has not arrived since the last check. There may be no watchdog
            // that notices this, so we take its search back to let another worker search.
            self.slots.give_up(notified);
        }
        let stuck = now.mark_stuck(&last.progress, self);
        *last = Stranded {
            progress: now,
            notified,
        };
        if !stuck && self.outside.len() == 0 || !local::may_attach() {
            return false;
        }
        let block_on_scheduler = self.block_on_schedulers.take();
        // SAFETY: the local scheduler has just been given to this thread, which holds no other.
        unsafe {
            self.block_on_schedulers
                .scheduler(block_on_scheduler)
                .attach(self)
        };
        let mut found = false;
        if let Some(context) = local::current_in(self) {
            let steps = if cancel { usize::MAX } else { STEPS };
            found = (0..steps).take_while(|_| context.step(cancel)).count() > 0;
            context.clear();
            context.end_search();
            context.detach_thread();
        }
        self.block_on_schedulers.release(block_on_scheduler);
        found
    }

    /// Returns whether there is a task that a worker would take. The answer may be out of date.
    pub(crate) fn any_scheduled(&self) -> bool {
        self.any_outside() || self.all_schedulers().any(LocalScheduler::has_hints)
    }

    /// Drops the remaining tasks and releases the heaps. The last user to leave the pool calls this
    /// once. No thread serves the pool any more, and no thread can enter it.
    pub(super) fn end(&self) {
        loop {
            self.cancel_all();
            let bound = || {
                self.schedulers
                    .made()
                    .find_map(|scheduler| scheduler.bound.pop())
            };
            while let Some(task) = self.outside.pop().or_else(bound) {
                let claim = task.state().claim_queued().or_cancel(true);
                // SAFETY: we have just claimed the task. A bound task that is still here comes from
                // `spawn_on`, so any thread may drop it. The reason is that a worker's thread
                // outlives its `spawn_local` tasks.
                unsafe { task.run(claim, &self.dropped) };
            }
            for scheduler in self.all_schedulers() {
                // SAFETY: no thread serves the pool any more, so none holds a local scheduler.
                while let Some((task, claim)) = unsafe { scheduler.pop_left() } {
                    // SAFETY: we have just claimed the task.
                    unsafe { task.run(claim.or_cancel(true), &self.dropped) };
                }
            }
            // We repeat until every task is complete, because another thread may have just woken a
            // task that has not reached its queue yet.
            let mut unfinished = false;
            self.for_each_cell(|task| unfinished |= task.state().is_unfinished());
            if !unfinished {
                break;
            }
            thread::yield_now();
        }
        let outside = lock(&self.outside_heap).0.take();
        for heap in self
            .all_schedulers()
            .filter_map(LocalScheduler::take_heap)
            .chain(outside)
        {
            // SAFETY: no thread holds a local scheduler, reads a hint or creates a task any more.
            unsafe { Heap::orphan(heap) };
        }
    }
}
