//! What lies at another's desk: when it is worth taking, and by whom.
//!
//! - A worker with a queue and polls long enough to be worth a steal has one of the idle called,
//!   at most one every [`CALL_EVERY`] in the whole pool.
//! - Nobody is called for a LIFO slot, nor for tiny polls: moving a task of some 50 ns to another
//!   core costs more than running it.
//! - Whose holder does not get on, is taken from whatever its polls took: that is the watch's
//!   finding (`pool/watch.rs`).

use super::cell::Task;
use super::desk::Desk;
use super::state::Claim;
use super::tasks::Tasks;
use crate::seat::seats::When;
use crate::sync::{AtomicU64, Instant, Ordering};
use std::time::Duration;

/// Tasks whose polls are shorter are not stolen: the move would cost more.
pub(super) const POLL_NS_WORTH_A_STEAL: u32 = 700;
/// The shortest time between two calls for the sake of a queue.
const CALL_EVERY: Duration = Duration::from_micros(100);

/// When somebody was last called for a queue's sake.
pub(super) struct Calls {
    start: Instant,
    /// Nanoseconds since `start`. Advice.
    last_ns: AtomicU64,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            last_ns: AtomicU64::new(0),
        }
    }

    /// Whether somebody may be called now.
    fn may_call(&self, now: Instant) -> bool {
        let now = now.duration_since(self.start).as_nanos() as u64;
        let last = self.last_ns.load(Ordering::Relaxed);
        let due = now.saturating_sub(last) >= CALL_EVERY.as_nanos() as u64;
        due && self
            .last_ns
            .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

/// Has one of the idle called for the sake of a queue, if the last was not called just now.
pub(super) fn call_help(tasks: &Tasks, now: Instant) {
    let idle = &tasks.seats.idle;
    // Advice: `call` decides again, and the next look comes soon.
    if idle.any_listed() && !idle.is_searching() && tasks.calls.may_call(now) {
        // Who cannot start a thread now leaves it to the next look.
        let _ = tasks.seats.call(0, When::Now);
    }
}

/// All desks that there are.
pub(super) fn desks(tasks: &Tasks) -> impl Iterator<Item = &Desk> {
    let seats = (0..tasks.seats.idle.seats()).map(|index| tasks.desks.at(index));
    seats.chain(tasks.guests.all())
}

/// How far all desks have come.
#[derive(Default, PartialEq)]
pub(crate) struct Progress {
    /// The polls begun: the seats' first, then the guests'.
    polls: Vec<u64>,
    /// The tasks made, by guest.
    made: Vec<u64>,
    seats: usize,
}

impl Progress {
    /// Looks again, into the same memory.
    pub(crate) fn take(&mut self, tasks: &Tasks) {
        self.seats = tasks.seats.idle.seats();
        self.polls.clear();
        self.polls.extend(desks(tasks).map(Desk::progress));
        self.made.clear();
        let made = |desk: &Desk| desk.counters.spawned.get();
        self.made.extend(tasks.guests.all().map(made));
    }

    /// Marks the desks that have not come further since `before`, so that a search takes from
    /// them. Says whether there was one with something to take.
    pub(super) fn mark_stuck(&self, before: &Self, tasks: &Tasks) -> bool {
        let mut found = false;
        for (at, desk) in desks(tasks).enumerate().take(self.polls.len()) {
            if self.seats == before.seats
                && before.polls.get(at) == Some(&self.polls[at])
                && desk.has_hints()
            {
                desk.mark_stuck(self.polls[at]);
                found = true;
            }
        }
        found
    }

    /// Whether one who stands in for a worker has not come further since `before`. Who makes tasks
    /// has, in a poll however long.
    pub(super) fn has_stuck_guest(&self, before: &Self, tasks: &Tasks) -> bool {
        let stuck = |(guest, desk): (usize, &Desk)| {
            let at = self.seats + guest;
            let same = |now: Option<&u64>, before: Option<&u64>| now.is_some() && now == before;
            desk.is_held()
                && same(self.polls.get(at), before.polls.get(at))
                && same(self.made.get(guest), before.made.get(guest))
        };
        self.seats == before.seats && tasks.guests.all().enumerate().any(stuck)
    }
}

/// Claims a task from another desk whose polls are worth it, or who is stuck.
///
/// That a desk is stuck may be out of date by the time of the steal. Its queue and its slot can be
/// stolen from at any time, so a needless steal only moves a task.
///
/// # Safety
///
/// The caller holds `own`.
pub(super) unsafe fn search(tasks: &Tasks, own: &Desk) -> Option<(Task, Claim)> {
    let (seats, guests) = (tasks.seats.idle.seats(), tasks.guests.made());
    let start = (own.counters.steals.get() + own.counters.polls.get()) as usize;
    for offset in 0..seats + guests {
        let desk = match (start + offset) % (seats + guests) {
            seat if seat < seats => tasks.desks.at(seat),
            guest => tasks.guests.desk(guest - seats),
        };
        let stuck = desk.is_stuck();
        let worth = stuck || desk.poll_ns() >= POLL_NS_WORTH_A_STEAL;
        if std::ptr::eq(desk, own) || !worth {
            continue;
        }
        // SAFETY: the caller holds `own`, which is another desk.
        if let Some(found) = unsafe { desk.steal(own, stuck) } {
            return Some(found);
        }
    }
    None
}
