//! Begins and ends the forking of a thread in a pool. A worker uses its own forker. A thread from
//! outside borrows one, as a guest.

use super::{CURRENT, Forker};
use crate::{
    loops::protocol::Protocol,
    sync::{Ordering, local, lock, now_ns},
    worker::{current, table::WORKERS_MAX},
};
use std::{cell::Cell, ptr};

/// The calling thread as a forker of a pool, until this value is dropped.
pub(in crate::loops) struct Entered<'a> {
    loops: &'a Protocol,
    forker: &'a Forker,
    /// The previous state of the thread, which the drop restores. It is `None` if nothing must be
    /// undone.
    undo: Option<Undo>,
}

struct Undo {
    before: *const Forker,
    guest: Option<usize>,
}

impl<'a> Entered<'a> {
    /// Enters the pool, in which the thread is not active.
    pub(in crate::loops) fn new(loops: &'a Protocol) -> Self {
        let before = local(&CURRENT, Cell::get).unwrap_or(ptr::null());
        let forks = &loops.forks;
        let (forker, undo) = match current::index_in(&loops.slots) {
            Some(index) => {
                let slot = loops.slots.at(index);
                if slot.is_idle() {
                    // The worker takes part in a loop, for which it stays in the idle list. It
                    // would not arrive if it were notified of the forks that are about to come.
                    // Therefore it leaves the list now.
                    slot.set_looping(true);
                    loops.slots.leave_idle_for_long(slot);
                }
                let forker = forks.worker(loops, index, Some(now_ns));
                // A worker stays active until its next turn, so that many short joins in one loop
                // or task pay for this once.
                let undo = (!before.is_null()).then_some(Undo {
                    before,
                    guest: None,
                });
                (forker, undo)
            }
            None => {
                let free = lock(&forks.free_guests).pop();
                let guest =
                    free.unwrap_or_else(|| forks.guests_made.fetch_add(1, Ordering::Relaxed));
                assert!(
                    guest < WORKERS_MAX,
                    "more than {WORKERS_MAX} threads from outside are in a join of one pool"
                );
                let forker = &**forks.guests.at(guest);
                loops.slots.idle.begin_outside();
                forker.begin(loops, now_ns(), true);
                forker.deferral.begin();
                forker.throttle.begin();
                if !forker.deque.any_idle() {
                    // There may be nobody to notify. If this thread blocks, the watchdog must find
                    // its forks.
                    loops.slots.ensure_watchdog();
                }
                let undo = Undo {
                    before,
                    guest: Some(guest),
                };
                (forker, Some(undo))
            }
        };
        local(&CURRENT, |current| current.set(forker));
        Self {
            loops,
            forker,
            undo,
        }
    }

    pub(in crate::loops) fn forker(&self) -> &'a Forker {
        self.forker
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let Some(Undo { before, guest }) = self.undo.take() else {
            return;
        };
        local(&CURRENT, |current| current.set(before));
        let Some(guest) = guest else { return };
        let begun_ns = self.forker.begun_ns.load(Ordering::Relaxed);
        let took_ns = now_ns().saturating_sub(begun_ns);
        self.forker.deferral.learn(took_ns);
        self.forker.end(self.loops);
        self.forker.deque.set_owner(None);
        self.loops.slots.idle.end_outside();
        lock(&self.loops.forks.free_guests).push(guest);
    }
}
