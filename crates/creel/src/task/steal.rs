//! The rules for stealing tasks from another local scheduler: when a steal is worth its cost, and
//! which thread steals.
//!
//! - If a worker has a queue, and its polls are long enough to be worth a steal, it notifies an
//!   idle worker. The whole pool does this at most once every [`NOTIFY_INTERVAL`], unless the queue
//!   would keep its worker busy for longer than that.
//! - A thief that leaves such a long queue behind notifies the next idle worker. The number of
//!   workers therefore follows the work, however many there are. In a large pool it also wakes up
//!   to two neighbours, because one notification after another would take long to reach all workers.
//! - No worker is notified for a task in a LIFO slot or for tiny polls, because moving a task of
//!   about 50 ns to another core costs more than running it.
//! - If a holder makes no progress, its tasks are taken however short its polls were. The watchdog
//!   finds such holders (`pool/watchdog.rs`).

use super::cell::Task;
use super::local::LocalScheduler;
use super::state::Claim;
use super::tasks::Tasks;
use crate::sync::{AtomicU64, Instant, Ordering};
use crate::worker::{current, slots::When};
use std::time::Duration;

/// The shortest estimate of a poll, in ns, that is worth a steal. If polls are shorter, moving the
/// task costs more.
pub(super) const POLL_NS_WORTH_A_STEAL: u32 = 700;
/// The shortest time between two notifications of workers because of a queue of tasks.
const NOTIFY_INTERVAL: Duration = Duration::from_micros(100);

/// Limits how often threads notify a worker because another worker has a long enough queue of
/// tasks.
pub(super) struct NotifyLimiter {
    start: Instant,
    /// The time of the last notification because of a queue, in ns since `start`. It is only a
    /// hint.
    last_ns: AtomicU64,
}

impl NotifyLimiter {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            last_ns: AtomicU64::new(0),
        }
    }

    /// Returns whether a worker may be notified now. If so, it also records the time.
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

/// Notifies an idle worker because of a queue, if a worker is idle and none is searching. `work_ns`
/// is an estimate of the work in this queue, in ns. If it is short, this needs the time, and does
/// nothing if the last such notification is too recent.
pub(super) fn notify_helpers(tasks: &Tasks, work_ns: u64, now: Option<Instant>) {
    let idle = &tasks.slots.idle;
    if !idle.any_listed() {
        return;
    }
    let is_due = |now| tasks.notify_limiter.may_notify(now);
    let long = is_long(work_ns);
    // The answer of `is_searching` is only a hint. `notify_one` decides again, and the next
    // maintenance of a local scheduler comes soon.
    if !idle.is_searching() && (long || now.is_some_and(is_due)) {
        // We ignore the error if no thread can be started, because the next maintenance tries
        // again.
        let _ = tasks.slots.notify_one(0, When::Now);
    }
}

/// Notifies idle workers after this thread has stolen from a queue in which `left_ns` of work are
/// left.
pub(super) fn notify_thieves(tasks: &Tasks, left_ns: u64) {
    notify_helpers(tasks, left_ns, None);
    if tasks.slots.is_large() && is_long(left_ns) {
        let own = current::index_in(&tasks.slots);
        own.iter().for_each(|own| tasks.slots.wake_neighbours(*own));
    }
}

/// Returns whether the queue from which a thief has stolen last seems to be long. A worker of a large
/// pool that was woken as a neighbour then steals, although it owns no search.
pub(super) fn is_worth_a_look(tasks: &Tasks) -> bool {
    tasks.slots.is_large()
        && scheduler(tasks, tasks.victim.load(Ordering::Relaxed))
            .is_some_and(|victim| is_long(victim.queued_ns()))
}

/// Returns whether a worker is notified at once for a queue of this much work, in ns.
fn is_long(work_ns: u64) -> bool {
    work_ns > NOTIFY_INTERVAL.as_nanos() as u64
}

/// Returns the number of hints that a thief copies from a queue whose polls take this time. The
/// copied tasks take about as long as a few steals.
pub(super) fn copies(poll_ns: u32) -> usize {
    const COPIES_MAX: u32 = if cfg!(creel_loom) { 1 } else { 15 };
    const COPIED_NS: u32 = 200_000;
    COPIES_MAX.min(COPIED_NS / poll_ns.max(1)) as usize
}

