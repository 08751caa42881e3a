//! Implements the setting `Wait`, which is how a worker waits when a turn of its loop found no
//! work.
//!
//! The layers are, from the bottom up:
//!
//! - `worker/parker.rs` implements the sleep, and explains why no wake-up is lost.
//! - `rhythm.rs` predicts when the next loop starts.
//! - `spin.rs` decides how long to spin.
//! - This module combines them in the right order.

use super::{Wait, shared::Shared, spin::Spin};
use crate::sync::now_ns;
use crate::time::timers::Timers;
use crate::worker::parts::{Found, SocketPart, TimerPart};
use crate::worker::{slot::WorkerSlot, trace::Doing};
use std::time::Duration;

/// Decides when a worker reacts to timers and sockets, and how it waits.
///
/// With `Wait::Throttle`, the worker reacts at most once per quantum, on a fixed grid of the clock.
/// After a turn with work it sleeps until the next point of the grid, and only urgent work wakes it
/// earlier. After a turn without work, it sleeps like any other worker, until a timer or a
/// notification wakes it. Therefore, an idle worker burns no CPU time, no matter how short the
/// quantum is.
pub(crate) struct Pace<'a> {
    shared: &'a Shared,
    slot: &'a WorkerSlot,
    timers: &'a Timers,
    /// The quantum in nanoseconds. It is 0 without a throttle.
    quantum: u64,
    /// The time at which the worker may react again, in nanoseconds of the clock.
    next_quantum: u64,
    /// Whether the last reaction left due timers for the next turn.
    leaves_due: bool,
    /// Whether the last reaction left sockets that may be ready, so that we must ask the poller
    /// again.
    leaves_ready: bool,
    /// Whether the worker has had work since its last reaction to timers and sockets.
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
            next_quantum: 0,
            leaves_due: false,
            leaves_ready: false,
            busy: false,
            spin: Spin::new(),
        }
    }

    /// Returns whether the turn that begins now checks timers and sockets.
    pub(crate) fn reacts(&mut self) -> bool {
        if self.quantum == 0 || self.leaves_due || self.leaves_ready {
            return true;
        }
        let now = self.timers.clock().exact_nanos();
        if now < self.next_quantum {
            return false;
        }
        self.next_quantum = self.quantum_after(now);
        self.busy = false;
        true
    }

    /// Records whether a reaction left due timers for the next turn.
    pub(crate) fn leaves_due(&mut self, more: bool) {
        self.leaves_due = more;
    }

    /// Records whether a reaction left sockets that may be ready.
    pub(crate) fn leaves_ready(&mut self, more: bool) {
        self.leaves_ready = more;
    }

    /// Returns whether the last reaction left sockets that may be ready, and clears this mark. Call
    /// it when you ask the poller.
    pub(crate) fn asks_again(&mut self) -> bool {
        std::mem::take(&mut self.leaves_ready)
    }

    /// Records that a turn of the worker's loop found something to do.
    pub(crate) fn worked(&mut self) {
        self.busy = true;
    }

    /// Waits until there may be something to do, or until `watchdog` has elapsed. If a socket ended
    /// the wait, it returns the sockets that were found ready. This counts as a reaction.
    ///
    /// The watchdog does not spin, because it only checks on the other workers.
    pub(crate) fn wait(&mut self, watchdog: Option<Duration>) -> Found {
        let (shared, spans) = (self.shared, &self.slot.spans);
        let traced = shared.slots.tracing.begin();
        let came = watchdog.is_none() && self.spin.spin(shared, self.slot);
        spans.record(Doing::Spinning, traced);
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
                self.slot
                    .parker
                    .sleep_quantum(self.until(self.next_quantum)),
            )
        } else {
            self.sleep(watchdog)
        };
        spans.record(Doing::Parked, shared.slots.tracing.begin().map(|_| begin));
        let now = now_ns();
        let parked = now - begin;
        if let Some(woken) = self.slot.take_woken_ns() {
            let took = now.saturating_sub(woken);
            self.shared.loops.mailbox.learn_wake(took);
        }
        let socket = !notified && found.count > 0;
        self.spin.slept(self.shared, self.slot, parked, socket);
        self.slot.counters.parks.add(1);
        self.slot.counters.parked_ns.add(parked);
        if found.count > 0 {
            self.next_quantum = self.quantum_after(self.timers.clock().exact_nanos());
            self.busy = true;
        }
        found
    }

    /// Sleeps until the next timer, the alarm of `rhythm.rs`, a ready socket or a notification, or
    /// until `watchdog` has elapsed. It sleeps in the poller if there are sockets and no other
    /// worker is in there. Also returns whether a notification ended the sleep.
    fn sleep(&self, watchdog: Option<Duration>) -> (Found, bool) {
        let deadline = self.timers.sleep_until();
        let timeout = deadline.and_then(|deadline| self.until(self.quantum_at(deadline)));
        let alarm = self
            .spin
            .alarm()
            .map(|alarm| Duration::from_nanos(alarm.saturating_sub(now_ns())));
        // We ignore an alarm whose time has passed, because it has already ended the last sleep.
        let alarm = alarm.filter(|left| !left.is_zero());
        let timeout = [timeout, watchdog, alarm].into_iter().flatten().min();
        let driver = &self.shared.driver;
        if !driver.is_empty() {
            // The driver returns `None` if another worker is in the poller. In that case, this
            // worker has not slept yet.
            let mut found = Some(Found::default());
            let parker = &self.slot.parker;
            let is_notified = || parker.notified();
            let notified = parker.poll(|| found = driver.wait(timeout, is_notified));
            if found.is_some() || notified {
                return (found.unwrap_or_default(), notified);
            }
        }
        (Found::default(), self.slot.parker.park(timeout))
    }

    /// Returns the time from now to `nanos`. Returns `None` with a manual clock, because the thread
    /// that advances the clock wakes us.
    fn until(&self, nanos: u64) -> Option<Duration> {
        let clock = self.timers.clock();
        let left = nanos.saturating_sub(clock.exact_nanos());
        (!clock.is_manual()).then_some(Duration::from_nanos(left))
    }

    /// Returns the first point of the throttle's time grid that is not before `nanos`.
    fn quantum_at(&self, nanos: u64) -> u64 {
        match self.quantum {
            0 => nanos,
            quantum => nanos.div_ceil(quantum).saturating_mul(quantum),
        }
    }

    fn quantum_after(&self, nanos: u64) -> u64 {
        self.quantum_at(nanos.saturating_add(1))
    }
}
