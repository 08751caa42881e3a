//! Wakers of a pool's seats, which may outlive the pool.

use super::{current, seats::Seats};
use std::{
    sync::{Arc, Weak},
    task::{Wake, Waker},
};

/// Wakes one seat of a pool that may be gone.
pub(crate) struct SeatWaker {
    seats: Weak<Seats>,
    index: usize,
}

impl SeatWaker {
    pub(crate) fn waker(seats: &Arc<Seats>, index: usize) -> Waker {
        let seats = Arc::downgrade(seats);
        Waker::from(Arc::new(SeatWaker { seats, index }))
    }
}

impl Wake for SeatWaker {
    /// # Panics
    ///
    /// If the seat has no thread and the system refuses one.
    fn wake(self: Arc<Self>) {
        if let Some(seats) = self.seats.upgrade() {
            let seat = seats.at(self.index);
            if let Err(error) = seats.ensure_started(seat)
                && !seats.is_closing()
            {
                seats.panic_refused(self.index, &error);
            }
            seat.notify();
            // It may be in somebody's code that it began when it had nothing to hide.
            seats.see_to_a_watch();
        }
    }
}

/// Has a worker of a pool, which may be gone, look after its sockets: one that sleeps elsewhere.
pub(crate) struct PollerWaker(Weak<Seats>);

impl PollerWaker {
    pub(crate) fn waker(seats: &Arc<Seats>) -> Waker {
        Waker::from(Arc::new(PollerWaker(Arc::downgrade(seats))))
    }
}

impl Wake for PollerWaker {
    /// # Panics
    ///
    /// If no worker has a thread and the system refuses one; not on a worker's own thread, which
    /// sees to it before it ends that there is another.
    fn wake(self: Arc<Self>) {
        let Some(seats) = self.0.upgrade().filter(|seats| !seats.is_closing()) else {
            return;
        };
        // Workers that are awake look by themselves, or hide what they do not look at.
        seats.see_to_a_watch();
        let all = || (0..seats.workers()).map(|index| seats.at(index));
        let asleep = all().find(|seat| seat.thread.is_running() && seat.sleeps());
        let Some(seat) = asleep.or_else(|| all().find(|seat| !seat.thread.is_running())) else {
            return;
        };
        match seats.ensure_started(seat) {
            Err(error) if seats.made().all(|seat| !seat.thread.is_running()) => {
                if !seats.is_closing() && current::index_in(&seats).is_none() {
                    seats.panic_refused(seat.index, &error);
                }
            }
            _ => {
                seat.notify();
            }
        }
    }
}
