//! The caller's side of a loop: it works on its own share, then on the rest of the other shares,
//! and then waits.

use super::{call::Grain, dispatch::Part};
use crate::{
    sync::{LOOKS, lock, now_ns, spin_loop},
    worker::waiter::Waiter,
};

/// A worker for which the caller slept for a long time.
#[derive(Clone, Copy, Debug)]
pub(in crate::loops) struct Straggler {
    pub(in crate::loops) slot: usize,
    pub(in crate::loops) slept_ns: u64,
}

/// The number of units below which a caller may be done before a worker has seen the call.
const QUICK_UNITS: usize = 256;
/// The number of pauses that such a caller makes for the workers. They take about as long as a call
/// needs to reach a worker and to return.
const QUICK_LOOKS: u32 = if cfg!(any(creel_loom, creel_shuttle)) {
    1
} else {
    16
};

impl Part<'_> {
    /// Works until every share is claimed, and then waits until all workers in the loop are out. If
    /// it slept, it returns the worker for which it slept longest.
    ///
    /// `spin_ns` is the time for which it spins for each worker before it sleeps.
    pub(in crate::loops) fn work_and_join(&self, units: usize, spin_ns: u64) -> Option<Straggler> {
        let join = Join {
            part: *self,
            spin_ns,
        };
        self.work();
        let shares = self.call.grain() != Grain::QUEUE;
        if units < QUICK_UNITS && shares && !self.call.wakes() {
            // We wait a little, because reading a share takes its cache line away from the worker
            // that is about to claim it.
            let is_out = || self.groups().all(|group| self.is_out(group));
            let mut looks = 0..QUICK_LOOKS;
            if looks.any(|_| {
                spin_loop();
                is_out()
            }) {
                return None;
            }
        }
        // We use two rounds, so that we wait for no worker while there is work left.
        if shares {
            self.late().for_each(|other| join.sweep(other));
        }
        let slept = self.late().filter_map(|slot| {
            let slept_ns = join.wait_until_left(slot);
            (slept_ns > 0).then_some(Straggler { slot, slept_ns })
        });
        slept.max_by_key(|straggler| straggler.slept_ns)
    }

    /// Returns the workers of the groups that are not out yet.
    fn late(&self) -> impl Iterator<Item = usize> {
        let late = self.groups().filter(|group| !self.is_out(group.clone()));
        late.flat_map(|group| self.workers_in(group))
    }
}

/// The way in which the caller of a loop waits.
struct Join<'a> {
    part: Part<'a>,
    spin_ns: u64,
}

impl Join<'_> {
    /// Ensures that the share of `other` is completely claimed.
    fn sweep(&self, other: usize) {
        let (epoch, grain) = (self.part.call.epoch(), self.part.call.grain());
        let share = self.part.share(other);
        loop {
            if share.is_done(epoch) || share.is_claimed(epoch) {
                return;
            } else if let Some(blocks) = share.claim_back(epoch, grain) {
                self.part.run(other, blocks);
            } else {
                // The owner is in the loop and takes the small rest.
                self.wait_until_left(other);
            }
        }
    }

    /// Waits until the worker has left the loop. Returns how long it slept, in ns.
    fn wait_until_left(&self, other: usize) -> u64 {
        let (epoch, share) = (self.part.call.epoch(), self.part.share(other));
        if !share.is_in(epoch) || !spin_while(|| !share.is_done(epoch), self.spin_ns) {
            return 0;
        }
        let begin = now_ns();
        let waiter = Waiter::current();
        *lock(&self.part.loops.mailbox.caller) = Some(waiter.clone());
        // We set the bit again for each sleep, because the wake-up of another worker may have ended
        // the previous one.
        let left = || share.is_done(epoch) || !share.await_leave(epoch);
        waiter.wait_until(left, || false);
        *lock(&self.part.loops.mailbox.caller) = None;
        now_ns() - begin
    }
}

/// Spins while `busy` returns true, for at most `ns`. Returns whether it is still busy.
fn spin_while(busy: impl Fn() -> bool, ns: u64) -> bool {
    let mut begin = None;
    loop {
        for look in 0..LOOKS {
            if !busy() {
                return false;
            }
            if look % 4 == 3 {
                spin_loop();
            }
        }
        let now = now_ns();
        if now - *begin.get_or_insert(now) >= ns || cfg!(any(creel_loom, creel_shuttle)) {
            return busy();
        }
    }
}
