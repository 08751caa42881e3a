//! What the pool sees of `task` where it is left out: a scheduler that never has a task.

use crate::{
    seat::{idle::Search, seat::Seat, seats::Seats, stats::TaskStats, stored_waker::StoredWaker},
    time::timers::Timers,
};
use std::{sync::Arc, vec::Drain};

/// Has no task.
pub(crate) struct Tasks {
    seats: Arc<Seats>,
}

/// Nobody gets on, or fails to.
#[derive(Default, PartialEq)]
pub(crate) struct Progress;

/// Nothing lies behind anybody.
#[derive(Default)]
pub(crate) struct Behind;

impl Progress {
    pub(crate) fn take(&mut self, _: &Tasks) {}
}

impl Tasks {
    pub(crate) fn new(seats: Arc<Seats>, _: Option<u64>) -> Arc<Self> {
        Arc::new(Self { seats })
    }

    pub(crate) fn any_outside(&self) -> bool {
        false
    }

    pub(crate) fn stats(&self) -> TaskStats {
        TaskStats::default()
    }

    /// The search of a worker that was called finds nothing here.
    pub(crate) fn turn(&self, _: &Seat, mut search: Option<Search>, rescues: bool) -> bool {
        self.seats.end_search_of(&mut search);
        if rescues {
            self.seats.see_to_a_watch();
        }
        false
    }

    pub(crate) fn rest(&self, seat: &Seat) -> bool {
        self.seats.enter_idle(seat);
        true
    }

    pub(crate) fn may_retire(&self, _: &Seat) -> bool {
        true
    }

    pub(crate) fn rescue(&self, _: &Seat, _: &Progress, _: &Progress) -> bool {
        false
    }

    pub(crate) fn rescue_timers(&self, _: &Seat, _: &Timers) -> bool {
        false
    }

    pub(crate) fn run_due(&self, _: &Seat, _: &mut Drain<'_, StoredWaker>) {}

    pub(crate) fn clear_desk(&self, _: &Seat) {}

    pub(crate) fn cancel_all(&self) {}

    pub(crate) fn run_behind(&self, _: &mut Behind, _: bool) -> bool {
        false
    }

    pub(crate) fn end(&self) {}
}

/// Nothing to put back.
pub(crate) struct Entered;

pub(crate) fn enter(_: Arc<Tasks>, _: usize) -> Entered {
    Entered
}

/// There is no `block_on` to be in.
pub(crate) fn innermost_seats() -> Option<Arc<Seats>> {
    None
}

pub(crate) fn is_inside(_: &Tasks) -> bool {
    false
}

pub(crate) fn holds_a_desk_of(_: &Tasks) -> bool {
    false
}
