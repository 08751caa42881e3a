//! A replacement for `task` if tasks are compiled out. The pool sees a scheduler that never has a
//! task.

use crate::{
    time::timers::Timers,
    worker::{
        idle::Search, parts::TaskPart, slot::WorkerSlot, slots::WorkerSlots, stats::TaskStats,
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

/// The state at the last check for stranded tasks, which never exist here.
#[derive(Default)]
pub(crate) struct Stranded;

/// A guard that restores nothing when it is dropped.
pub(crate) struct Entered;

impl TaskPart for Tasks {
    type Timers = Timers;
    type Progress = Progress;
    type Stranded = Stranded;
    type Entered = Entered;

    fn new(slots: Arc<WorkerSlots>, _: Option<u64>) -> Arc<Self> {
        Arc::new(Self { slots })
    }

    fn enter(_: Arc<Self>, _: usize) -> Entered {
        Entered
    }

    /// Returns `None`, because without tasks no thread can be in a `block_on`.
    fn innermost_slots() -> Option<Arc<WorkerSlots>> {
        None
    }

    fn is_in_context(&self) -> bool {
        false
    }

    fn is_run_by_this_thread(&self) -> bool {
        false
    }

    fn any_outside(&self) -> bool {
        false
    }

    fn stats(&self) -> TaskStats {
        TaskStats::default()
    }

    /// Ends the search of a notified worker, because it can find no task if the feature `tasks` is off.
    fn turn(&self, _: &WorkerSlot, mut search: Option<Search>, rescues: bool) -> bool {
        self.slots.end_search_of(&mut search);
        if rescues {
            self.slots.ensure_watchdog();
        }
        false
    }

    fn before_park(&self, slot: &WorkerSlot) -> bool {
        self.slots.enter_idle(slot);
        true
    }

    fn may_retire(&self, _: &WorkerSlot) -> bool {
        true
    }

    fn record_progress(&self, _: &mut Progress) {}

    fn rescue(&self, _: &WorkerSlot, _: &Progress, _: &Progress) -> bool {
        false
    }

    fn rescue_timers(&self, _: &WorkerSlot, _: &Timers) -> bool {
        false
    }

    fn run_due(&self, _: &WorkerSlot, _: &mut Drain<'_, StoredWaker>) {}

    fn clear_scheduler(&self, _: &WorkerSlot) {}

    fn cancel_all(&self) {}

    fn run_stranded(&self, _: &mut Stranded, _: bool) -> bool {
        false
    }

    fn end(&self) {}
}
