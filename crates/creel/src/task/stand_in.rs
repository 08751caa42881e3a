//! A caller of `block_on` that runs the pool's tasks in a worker's stead.
//!
//! It borrows a seat (`seat/idle.rs`), so that it is no worker more, and has a desk of its own
//! meanwhile. If the code that it runs blocks its thread, the seat's own thread takes the seat
//! back, and what lies at the desk: then the caller finds out at its next step, and stands up.

use super::desk::{self, Held};
use super::seeded::{self, Seeded};
use super::tasks::Tasks;
use crate::seat::current;
use crate::seat::idle::Loan;
use crate::seat::seats::When;
use std::cell::Cell;

/// Tasks that are run after the future is ready, at most.
const LAST_RUN: usize = 128;

/// A thread's time at a desk.
pub(crate) struct StandIn<'a> {
    tasks: &'a Tasks,
    /// The seat that it has borrowed, and the desk.
    at: Cell<Option<(Loan, usize)>>,
    /// How many had been relieved when it last looked whether it was.
    reliefs: Cell<u64>,
    /// The thread is in the first poll of its future, and has not tried to borrow a seat.
    first: Cell<bool>,
}

impl<'a> StandIn<'a> {
    pub(crate) fn new(tasks: &'a Tasks) -> Self {
        Self {
            tasks,
            at: Cell::new(None),
            reliefs: Cell::new(0),
            first: Cell::new(false),
        }
    }

    /// The future is about to be polled for the first time. Many futures are ready then, so a seat
    /// is borrowed only when the poll spawns or wakes a task of this pool.
    pub(crate) fn begin(&self) {
        self.first.set(true);
    }

    /// Borrows a seat in the middle of the first poll, unless that was tried before.
    pub(super) fn sit_down_in_first_poll(&self) {
        if self.first.get() {
            self.sit_down();
            self.count_poll();
        }
    }

    /// Borrows a seat, unless it has one. A worker of another pool does not: a task would find out
    /// by chance on whose thread it is.
    pub(crate) fn sit_down(&self) {
        self.first.set(false);
        if self.at.get().is_some() || current::may_be_waited_for() || !desk::may_sit_down() {
            return;
        }
        let Some(loan) = self.tasks.seats.idle.lend() else {
            return;
        };
        let guest = self.tasks.guests.take();
        self.at.set(Some((loan, guest)));
        // SAFETY: the desk has just been given to this thread, which holds no other.
        unsafe { self.tasks.guests.desk(guest).sit_down(self.tasks) };
    }

    fn held(&self) -> Option<Held<'a>> {
        self.at.get().and_then(|_| desk::here_in(self.tasks))
    }

    /// The future is about to be polled: counts it, for the watch.
    pub(crate) fn count_poll(&self) {
        if let Some(held) = self.held() {
            held.desk.others.add(1);
        }
    }

    /// Runs tasks, at least one if there is any, until `enough`; then true. False: there is
    /// nothing to do, the desk is free.
    pub(crate) fn help(&self, enough: impl Fn() -> bool) -> bool {
        if let Some(seeded) = &self.tasks.seeded {
            return self.draw(seeded, enough);
        }
        while let Some(held) = self.held_unless_relieved() {
            while held.step(false) {
                if enough() {
                    return true;
                }
                if self.may_be_relieved() {
                    break;
                }
            }
            if !self.may_be_relieved() {
                break;
            }
        }
        self.stand_up();
        enough()
    }

    /// The same in the deterministic mode: the future is one of those that are drawn from.
    fn draw(&self, seeded: &Seeded, enough: impl Fn() -> bool) -> bool {
        while let Some(held) = self.held() {
            if enough() && seeded::own_turn(self.tasks) {
                return true;
            }
            if !seeded::step(seeded, held) {
                break;
            }
        }
        self.stand_up();
        enough()
    }

    /// Somebody has been relieved since this last looked whether it was.
    #[inline]
    fn may_be_relieved(&self) -> bool {
        self.tasks.seats.idle.reliefs() != self.reliefs.get()
    }

    fn held_unless_relieved(&self) -> Option<Held<'a>> {
        if self.may_be_relieved() {
            self.reliefs.set(self.tasks.seats.idle.reliefs());
            let (loan, _) = self.at.get()?;
            if !self.tasks.seats.idle.is_lent(loan) {
                self.stand_up();
            }
        }
        self.held()
    }

    /// Goes on with a chain of short hand-overs that the future's end has begun: to wake a thread
    /// for it would take longer.
    pub(crate) fn finish(&self) {
        let Some(held) = self.held().filter(|_| self.tasks.seeded.is_none()) else {
            return;
        };
        for _ in 0..LAST_RUN {
            if !held.desk.has_short_chain() {
                return;
            }
            held.step(false);
        }
    }

    /// Gives the seat back; what lies at the desk goes to the others.
    fn stand_up(&self) {
        let Some(held) = self.held() else { return };
        let Some((loan, guest)) = self.at.get() else {
            return;
        };
        held.clear();
        held.end_search();
        held.stand_up();
        self.at.set(None);
        self.tasks.guests.give_back(guest);
        self.tasks.seats.idle.give_back(loan);
        // A push outside that saw nobody idle before is seen here. Who cannot start a thread now
        // leaves it to the next who tries.
        if self.tasks.outside.len() > 0 {
            let _ = self.tasks.seats.call(0, When::Now);
        }
    }
}

impl Drop for StandIn<'_> {
    fn drop(&mut self) {
        self.stand_up();
    }
}
