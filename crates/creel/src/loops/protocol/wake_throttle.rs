//! How often a thread notifies an idle worker of work that it keeps in a queue of its own.
//!
//! Such a thread publishes work so often that it cannot afford a notification each time. If there
//! is a watchdog, it notifies only from time to time, because the watchdog looks for the work every
//! millisecond anyway.

use crate::{
    sync::{AtomicU64, AtomicUsize, Ordering, now_ns},
    worker::slots::WorkerSlots,
};

/// While there is a watchdog, a thread that has notified a worker notifies the next one only after
/// at least this time. The time doubles, up to the second value, while no thread steals from it.
const OFFER_NS: u64 = if cfg!(creel_shuttle) { 0 } else { 10_000 };
const OFFER_MAX_NS: u64 = if cfg!(creel_shuttle) { 0 } else { 500_000 };

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

    /// Notifies an idle worker of work that the thread has just published. The thread is the worker
    /// `own`, or a thread from outside. Something was stolen from it `stolen` times so far.
    pub(in crate::loops) fn notify(&self, slots: &WorkerSlots, own: Option<usize>, stolen: usize) {
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
            let every = every.clamp(OFFER_NS, OFFER_MAX_NS);
            self.stolen.store(stolen, Ordering::Relaxed);
            self.every_ns.store(every, Ordering::Relaxed);
            self.at_ns.store(now + every, Ordering::Relaxed);
        }
        slots.notify_other(own);
    }
}
