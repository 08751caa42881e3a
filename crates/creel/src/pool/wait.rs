//! How a worker waits when a turn found nothing: the mechanism of the knob `Wait`.
//!
//! Bottom up: `worker/parker.rs` is the sleep itself and why no wake-up is lost, `rhythm.rs` when the
//! next loop is due, `spin.rs` how long to spin, and here what is done in which order.

use super::{Wait, shared::Shared, spin::Spin};
use crate::net::driver::Found;
use crate::sync::now_ns;
use crate::time::timers::Timers;
use crate::worker::{slot::WorkerSlot, trace::Doing};
use std::time::Duration;

/// When a worker reacts to timers and sockets, and how it waits.
///
/// Under a throttle it reacts at most once a quantum, on a grid of the clock: after a turn with
/// work it *rests* until the next line, and only what is urgent cuts that short. After a
/// turn without any it sleeps like the others, until a timer or anybody wakes it, so that an
/// idle worker burns no CPU however short its quantum.
pub(crate) struct Pace<'a> {
    shared: &'a Shared,
    slot: &'a WorkerSlot,
    timers: &'a Timers,
    /// Nanoseconds; zero without a throttle.
    quantum: u64,
    /// When the worker may react again, in nanoseconds of the clock.
    line: u64,
    /// Whether the last reaction has left due timers to the next turn.
    leaves_due: bool,
    /// Whether sockets may be ready that it has not seen to: the poller is asked again.
    leaves_ready: bool,
    /// Whether there has been work since it last reacted.
    busy: bool,
    spin: Spin,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(shared: &'a Shared, slot: &'a WorkerSlot) -> Self {
        let quantum = match shared.wait {
            Wait::Throttle(quantum) => u64::try_from(quantum.as_nanos()).unwrap_or(u64::MAX),
            _ => 0,
        };
        Self {
            shared,
            slot,
            timers: shared.timers.at(slot.index),
            quantum,
            line: 0,
            leaves_due: false,
            leaves_ready: false,
            busy: false,
            spin: Spin::new(),
        }
    }

    /// Whether the turn that begins now looks at timers and sockets.
    pub(crate) fn reacts(&mut self) -> bool {
        if self.quantum == 0 || self.leaves_due || self.leaves_ready {
            return true;
        }
        let now = self.timers.clock().exact_nanos();
        if now < self.line {
            return false;
        }
        self.line = self.line_after(now);
        self.busy = false;
        true
    }

    /// A reaction has, or has not, left due timers to the next turn.
    pub(crate) fn leaves_due(&mut self, more: bool) {
        self.leaves_due = more;
    }

    /// It has, or has not, left sockets that may be ready.
    pub(crate) fn leaves_ready(&mut self, more: bool) {
        self.leaves_ready = more;
    }

    /// The poller is asked: whether that is for what was left.
    pub(crate) fn asks_again(&mut self) -> bool {
        std::mem::take(&mut self.leaves_ready)
    }

    /// A turn found something to do.
    pub(crate) fn worked(&mut self) {
        self.busy = true;
    }

    /// Returns when there may be something to do, or after `watchdog`; with the sockets that were
    /// found ready, if it was one that ended the wait. These are a reaction.
    ///
    /// A worker that watches only looks after others, so it does not spin.
    pub(crate) fn wait(&mut self, watchdog: Option<Duration>) -> Found {
        let (shared, spans) = (self.shared, &self.slot.spans);
        let traced = shared.slots.tracing.begin();
        let came = watchdog.is_none() && self.spin.spin(shared, self.slot);
        spans.note(Doing::Spinning, traced);
        if came {
            return Found::default();
        }
        let call = self.shared.loops.mailbox.mark_sleeper();
        if self.shared.loops.shares.at(self.slot.index).is_unseen(call) {
            return Found::default();
        }
        let begin = now_ns();
        let (found, notified) = if self.busy && self.quantum > 0 {
            (
                Found::default(),
                self.slot.parker.rest(self.until(self.line)),
            )
        } else {
            self.sleep(watchdog)
        };
        spans.note(Doing::Parked, shared.slots.tracing.begin().map(|_| begin));
        let parked = now_ns() - begin;
        let socket = !notified && found.count > 0;
        self.spin.slept(self.shared, self.slot, parked, socket);
        self.slot.counters.parks.add(1);
        self.slot.counters.parked_ns.add(parked);
        if found.count > 0 {
            self.line = self.line_after(self.timers.clock().exact_nanos());
            self.busy = true;
        }
        found
    }

    /// Sleeps until the next timer, a socket or a waker; in the poller if there are sockets and
    /// nobody is in there. Says whether it was a waker.
    fn sleep(&self, watchdog: Option<Duration>) -> (Found, bool) {
        let deadline = self.timers.sleep_until();
        let timeout = deadline.and_then(|deadline| self.until(self.line_at(deadline)));
        let alarm = self
            .spin
            .alarm()
            .map(|alarm| Duration::from_nanos(alarm.saturating_sub(now_ns())));
        // One that has passed was heard: it ended the last sleep.
        let alarm = alarm.filter(|left| !left.is_zero());
        let timeout = [timeout, watchdog, alarm].into_iter().flatten().min();
        let driver = &self.shared.driver;
        if !driver.is_empty() {
            // None: another is in there, and this one has not slept.
            let mut found = Some(Found::default());
            let parker = &self.slot.parker;
            let told = || parker.notified();
            let notified = parker.poll(|| found = driver.wait(timeout, told));
            if found.is_some() || notified {
                return (found.unwrap_or_default(), notified);
            }
        }
        (Found::default(), self.slot.parker.park(timeout))
    }

    /// The time from now to `nanos`; none by a clock that is driven, whose driver wakes us.
    fn until(&self, nanos: u64) -> Option<Duration> {
        let clock = self.timers.clock();
        let left = nanos.saturating_sub(clock.exact_nanos());
        (!clock.is_manual()).then_some(Duration::from_nanos(left))
    }

    /// The first line of the grid that is not before `nanos`.
    fn line_at(&self, nanos: u64) -> u64 {
        match self.quantum {
            0 => nanos,
            quantum => nanos.div_ceil(quantum).saturating_mul(quantum),
        }
    }

    fn line_after(&self, nanos: u64) -> u64 {
        self.line_at(nanos.saturating_add(1))
    }
}
