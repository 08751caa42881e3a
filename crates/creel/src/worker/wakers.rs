//! Wakers of a pool's workers, which may outlive the pool.
//!
//! [`WorkerWaker`] wakes one worker, because a timer is on the timer wheel of one worker.
//! [`PollerWaker`] wakes any worker, because any worker can poll the sockets.

use super::{current, slots::WorkerSlots};
use std::{
    sync::{Arc, Weak},
    task::{Wake, Waker},
};

/// A waker for one worker of a pool. The pool may be gone.
pub(crate) struct WorkerWaker {
    slots: Weak<WorkerSlots>,
    index: usize,
}

impl WorkerWaker {
    pub(crate) fn waker(slots: &Arc<WorkerSlots>, index: usize) -> Waker {
        let slots = Arc::downgrade(slots);
        Waker::from(Arc::new(WorkerWaker { slots, index }))
    }
}

impl Wake for WorkerWaker {
    /// Wakes the worker.
    ///
    /// # Panics
    ///
    /// Panics if the worker has no thread and the OS refuses one.
    fn wake(self: Arc<Self>) {
        if let Some(slots) = self.slots.upgrade() {
            let slot = slots.at(self.index);
            if let Err(error) = slots.ensure_started(slot)
                && !slots.is_closing()
            {
                slots.panic_refused(self.index, &error);
            }
            slot.notify();
            // The worker may be in user code. When it began that code, it had no timers that only
            // it could fire, so it may not have ensured that there is a watchdog. Therefore the
            // waker ensures that there is one.
            slots.ensure_watchdog();
        }
    }
}

/// A waker that makes a worker of a pool check the sockets. It wakes a sleeping worker, or starts
/// one that has no thread. The pool may be gone.
pub(crate) struct PollerWaker(Weak<WorkerSlots>);

impl PollerWaker {
    pub(crate) fn waker(slots: &Arc<WorkerSlots>) -> Waker {
        Waker::from(Arc::new(PollerWaker(Arc::downgrade(slots))))
    }
}

impl Wake for PollerWaker {
    /// Wakes a worker.
    ///
    /// # Panics
    ///
    /// Panics if no worker has a thread and the OS refuses one. It never panics on a worker's own
    /// thread, because that thread ensures before it ends that there is another one.
    fn wake(self: Arc<Self>) {
        let Some(slots) = self.0.upgrade().filter(|slots| !slots.is_closing()) else {
            return;
        };
        // Workers that are awake check the sockets by themselves. If they run user code, the
        // watchdog checks for them.
        slots.ensure_watchdog();
        let all = || (0..slots.workers()).map(|index| slots.at(index));
        let asleep = all().find(|slot| slot.thread.is_running() && slot.sleeps());
        let Some(slot) = asleep.or_else(|| all().find(|slot| !slot.thread.is_running())) else {
            return;
        };
        match slots.ensure_started(slot) {
            Err(error) if slots.made().all(|slot| !slot.thread.is_running()) => {
                if !slots.is_closing() && current::index_in(&slots).is_none() {
                    slots.panic_refused(slot.index, &error);
                }
            }
            _ => {
                slot.notify();
            }
        }
    }
}