/// Returns all local schedulers of the pool.
pub(super) fn schedulers(tasks: &Tasks) -> impl Iterator<Item = &LocalScheduler> {
    let slots = (0..tasks.slots.idle.slots()).map(|index| tasks.schedulers.at(index));
    slots.chain(tasks.block_on_schedulers.all())
}

/// Returns the local scheduler with this number, if there is one. The local schedulers of
/// `block_on` callers come after those of the workers.
fn scheduler(tasks: &Tasks, at: usize) -> Option<&LocalScheduler> {
    let slots = tasks.slots.idle.slots();
    if at < slots {
        return Some(tasks.schedulers.at(at));
    }
    let others = tasks.block_on_schedulers.made();
    (at - slots < others).then(|| tasks.block_on_schedulers.scheduler(at - slots))
}

/// The progress of all local schedulers.
#[derive(Default, PartialEq)]
pub(crate) struct Progress {
    /// The number of polls begun, first for the workers and then for the `block_on` callers.
    polls: Vec<u64>,
    /// The number of tasks that each `block_on` caller has spawned.
    made: Vec<u64>,
    slots: usize,
}

impl Progress {
    /// Replaces the numbers with the current ones, and reuses the memory.
    pub(super) fn take(&mut self, tasks: &Tasks) {
        self.slots = tasks.slots.idle.slots();
        self.polls.clear();
        self.polls
            .extend(schedulers(tasks).map(LocalScheduler::progress));
        self.made.clear();
        let made = |scheduler: &LocalScheduler| scheduler.counters.spawned.get();
        self.made.extend(tasks.block_on_schedulers.all().map(made));
    }

    /// Marks the local schedulers without progress since `before`, so that a search takes from
    /// them. Returns whether one of these local schedulers has a task to take.
    pub(super) fn mark_stuck(&self, before: &Self, tasks: &Tasks) -> bool {
        let mut found = false;
        for (at, scheduler) in schedulers(tasks).enumerate().take(self.polls.len()) {
            if self.slots == before.slots
                && before.polls.get(at) == Some(&self.polls[at])
                && scheduler.has_stealable()
            {
                scheduler.mark_stuck(self.polls[at]);
                found = true;
            }
        }
        found
    }

    /// Returns whether a `block_on` driver has made no progress since `before`. A driver that
    /// spawns tasks makes progress, even if its poll is long.
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

/// A task that a thief has claimed from another local scheduler.
pub(super) struct Stolen {
    pub(super) task: Task,
    pub(super) claim: Claim,
    /// An estimate of the work that is left in the queue from which the task came, in ns.
    pub(super) left_ns: u64,
}

/// Claims a task from another local scheduler whose polls are long enough or whose holder is stuck.
///
/// The information that a holder is stuck may be out of date by the time of the steal. This is
/// harmless, because a queue and a LIFO slot can be stolen from at any time, so an unneeded steal
/// only moves a task.
///
/// # Safety
///
/// The caller must hold `own`.
pub(super) unsafe fn search(tasks: &Tasks, own: &LocalScheduler) -> Option<Stolen> {
    let (slots, block_on) = (tasks.slots.idle.slots(), tasks.block_on_schedulers.made());
    let start = (own.counters.steals.get() + own.counters.polls.get()) as usize;
    let from = tasks.victim.load(Ordering::Relaxed);
    let others = (0..slots + block_on).map(|offset| (start + offset) % (slots + block_on));
    for at in std::iter::once(from).chain(others) {
        let Some(scheduler) = scheduler(tasks, at).filter(|at| !std::ptr::eq(*at, own)) else {
            continue;
        };
        // SAFETY: the caller holds `own`, which is another local scheduler.
        if let Some((task, claim)) = unsafe { scheduler.steal(own) } {
            if at != from && scheduler.hints.unreserved() > 0 {
                tasks.victim.store(at, Ordering::Relaxed);
            }
            let left_ns = scheduler.queued_ns();
            return Some(Stolen {
                task,
                claim,
                left_ns,
            });
        }
    }
    None
}
