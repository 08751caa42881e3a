//! Runs jobs of the program's own queues (`Source`) on a thread that forks. Such a job counts as a
//! recursion of its own, although the thread may be in the middle of another one. For example, a
//! thread runs one while it waits for a stolen fork.

use super::{CURRENT, Forker, Forks, Place};
use crate::{
    loops::protocol::Protocol,
    sync::{local, now_ns},
    worker::{no_unwind::no_unwind, slot::WorkerSlot, waiter::Waiter},
};
use std::{cell::Cell, sync::Arc};

/// The time for which a thread waits for a stolen fork before it also runs jobs of the program's
/// own queues.
const LATE_NS: u64 = 1_000_000;

/// A wait for a stolen fork that takes long. The fork may itself wait for a job of the program's own
/// queues, and no other worker may be free.
pub(super) struct Late<'a> {
    loops: &'a Protocol,
    pub(super) waiter: Waiter,
    began_ns: u64,
}

impl<'a> Late<'a> {
    /// Begins to wait on the calling thread.
    pub(super) fn new(loops: &'a Protocol) -> Self {
        Self {
            loops,
            waiter: Waiter::current(),
            began_ns: now_ns(),
        }
    }

    /// Runs a job of the program's own queues if the wait takes long. Returns whether it did.
    pub(super) fn run(&self, forker: &Forker) -> bool {
        if now_ns() - self.began_ns < LATE_NS {
            return false;
        }
        let slots = &self.loops.slots;
        match &self.waiter {
            Waiter::Worker(own, index) if Arc::ptr_eq(own, slots) => {
                let work = slots.work();
                work.is_some_and(|work| work.run_late(slots.at(*index)))
            }
            _ => {
                let source = &slots.hooks.source;
                let run = || {
                    source
                        .as_ref()
                        .is_some_and(|source| no_unwind(|| source.run_outside()))
                };
                forker.run_apart(run)
            }
        }
    }
}

impl Forker {
    /// Steals one fork of another thread and runs it on the thread of the worker `slot`. Returns
    /// whether there was one.
    pub(crate) fn steal_one(loops: &Protocol, slot: &WorkerSlot) -> bool {
        let before = local(&CURRENT, Cell::get);
        let target = Forks::hunt(loops, slot, false, 0, || true);
        let stole = target.is_some_and(|target| target.run(slot, true, |_| ()));
        if let Some(before) = before.filter(|before| !before.is_null()) {
            local(&CURRENT, |current| current.set(before));
        }
        stole
    }

    /// Calls `f`, which is a recursion of its own, on the thread of worker `index`.
    pub(crate) fn apart<R>(loops: &Protocol, index: usize, f: impl FnOnce() -> R) -> R {
        loops.forks.workers.at(index).run_apart(f)
    }

    /// Calls `f`, which is a recursion of its own, on the thread of this forker.
    fn run_apart<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = self.cutoff.go_to(Place::default());
        let result = f();
        self.cutoff.go_to(before);
        result
    }
}
