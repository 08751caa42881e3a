//! A replacement for `task` if tasks are compiled out. The pool sees a scheduler that never has a
//! task.

use crate::{
    time::timers::Timers,
    worker::{
        idle::Search, slot::WorkerSlot, slots::WorkerSlots, stats::TaskStats,
        stored_waker::StoredWaker,
    },
};
use std::{sync::Arc, vec::Drain};

/// A scheduler that never has a task.
pub(crate) struct Tasks {
    slots: Arc<WorkerSlots>,
}

/// The progress of the workers with tasks, which never changes here.
#[derive(Default, PartialEq)]
pub(crate) struct Progress;

/// The stranded tasks, of which there are none here.
#[derive(Default)]
pub(crate) struct Stranded;

impl Progress {
    pub(crate) fn take(&mut self, _: &Tasks) {}
}

impl Tasks {
    pub(crate) fn new(slots: Arc<WorkerSlots>, _: Option<u64>) -> Arc<Self> {
        Arc::new(Self { slots })
    }

    pub(crate) fn any_outside(&self) -> bool {
        false
    }

    pub(crate) fn stats(&self) -> TaskStats {
        TaskStats::default()
    }

    /// Ends the search of a notified worker, because there is no task to find here.
    pub(crate) fn turn(&self, _: &WorkerSlot, mut search: Option<Search>, rescues: bool) -> bool {
        self.slots.end_search_of(&mut search);
        if rescues {
            self.slots.ensure_watchdog();
        }
        false
    }

    pub(crate) fn before_park(&self, slot: &WorkerSlot) -> bool {
        self.slots.enter_idle(slot);
        true
    }

    pub(crate) fn may_retire(&self, _: &WorkerSlot) -> bool {
        true
    }

    pub(crate) fn rescue(&self, _: &WorkerSlot, _: &Progress, _: &Progress) -> bool {
        false
    }

    pub(crate) fn rescue_timers(&self, _: &WorkerSlot, _: &Timers) -> bool {
        false
    }

    pub(crate) fn run_due(&self, _: &WorkerSlot, _: &mut Drain<'_, StoredWaker>) {}

    pub(crate) fn clear_scheduler(&self, _: &WorkerSlot) {}

    pub(crate) fn cancel_all(&self) {}

    pub(crate) fn run_stranded(&self, _: &mut Stranded, _: bool) -> bool {
        false
    }

    pub(crate) fn end(&self) {}
}

/// A guard that has nothing to restore.
pub(crate) struct Entered;

pub(crate) fn enter(_: Arc<Tasks>, _: usize) -> Entered {
    Entered
}

/// Returns `None`, because no thread can be in a `block_on` here.
pub(crate) fn innermost_slots() -> Option<Arc<WorkerSlots>> {
    None
}

pub(crate) fn is_in_context(_: &Tasks) -> bool {
    false
}

pub(crate) fn runs_tasks_of(_: &Tasks) -> bool {
    false
}
