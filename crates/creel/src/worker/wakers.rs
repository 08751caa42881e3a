//! Wakers of a pool's workers, which may outlive the pool.

use super::{current, slots::WorkerSlots};
use std::{
    sync::{Arc, Weak},
    task::{Wake, Waker},
};

/// Wakes one worker of a pool that may be gone.
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
    /// # Panics
    ///
    /// If the worker has no thread and the system refuses one.
    fn wake(self: Arc<Self>) {
        if let Some(slots) = self.slots.upgrade() {
            let slot = slots.at(self.index);
            if let Err(error) = slots.ensure_started(slot)
                && !slots.is_closing()
            {
                slots.panic_refused(self.index, &error);
            }
            slot.notify();
            // It may be in somebody's code that it began when it had nothing to hide.
            slots.ensure_watchdog();
        }
    }
}

/// Has a worker of a pool, which may be gone, look after its sockets: one that sleeps elsewhere.
pub(crate) struct PollerWaker(Weak<WorkerSlots>);

impl PollerWaker {
    pub(crate) fn waker(slots: &Arc<WorkerSlots>) -> Waker {
        Waker::from(Arc::new(PollerWaker(Arc::downgrade(slots))))
    }
}

impl Wake for PollerWaker {
    /// # Panics
    ///
    /// If no worker has a thread and the system refuses one; not on a worker's own thread, which
    /// sees to it before it ends that there is another.
    fn wake(self: Arc<Self>) {
        let Some(slots) = self.0.upgrade().filter(|slots| !slots.is_closing()) else {
            return;
        };
        // Workers that are awake look by themselves, or hide what they do not look at.
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
