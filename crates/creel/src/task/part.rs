//! Implements the trait by which the pool uses the scheduler of tasks. `disabled.rs` is the
//! replacement for builds without tasks, and `worker/parts.rs` explains both.

use super::context;
use super::end::Stranded;
use super::local;
use super::steal::Progress;
use super::tasks::Tasks;
use crate::time::timers::Timers;
use crate::worker::idle::Search;
use crate::worker::parts::TaskPart;
use crate::worker::slot::WorkerSlot;
use crate::worker::slots::WorkerSlots;
use crate::worker::stats::TaskStats;
use crate::worker::stored_waker::StoredWaker;
use std::sync::Arc;
use std::vec::Drain;

impl TaskPart for Tasks {
    type Timers = Timers;
    type Progress = Progress;
    type Stranded = Stranded;
    type Entered = context::Entered;

    #[inline]
    fn new(slots: Arc<WorkerSlots>, seed: Option<u64>) -> Arc<Self> {
        Tasks::new(slots, seed)
    }

    #[inline]
    fn enter(this: Arc<Self>, index: usize) -> context::Entered {
        context::enter(this, index)
    }

    #[inline]
    fn innermost_slots() -> Option<Arc<WorkerSlots>> {
        context::innermost_slots()
    }

    #[inline]
    fn is_in_context(&self) -> bool {
        context::is_in_context(self)
    }

    #[inline]
    fn is_run_by_this_thread(&self) -> bool {
        local::runs_tasks_of(self)
    }

    #[inline]
    fn any_outside(&self) -> bool {
        self.any_outside()
    }

    #[inline]
    fn stats(&self) -> TaskStats {
        self.stats()
    }

    #[inline]
    fn turn(&self, slot: &WorkerSlot, search: Option<Search>, rescues: bool) -> bool {
        self.turn(slot, search, rescues)
    }

    #[inline]
    fn before_park(&self, slot: &WorkerSlot) -> bool {
        self.before_park(slot)
    }

    #[inline]
    fn may_retire(&self, slot: &WorkerSlot) -> bool {
        self.may_retire(slot)
    }

    #[inline]
    fn record_progress(&self, progress: &mut Progress) {
        progress.take(self);
    }

    #[inline]
    fn rescue(&self, slot: &WorkerSlot, before: &Progress, now: &Progress) -> bool {
        self.rescue(slot, before, now)
    }

    #[inline]
    fn rescue_timers(&self, slot: &WorkerSlot, timers: &Timers) -> bool {
        self.rescue_timers(slot, timers)
    }

    #[inline]
    fn run_due(&self, slot: &WorkerSlot, due: &mut Drain<'_, StoredWaker>) {
        self.run_due(slot, due);
    }

    #[inline]
    fn clear_scheduler(&self, slot: &WorkerSlot) {
        self.clear_scheduler(slot);
    }

    #[inline]
    fn cancel_all(&self) {
        self.cancel_all();
    }

    #[inline]
    fn run_stranded(&self, last: &mut Stranded, cancel: bool) -> bool {
        self.run_stranded(last, cancel)
    }

    #[inline]
    fn end(&self) {
        self.end();
    }
}
