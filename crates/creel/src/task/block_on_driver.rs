//! A `block_on` driver, which is a caller of `block_on` that runs the pool's tasks in place of a
//! worker.
//!
//! The caller leases a worker (`worker/idle.rs`), so that the number of threads that run tasks
//! stays the same. During the lease it has a local scheduler of its own. If the code that the
//! caller runs blocks its thread, the worker's own thread revokes the lease and takes the tasks of
//! that local scheduler. The caller notices this at its next step, and releases the local
//! scheduler.

use super::local::{self, LocalContext};
use super::seeded::{self, Seeded};
use super::tasks::Tasks;
use crate::worker::current;
use crate::worker::idle::Lease;
use crate::worker::slots::When;
use std::cell::Cell;

/// The maximum number of tasks that run after the future is ready.
const LAST_RUN: usize = 128;

/// A `block_on` driver. It exists while a thread is in a `block_on`.
pub(crate) struct BlockOnDriver<'a> {
    tasks: &'a Tasks,
    /// The lease of a worker, and the index of the local scheduler.
    at: Cell<Option<(Lease, usize)>>,
    /// The number of revocations when the driver last checked whether its own lease was revoked.
    revocations: Cell<u64>,
    /// Whether the thread is in the first poll of its future and has not tried to lease a worker.
    first: Cell<bool>,
}

impl<'a> BlockOnDriver<'a> {
    pub(crate) fn new(tasks: &'a Tasks) -> Self {
        Self {
            tasks,
            at: Cell::new(None),
            revocations: Cell::new(0),
            first: Cell::new(false),
        }
    }

    /// Announces the first poll of the future. Many futures are ready at the first poll, so the
    /// driver leases a worker only if this poll spawns or wakes a task of the pool.
    pub(crate) fn begin(&self) {
        self.first.set(true);
    }

    /// Leases a worker in the middle of the first poll, unless the driver has tried that before.
    pub(super) fn sit_down_in_first_poll(&self) {
        if self.first.get() {
            self.attach();
            self.count_poll();
        }
    }

    /// Leases a worker if one is idle, unless the driver has one. A worker of another pool never
    /// does this, because then it would depend on chance on which thread a task runs. A thread that
    /// holds a local scheduler already does not do it either.
    pub(crate) fn attach(&self) {
        self.first.set(false);
        if self.at.get().is_some() || current::may_be_waited_for() || !local::may_attach() {
            return;
        }
        let Some(lease) = self.tasks.slots.idle.lease() else {
            return;
        };
        let block_on_scheduler = self.tasks.block_on_schedulers.take();
        self.at.set(Some((lease, block_on_scheduler)));
        // SAFETY: the local scheduler has just been given to this thread, which holds no other.
        unsafe {
            self.tasks
                .block_on_schedulers
                .scheduler(block_on_scheduler)
                .attach(self.tasks)
        };
    }

    fn context(&self) -> Option<LocalContext<'a>> {
        self.at.get().and_then(|_| local::current_in(self.tasks))
    }

    /// Counts a poll of the future, which is about to begin, so that the watchdog sees progress.
    pub(crate) fn count_poll(&self) {
        if let Some(context) = self.context() {
            context.scheduler.others.add(1);
        }
    }

    /// Runs tasks, at least one if there is any, until `enough` returns true or there is nothing to
    /// do. In the latter case, it releases the local scheduler. Returns whether `enough` is true.
    pub(crate) fn help(&self, enough: impl Fn() -> bool) -> bool {
        if let Some(seeded) = &self.tasks.seeded {
            return self.draw(seeded, enough);
        }
        while let Some(context) = self.context_unless_revoked() {
            while context.step(false) {
                if enough() {
                    return true;
                }
                if self.may_be_revoked() {
                    break;
                }
            }
            if !self.may_be_revoked() {
                break;
            }
        }
        self.detach_thread();
        enough()
    }

    /// Runs tasks like [`help`](Self::help), in the deterministic mode. In that mode, the seed also
    /// decides whether the next step polls the future instead of a task.
    fn draw(&self, seeded: &Seeded, enough: impl Fn() -> bool) -> bool {
        while let Some(context) = self.context() {
            if enough() && seeded::own_turn(self.tasks) {
                return true;
            }
            if !seeded::step(seeded, context) {
                break;
            }
        }
        self.detach_thread();
        enough()
    }

    /// Returns whether any lease has been revoked since the driver last checked its own.
    #[inline]
    fn may_be_revoked(&self) -> bool {
        self.tasks.slots.idle.revocations() != self.revocations.get()
    }

    fn context_unless_revoked(&self) -> Option<LocalContext<'a>> {
        if self.may_be_revoked() {
            self.revocations.set(self.tasks.slots.idle.revocations());
            let (lease, _) = self.at.get()?;
            if !self.tasks.slots.idle.is_leased(lease) {
                self.detach_thread();
            }
        }
        self.context()
    }

    /// Continues a chain of short tasks that wake each other, which the end of the future has
    /// begun. Waking a thread for the chain would take longer.
    pub(crate) fn finish(&self) {
        let Some(context) = self.context().filter(|_| self.tasks.seeded.is_none()) else {
            return;
        };
        for _ in 0..LAST_RUN {
            if !context.scheduler.has_short_chain() {
                return;
            }
            context.step(false);
        }
    }

    /// Gives the lease of the worker back, if the driver has one. The tasks in the local scheduler
    /// go to the other threads.
    fn detach_thread(&self) {
        let Some(context) = self.context() else {
            return;
        };
        let Some((lease, block_on_scheduler)) = self.at.get() else {
            return;
        };
        context.clear();
        context.end_search();
        context.detach_thread();
        self.at.set(None);
        self.tasks.block_on_schedulers.release(block_on_scheduler);
        self.tasks.slots.idle.return_lease(lease);
        // While no worker was idle, a thread may have put a task into the injection queue without
        // notifying a worker. Now the worker of the lease may be notified again, so we check that
        // queue. We ignore the error if no thread can be started, because the next notification
        // tries again.
        if self.tasks.outside.len() > 0 {
            let _ = self.tasks.slots.notify_one(0, When::Now);
        }
    }
}

impl Drop for BlockOnDriver<'_> {
    fn drop(&mut self) {
        self.detach_thread();
    }
}
