//! A caller of `block_on` that runs the pool's tasks in a worker's stead.
//!
//! It borrows a worker (`worker/idle.rs`), so that it is no worker more, and has a local scheduler of its own
//! meanwhile. If the code that it runs blocks its thread, the worker's own thread takes the worker
//! back, and what lies at the local scheduler: then the caller finds out at its next step, and stands up.

use super::local::{self, LocalContext};
use super::seeded::{self, Seeded};
use super::tasks::Tasks;
use crate::worker::current;
use crate::worker::idle::Lease;
use crate::worker::slots::When;
use std::cell::Cell;

/// Tasks that are run after the future is ready, at most.
const LAST_RUN: usize = 128;

/// A thread's time at a local scheduler.
pub(crate) struct BlockOnDriver<'a> {
    tasks: &'a Tasks,
    /// The worker that it has borrowed, and the local scheduler.
    at: Cell<Option<(Lease, usize)>>,
    /// How many had been revoked when it last looked whether it was.
    revocations: Cell<u64>,
    /// The thread is in the first poll of its future, and has not tried to borrow a worker.
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

    /// The future is about to be polled for the first time. Many futures are ready then, so a worker
    /// is borrowed only when the poll spawns or wakes a task of this pool.
    pub(crate) fn begin(&self) {
        self.first.set(true);
    }

    /// Borrows a worker in the middle of the first poll, unless that was tried before.
    pub(super) fn sit_down_in_first_poll(&self) {
        if self.first.get() {
            self.attach();
            self.count_poll();
        }
    }

    /// Borrows a worker, unless it has one. A worker of another pool does not: a task would find out
    /// by chance on whose thread it is.
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

    /// The future is about to be polled: counts it, for the watchdog.
    pub(crate) fn count_poll(&self) {
        if let Some(context) = self.context() {
            context.scheduler.others.add(1);
        }
    }

    /// Runs tasks, at least one if there is any, until `enough`; then true. False: there is
    /// nothing to do, the local scheduler is free.
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

    /// The same in the deterministic mode: the future is one of those that are drawn from.
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

    /// Somebody has been revoked since this last looked whether it was.
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

    /// Goes on with a chain of short hand-overs that the future's end has begun: to wake a thread
    /// for it would take longer.
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

    /// Gives the worker back; what lies at the local scheduler goes to the others.
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
        self.tasks
            .block_on_schedulers
            .return_lease(block_on_scheduler);
        self.tasks.slots.idle.return_lease(lease);
        // A push outside that saw nobody idle before is seen here. Who cannot start a thread now
        // leaves it to the next who tries.
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
