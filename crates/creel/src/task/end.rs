//! The end of a pool's tasks.

use super::local::{self, LocalScheduler};
use super::slab::Heap;
use super::state::Then;
use super::steal::Progress;
use super::tasks::Tasks;
use crate::sync::{lock, thread};
use crate::worker::idle::Notification;

/// Tasks that are run behind workers before the caller looks whether one is back, at most.
const STEPS: usize = 256;

/// How far all had come at the owner's last look.
#[derive(Default)]
pub(crate) struct Behind {
    progress: Progress,
    notified: Option<Notification>,
}

impl Tasks {
    /// Cancels every task of the pool that is not complete; their workers drop the futures.
    pub(crate) fn cancel_all(&self) {
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

    /// Called from time to time by a thread that holds no local scheduler: runs tasks that lie outside, or
    /// behind workers that have not come further than `last`, and renews that. Returns whether there
    /// was one. `cancel`: the pool ends, and they are cancelled instead.
    pub(crate) fn run_behind(&self, last: &mut Behind, cancel: bool) -> bool {
        let (mut now, notified) = (Progress::default(), self.slots.idle.notified());
        now.take(self);
        if let Some(notified) = notified.filter(|notified| last.notified == Some(*notified)) {
            // It has not come, as nobody else would find out: somebody must be able to search.
            self.slots.give_up(notified);
        }
        let stuck = now.mark_stuck(&last.progress, self);
        *last = Behind {
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
        self.block_on_schedulers.return_lease(block_on_scheduler);
        found
    }

    /// Whether a task lies where a worker would take it; a moment ago.
    pub(crate) fn any_scheduled(&self) -> bool {
        self.any_outside() || self.all_schedulers().any(LocalScheduler::has_hints)
    }

    /// Drops what is left of the tasks and lets go of the heaps. Called once, by the last user to leave
    /// the pool: nobody serves it any more, and nobody enters.
    pub(crate) fn end(&self) {
        loop {
            self.cancel_all();
            let bound = || {
                self.schedulers
                    .made()
                    .find_map(|scheduler| scheduler.bound.pop())
            };
            while let Some(task) = self.outside.pop().or_else(bound) {
                let claim = task.state().claim_queued().or_cancel(true);
                // SAFETY: just claimed. A bound task that is still here is one of `spawn_on`, which
                // any thread may drop: a worker's thread outlives its `spawn_local` tasks.
                unsafe { task.run(claim, &self.dropped) };
            }
            for scheduler in self.all_schedulers() {
                // SAFETY: nobody serves the pool any more.
                while let Some((task, claim)) = unsafe { scheduler.pop_left() } {
                    // SAFETY: just claimed.
                    unsafe { task.run(claim.or_cancel(true), &self.dropped) };
                }
            }
            // A task that another thread has just woken is on its way to a queue.
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
            // SAFETY: nobody holds a local scheduler any more, nor reads a hint, nor makes a task.
            unsafe { Heap::orphan(heap) };
        }
    }
}
