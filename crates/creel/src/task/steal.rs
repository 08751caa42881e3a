//! What lies at another's local scheduler: when it is worth taking, and by whom.
//!
//! - A worker with a queue and polls long enough to be worth a steal has one of the idle called,
//!   at most one every [`NOTIFY_INTERVAL`] in the whole pool.
//! - Nobody is called for a LIFO slot, nor for tiny polls: moving a task of some 50 ns to another
//!   core costs more than running it.
//! - Whose holder does not get on, is taken from whatever its polls took: that is the watchdog's
//!   finding (`pool/watchdog.rs`).

use super::cell::Task;
use super::local::LocalScheduler;
use super::state::Claim;
use super::tasks::Tasks;
use crate::sync::{AtomicU64, Instant, Ordering};
use crate::worker::slots::When;
use std::time::Duration;

/// Tasks whose polls are shorter are not stolen: the move would cost more.
pub(super) const POLL_NS_WORTH_A_STEAL: u32 = 700;
/// The shortest time between two calls for the sake of a queue.
const NOTIFY_INTERVAL: Duration = Duration::from_micros(100);

/// When somebody was last called for a queue's sake.
pub(super) struct NotifyLimiter {
    start: Instant,
    /// Nanoseconds since `start`. Advice.
    last_ns: AtomicU64,
}

impl NotifyLimiter {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            last_ns: AtomicU64::new(0),
        }
    }

    /// Whether somebody may be called now.
    fn may_notify(&self, now: Instant) -> bool {
        let now = now.duration_since(self.start).as_nanos() as u64;
        let last = self.last_ns.load(Ordering::Relaxed);
        let due = now.saturating_sub(last) >= NOTIFY_INTERVAL.as_nanos() as u64;
        due && self
            .last_ns
            .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

/// Has one of the idle called for the sake of a queue, if the last was not called just now.
pub(super) fn notify_helper(tasks: &Tasks, now: Instant) {
    let idle = &tasks.slots.idle;
    // Advice: `call` decides again, and the next look comes soon.
    if idle.any_listed() && !idle.is_searching() && tasks.notify_limiter.may_notify(now) {
        // Who cannot start a thread now leaves it to the next look.
        let _ = tasks.slots.notify_one(0, When::Now);
    }
}

/// All schedulers that there are.
pub(super) fn schedulers(tasks: &Tasks) -> impl Iterator<Item = &LocalScheduler> {
    let slots = (0..tasks.slots.idle.slots()).map(|index| tasks.schedulers.at(index));
    slots.chain(tasks.block_on_schedulers.all())
}

/// How far all schedulers have come.
#[derive(Default, PartialEq)]
pub(crate) struct Progress {
    /// The polls begun: the workers' first, then the `block_on` callers'.
    polls: Vec<u64>,
    /// The tasks made, by `block_on` caller.
    made: Vec<u64>,
    slots: usize,
}

impl Progress {
    /// Looks again, into the same memory.
    pub(crate) fn take(&mut self, tasks: &Tasks) {
        self.slots = tasks.slots.idle.slots();
        self.polls.clear();
        self.polls
            .extend(schedulers(tasks).map(LocalScheduler::progress));
        self.made.clear();
        let made = |scheduler: &LocalScheduler| scheduler.counters.spawned.get();
        self.made.extend(tasks.block_on_schedulers.all().map(made));
    }

    /// Marks the schedulers that have not come further since `before`, so that a search takes from
    /// them. Says whether there was one with something to take.
    pub(super) fn mark_stuck(&self, before: &Self, tasks: &Tasks) -> bool {
        let mut found = false;
        for (at, scheduler) in schedulers(tasks).enumerate().take(self.polls.len()) {
            if self.slots == before.slots
                && before.polls.get(at) == Some(&self.polls[at])
                && scheduler.has_hints()
            {
                scheduler.mark_stuck(self.polls[at]);
                found = true;
            }
        }
        found
    }

    /// Whether one who stands in for a worker has not come further since `before`. Who makes tasks
    /// has, in a poll however long.
    pub(super) fn has_stuck_block_on(&self, before: &Self, tasks: &Tasks) -> bool {
        let stuck = |(block_on_scheduler, scheduler): (usize, &LocalScheduler)| {
            let at = self.slots + block_on_scheduler;
            let same = |now: Option<&u64>, before: Option<&u64>| now.is_some() && now == before;
            scheduler.is_held()
                && same(self.polls.get(at), before.polls.get(at))
                && same(
                    self.made.get(block_on_scheduler),
                    before.made.get(block_on_scheduler),
                )
        };
        self.slots == before.slots && tasks.block_on_schedulers.all().enumerate().any(stuck)
    }
}

/// Claims a task from another local scheduler whose polls are worth it, or who is stuck.
///
/// That a local scheduler is stuck may be out of date by the time of the steal. Its queue and its slot can be
/// stolen from at any time, so a needless steal only moves a task.
///
/// # Safety
///
/// The caller holds `own`.
pub(super) unsafe fn search(tasks: &Tasks, own: &LocalScheduler) -> Option<(Task, Claim)> {
    let (slots, block_on_schedulers) = (tasks.slots.idle.slots(), tasks.block_on_schedulers.made());
    let start = (own.counters.steals.get() + own.counters.polls.get()) as usize;
    for offset in 0..slots + block_on_schedulers {
        let scheduler = match (start + offset) % (slots + block_on_schedulers) {
            slot if slot < slots => tasks.schedulers.at(slot),
            block_on_scheduler => tasks
                .block_on_schedulers
                .scheduler(block_on_scheduler - slots),
        };
        let stuck = scheduler.is_stuck();
        let worth = stuck || scheduler.poll_ns() >= POLL_NS_WORTH_A_STEAL;
        if std::ptr::eq(scheduler, own) || !worth {
            continue;
        }
        // SAFETY: the caller holds `own`, which is another local scheduler.
        if let Some(found) = unsafe { scheduler.steal(own, stuck) } {
            return Some(found);
        }
    }
    None
}
