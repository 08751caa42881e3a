//! Limits how often a thread notifies an idle worker of work that the thread has pushed to its own
//! queue.
//!
//! Such a thread publishes work so often that it cannot afford a notification each time. If there
//! is a watchdog, it notifies only from time to time, because the watchdog looks for the work every
//! millisecond anyway.
//!
//! A notification costs several microseconds. A thread from outside whose last recursions were
//! shorter than that therefore defers the first notification of the next one ([`Deferral`]). It
//! ensures that there is a watchdog instead.

use crate::{
    sync::{AtomicU64, AtomicUsize, Ordering, now_ns},
    worker::slots::WorkerSlots,
};

/// While there is a watchdog, a thread that has notified a worker notifies the next one only after
/// at least this time. The time doubles, up to the second constant, while no other thread steals
/// from this thread.
const NOTIFY_GAP_NS: u64 = if cfg!(creel_shuttle) { 0 } else { 10_000 };
const NOTIFY_GAP_MAX_NS: u64 = if cfg!(creel_shuttle) { 0 } else { 500_000 };

/// A recursion that takes less than this may end before a notified worker arrives.
const SHORT_NS: u64 = 12_000;
/// After a recursion that takes at least this time, the first notification of the next one must not
/// be deferred.
const LONG_NS: u64 = 100_000;
/// A thread defers the first notification of a recursion after `SHORT_RUNS` short recursions. We
/// count up to `SHORT_RUNS_MAX`, so that a single recursion that takes longer, for example because
/// the OS preempted its thread, does not end the deferral.
const SHORT_RUNS: u64 = 8;
const SHORT_RUNS_MAX: u64 = 16;
/// `DEFER_NS` is the time for which a notification is deferred. The thread looks at the clock once
/// in `LOOK_EVERY` forks.
const DEFER_NS: u64 = 6_000;
const LOOK_EVERY: u64 = 16;

/// Whether a thread defers the first notification of a recursion, because the last ones were short.
/// Only this thread uses it, so relaxed is enough.
pub(super) struct Deferral {
    /// A score of how many recent recursions were short, up to `SHORT_RUNS_MAX`. See `learn`.
    short: AtomicU64,
    /// The number of forks until the thread looks at the clock. It is 0 if the thread does not
    /// defer.
    forks: AtomicU64,
}

impl Deferral {
    pub(super) fn new() -> Self {
        Self {
            short: AtomicU64::new(0),
            forks: AtomicU64::new(0),
        }
    }

    /// Records that a recursion of joins begins on this thread.
    pub(super) fn begin(&self) {
        let defers = self.short.load(Ordering::Relaxed) >= SHORT_RUNS && !cfg!(creel_shuttle);
        let forks = if defers { LOOK_EVERY } else { 0 };
        self.forks.store(forks, Ordering::Relaxed);
    }

    /// Returns whether the thread does not notify a worker of the fork that it has just pushed. The
    /// recursion began at the time `begun_ns`, and the pool already counts the thread as running.
    ///
    /// If it returns true, there is a watchdog, which finds the fork even if the thread pushes no
    /// further fork.
    #[inline]
    pub(super) fn defers(&self, slots: &WorkerSlots, begun_ns: u64) -> bool {
        let mut forks = self.forks.load(Ordering::Relaxed);
        if forks == 0 {
            return false;
        }
        forks -= 1;
        if forks == 0 && now_ns().saturating_sub(begun_ns) < DEFER_NS {
            forks = LOOK_EVERY;
        }
        self.forks.store(forks, Ordering::Relaxed);
        if forks > 0 {
            slots.ensure_watchdog();
        }
        forks > 0
    }

    /// Updates the score after a recursion of joins that took `ns` nanoseconds.
    pub(super) fn learn(&self, ns: u64) {
        let short = self.short.load(Ordering::Relaxed);
        let short = match ns {
            ..SHORT_NS => (short + 1).min(SHORT_RUNS_MAX),
            SHORT_NS..LONG_NS => short.saturating_sub(SHORT_RUNS / 2),
            LONG_NS.. => 0,
        };
        self.short.store(short, Ordering::Relaxed);
    }
}

/// The notifications of one thread. Only this thread uses them, so relaxed is enough.
pub(in crate::loops) struct WakeThrottle {
    /// The time from which the thread may notify a worker again.
    at_ns: AtomicU64,
    /// The minimum time between the last notification and the next.
    every_ns: AtomicU64,
    /// The number of steals from this thread at the time of the last notification.
    stolen: AtomicUsize,
}

impl WakeThrottle {
    pub(in crate::loops) fn new() -> Self {
        Self {
            at_ns: AtomicU64::new(0),
            every_ns: AtomicU64::new(0),
            stolen: AtomicUsize::new(0),
        }
    }

    /// Records that the thread begins a new recursion, so that it may notify a worker at once.
    pub(super) fn begin(&self) {
        self.at_ns.store(0, Ordering::Relaxed);
        self.every_ns.store(0, Ordering::Relaxed);
    }

    /// Notifies an idle worker of work that the thread has just published. The thread is the worker
    /// `own`, or a thread from outside. Workers with an index below `first` are not notified.
    /// Something was stolen from the thread `stolen` times so far.
    pub(in crate::loops) fn notify(
        &self,
        slots: &WorkerSlots,
        first: usize,
        own: Option<usize>,
        stolen: usize,
    ) {
        if slots.idle.is_searching() {
            // The notified worker will find the work. If it does not arrive, the watchdog will.
            slots.ensure_watchdog();
            return;
        }
        if slots.idle.has_watchdog() {
            let now = now_ns();
            if now < self.at_ns.load(Ordering::Relaxed) {
                return;
            }
            let every = match self.stolen.load(Ordering::Relaxed) == stolen {
                true => 2 * self.every_ns.load(Ordering::Relaxed),
                false => 0,
            };
            let every = every.clamp(NOTIFY_GAP_NS, NOTIFY_GAP_MAX_NS);
            self.stolen.store(stolen, Ordering::Relaxed);
            self.every_ns.store(every, Ordering::Relaxed);
            self.at_ns.store(now + every, Ordering::Relaxed);
        }
        slots.notify_other_from(first, own);
    }
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;

    /// Begins a recursion. Returns whether its first notification is deferred.
    fn begins_deferred(deferral: &Deferral) -> bool {
        deferral.begin();
        deferral.forks.load(Ordering::Relaxed) > 0
    }

    #[test]
    fn the_first_notification_is_deferred_after_short_recursions() {
        let deferral = Deferral::new();
        for _ in 0..SHORT_RUNS {
            assert!(!begins_deferred(&deferral));
            deferral.learn(SHORT_NS - 1);
        }
        assert!(begins_deferred(&deferral));
    }

    #[test]
    fn a_long_recursion_ends_the_deferral_and_a_single_disturbed_one_does_not() {
        let deferral = Deferral::new();
        (0..SHORT_RUNS_MAX).for_each(|_| deferral.learn(0));
        deferral.learn(SHORT_NS);
        assert!(begins_deferred(&deferral));
        deferral.learn(LONG_NS);
        assert!(!begins_deferred(&deferral));
    }
}
