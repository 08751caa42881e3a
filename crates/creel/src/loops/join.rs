//! The caller's side of a loop: its share, the others' rest, and the wait.

use super::dispatch::Part;
use super::words::Grain;
use crate::{
    pool::seat::Seat,
    sync::{now_ns, spin_loop},
};

impl Part<'_> {
    /// Works until every share is claimed, then waits until all who are in are out.
    ///
    /// `spin_ns` is how long it spins for each before it sleeps; `seat` is the calling thread's
    /// own, if it is a worker.
    pub(super) fn work_and_join(&self, spin_ns: u64, seat: Option<&Seat>) {
        self.work();
        if self.call.grain() != Grain::QUEUE {
            self.others()
                .for_each(|other| self.sweep(other, spin_ns, seat));
        }
        for other in self.others() {
            self.wait_until_left(other, spin_ns, seat);
        }
    }

    /// Sees to it that the share of `other` is claimed to the last block.
    fn sweep(&self, other: usize, spin_ns: u64, seat: Option<&Seat>) {
        let (epoch, grain) = (self.call.epoch(), self.call.grain());
        let share = self.share(other);
        loop {
            if let Some(blocks) = share.claim_back(epoch, grain) {
                self.run(other, blocks);
            } else if share.is_claimed(epoch) {
                return;
            } else {
                // Its owner is in and takes the crumb that is left.
                self.wait_until_left(other, spin_ns, seat);
            }
        }
    }

    fn wait_until_left(&self, other: usize, spin_ns: u64, seat: Option<&Seat>) {
        let (epoch, share) = (self.call.epoch(), self.share(other));
        let in_loop = || share.is_in(epoch);
        if !in_loop() || !spin_while(in_loop, spin_ns) {
            return;
        }
        match seat {
            None => {
                while share.await_leave(epoch, None) {
                    share.sleep_until_left(epoch);
                }
            }
            Some(seat) => {
                while share.await_leave(epoch, Some(seat.index)) {
                    seat.begin_turn();
                    // Others may wait for this worker's urgent jobs before they can leave.
                    if !seat.run_urgent() {
                        seat.park(None, || !share.is_in(epoch));
                    }
                }
                // A wake that was used up here may have been meant for other work.
                seat.notify();
            }
        }
    }
}

/// Spins while `busy`, for at most `ns`; says whether it still is.
fn spin_while(busy: impl Fn() -> bool, ns: u64) -> bool {
    let mut begin = None;
    loop {
        for _ in 0..64 {
            if !busy() {
                return false;
            }
            spin_loop();
        }
        let now = now_ns();
        if now - *begin.get_or_insert(now) >= ns || cfg!(any(loom, shuttle)) {
            return busy();
        }
    }
}
