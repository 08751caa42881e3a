//! The watchdog: the idle worker that looks after those who work.
//!
//! Who is the watchdog is decided in `worker/idle.rs`. This is what it does, every [`WATCHDOG_INTERVAL`]: it
//! compares how far everybody who works has come with what that was at its last look. Where there
//! was no progress, somebody's code holds a thread, and the watchdog does what that thread would do:
//! it takes the tasks that lie there, fires its due timers, asks the poller, and comes itself for
//! what another was called for.
//!
//! The invariant: what is ready, and whose worker does not get on, is taken by the second look
//! after it became ready.

use super::shared::Shared;
use crate::{
    sync::Instant,
    task::Progress,
    worker::{idle::Notification, slot::WorkerSlot},
};
use std::time::Duration;

/// How often the watchdog looks.
pub(crate) const WATCHDOG_INTERVAL: Duration = Duration::from_millis(1);

/// What a worker remembers of its last look as the watchdog.
pub(super) struct Watchdog {
    last: Look,
    /// The memory of the next look: watching allocates nothing.
    next: Look,
}

#[derive(Default)]
struct Look {
    /// None: this worker was not the watchdog.
    at: Option<Instant>,
    tasks: Progress,
    /// How often each worker has looked at its timers.
    reactions: Vec<u64>,
    /// How often the poller was asked.
    asked: u64,
    notified: Option<Notification>,
}

/// What the watchdog has found.
#[derive(Default)]
pub(super) struct Found {
    /// There are tasks that it shall take.
    pub(super) tasks: bool,
    /// Nobody looks for ready sockets.
    pub(super) sockets: bool,
    /// It has fired another's timers.
    pub(super) fired: bool,
}

impl Watchdog {
    pub(super) fn new(shared: &Shared) -> Self {
        let sized = || {
            let mut look = Look::default();
            look.take(shared);
            look.at = None;
            look
        };
        Self {
            last: sized(),
            next: sized(),
        }
    }

    /// How long the worker shall sleep at most, which has nothing to do: it may become the watchdog.
    pub(super) fn timeout(&mut self, shared: &Shared, slot: &WorkerSlot) -> Option<Duration> {
        if !shared.slots.idle.try_become_watchdog(slot.index) {
            self.last.at = None;
            return None;
        }
        let at = self.last.at.unwrap_or_else(|| self.last.take(shared));
        Some(WATCHDOG_INTERVAL.saturating_sub(at.elapsed()))
    }

    /// Looks, if this worker is the watchdog and it is time to.
    pub(super) fn look(&mut self, shared: &Shared, slot: &WorkerSlot) -> Found {
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
        // Its own looks are no sign of life: it would watch for ever.
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

impl Look {
    /// Looks now; gives the time.
    fn take(&mut self, shared: &Shared) -> Instant {
        let now = Instant::now();
        self.at = Some(now);
        self.tasks.take(&shared.tasks);
        let slots = 0..shared.slots.idle.slots();
        let reactions = slots.map(|index| shared.timers.at(index).reactions());
        self.reactions.clear();
        self.reactions.extend(reactions);
        self.asked = shared.driver.attended();
        self.notified = shared.slots.idle.notified();
        now
    }

    /// What has not moved since `last`, and is now this worker's.
    ///
    /// All of it may have moved by the time this acts, which is harmless: a call is given up only if
    /// it is still the same and its worker has not arrived, due timers are taken under their lock by
    /// the exact clock, one worker at a time asks the poller, and queues and slots can be stolen
    /// from at any time.
    fn compare(&self, last: &Look, shared: &Shared, slot: &WorkerSlot) -> Found {
        if let Some(notified) = self.notified.filter(|_| self.notified == last.notified) {
            // It has not come: others may be called again.
            shared.slots.give_up(notified);
        }
        let driver = &shared.driver;
        // Who sleeps in the poller looks after it.
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
