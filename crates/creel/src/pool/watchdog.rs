//! The watchdog is an idle worker that checks on the running workers.
//!
//! `worker/idle.rs` decides which worker is the watchdog. This module implements what the watchdog
//! does every [`WATCHDOG_INTERVAL`]. It compares the progress of each running worker with the
//! worker's progress at the previous check. If a worker made none, user code is holding its thread.
//! The watchdog then does what that thread would do. It takes the tasks that are stranded there,
//! fires the due timers and asks the poller. If a notified worker has not arrived, the watchdog
//! searches in its place.
//!
//! We guarantee that work that is ready, and whose worker makes no progress, is taken by the second
//! check after it became ready. The exception is a long queue of tiny tasks, of which only the first
//! few hundred are taken by then (`LocalScheduler::mark_stuck` in `task/local.rs`).

use super::shared::Shared;
use crate::{
    sync::Instant,
    task::Progress,
    worker::{
        idle::Notification,
        parts::{SocketPart, TaskPart, TimerPart},
        slot::WorkerSlot,
    },
};
use std::time::Duration;

/// The interval between two checks of the watchdog.
pub(crate) const WATCHDOG_INTERVAL: Duration = Duration::from_millis(1);

/// The state that a worker remembers of its last check as the watchdog.
pub(super) struct Watchdog {
    last: Snapshot,
    /// The memory for the next check, so that a check allocates nothing.
    next: Snapshot,
}

#[derive(Default)]
struct Snapshot {
    /// The time at which this snapshot was taken. It is `None` if this worker was not the watchdog.
    at: Option<Instant>,
    tasks: Progress,
    /// For each worker, the number of times that it has checked its timers.
    reactions: Vec<u64>,
    /// The number of times that any worker has polled the sockets.
    asked: u64,
    notified: Option<Notification>,
}

/// The result of a check by the watchdog.
#[derive(Default)]
pub(super) struct Found {
    /// Whether there are tasks that the watchdog must take.
    pub(super) tasks: bool,
    /// Whether no worker is checking for ready sockets, so that the watchdog must do it.
    pub(super) sockets: bool,
    /// Whether the watchdog has fired the timers of another worker.
    pub(super) fired: bool,
}

impl Watchdog {
    pub(super) fn new(shared: &Shared) -> Self {
        let sized = || {
            let mut look = Snapshot::default();
            look.take(shared);
            look.at = None;
            look
        };
        Self {
            last: sized(),
            next: sized(),
        }
    }

    /// Returns the maximum time that this worker may sleep, or `None` if it is not the watchdog.
    /// The worker becomes the watchdog if one is missing.
    pub(super) fn timeout(&mut self, shared: &Shared, slot: &WorkerSlot) -> Option<Duration> {
        if !shared.slots.idle.try_become_watchdog(slot.index) {
            self.last.at = None;
            return None;
        }
        let at = self.last.at.unwrap_or_else(|| self.last.take(shared));
        Some(WATCHDOG_INTERVAL.saturating_sub(at.elapsed()))
    }

    /// Runs a check, if this worker is the watchdog and the interval has elapsed.
    pub(super) fn check(&mut self, shared: &Shared, slot: &WorkerSlot) -> Found {
        let Some(at) = self.last.at else {
            return Found::default();
        };
        if !shared.slots.idle.is_watchdog(slot.index) {
            self.last.at = None;
            return Found::default();
        }
        if at.elapsed() < WATCHDOG_INTERVAL {
            return Found::default();
        }
        let (last, now) = (&self.last, &mut self.next);
        now.take(shared);
        // We ignore how often the watchdog itself has checked its timers. If these checks counted
        // as progress, the pool would never look quiet, and the watchdog would never stop.
        if let Some(own) = now.reactions.get_mut(slot.index) {
            *own = 0;
        }
        let found = now.compare(last, shared, slot);
        let quiet = !found.any() && now.tasks == last.tasks && now.reactions == last.reactions;
        std::mem::swap(&mut self.last, &mut self.next);
        if quiet && shared.slots.idle.resign(slot.index) {
            self.last.at = None;
        }
        found
    }
}

impl Found {
    fn any(&self) -> bool {
        self.tasks || self.sockets || self.fired
    }
}

impl Snapshot {
    /// Records the current state. Returns the current time.
    fn take(&mut self, shared: &Shared) -> Instant {
        let now = Instant::now();
        self.at = Some(now);
        shared.tasks.record_progress(&mut self.tasks);
        let slots = 0..shared.slots.idle.slots();
        let reactions = slots.map(|index| shared.timers.at(index).reactions());
        self.reactions.clear();
        self.reactions.extend(reactions);
        self.asked = shared.driver.attended();
        self.notified = shared.slots.idle.notified();
        now
    }

    /// Compares this check with the check `last`, and takes over the work that has made no progress
    /// in between.
    ///
    /// Any of this work may have progressed by the time we act. That is harmless, for these
    /// reasons: We give up on a notification only if it is still the same one and its worker has
    /// not arrived. We take due timers under their lock, according to the exact clock. Only one
    /// worker at a time asks the poller. Queues and LIFO slots can be stolen from at any time.
    fn compare(&self, last: &Snapshot, shared: &Shared, slot: &WorkerSlot) -> Found {
        if let Some(notified) = self.notified.filter(|_| self.notified == last.notified) {
            // The notified worker has not arrived since the last check. We take its search back, so
            // that other workers can be notified.
            shared.slots.give_up(notified);
        }
        let driver = &shared.driver;
        // A worker that sleeps in the poller does not increase the number of polls, but it serves
        // the sockets.
        let sockets = !driver.is_empty() && self.asked == last.asked && driver.is_unattended();
        let same = |index: &usize| self.reactions.get(*index) == last.reactions.get(*index);
        let late = (0..self.reactions.len())
            .filter(|index| *index != slot.index)
            .filter(same);
        let mut fired = false;
        for index in late {
            let timers = shared.timers.at(index);
            if timers.is_used() && !shared.slots.at(index).sleeps() {
                fired |= shared.tasks.rescue_timers(slot, timers);
            }
        }
        Found {
            tasks: shared.tasks.rescue(slot, &last.tasks, &self.tasks),
            sockets,
            fired,
        }
    }
}
