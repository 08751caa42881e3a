//! What the caller of a loop does: it works on its own share, then on what is left of the other
//! shares, and then waits for the workers.

use super::{call::Grain, dispatch::Part};
use crate::{
    sync::{LOOKS, lock, now_ns, spin_loop},
    worker::waiter::Waiter,
};
use std::ops::Range;

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

/// The number of pauses for which a caller waits for a group without progress, before it checks
/// the workers of that group one by one. Reading a worker's cache line delays the worker.
const GROUP_LOOKS: u32 = if cfg!(any(creel_loom, creel_shuttle)) {
    1
} else {
    64
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
        let mut late = if units < QUICK_UNITS && shares && !self.call.wakes() {
            // We wait a little, because reading a share takes its cache line away from the worker
            // that is about to claim it.
            self.poll(self.groups_from(0).next(), QUICK_LOOKS)
        } else {
            self.first_late(0)
        };
        // We use two rounds, so that we wait for no worker while there is work left.
        if shares && let Some(first) = &late {
            let groups = self.groups_from(first.start);
            let late = groups.filter(|group| !self.is_out(group));
            late.flat_map(|group| self.workers_in(group))
                .filter(|other| !self.is_group_claimed(*other))
                .for_each(|other| join.sweep(other));
        }
        let mut straggler: Option<Straggler> = None;
        while let Some(group) = late {
            if !self.is_flat() {
                late = self.poll(Some(group.clone()), GROUP_LOOKS);
                if late.as_ref() != Some(&group) {
                    continue;
                }
            }
            // A worker of this group takes long, or has not begun. In the second case, the group
            // never reports.
            for slot in self.workers_in(group.clone()) {
                if self.is_out(&group) {
                    break;
                }
                let slept_ns = join.wait_until_left(slot);
                if slept_ns > straggler.map_or(0, |last| last.slept_ns) {
                    straggler = Some(Straggler { slot, slept_ns });
                }
            }
            late = self.first_late(group.end);
        }
        straggler
    }

    /// Waits until the group `late` and those behind it are out, and gives up after `looks` pauses
    /// without progress. Returns the first group that is not out.
    fn poll(&self, mut late: Option<Range<usize>>, looks: u32) -> Option<Range<usize>> {
        if !self.is_flat() {
            return self.poll_groups(late?.start, looks);
        }
        let mut left = looks;
        while let Some(group) = late.as_ref().filter(|_| left > 0) {
            spin_loop();
            left -= 1;
            if self.is_out(group) {
                late = self.first_late(group.end);
                left = looks;
            }
        }
        late
    }
}

/// The way in which the caller of a loop waits.
struct Join<'a> {
    part: Part<'a>,
    spin_ns: u64,
}

impl Join<'_> {
    /// Ensures that the share of the worker `other` is completely claimed.
    fn sweep(&self, other: usize) {
        let call = self.part.call;
        let (epoch, share) = (call.epoch(), self.part.share(other));
        loop {
            if share.is_done(epoch) || share.is_claimed(epoch) {
                return;
            } else if let Some(blocks) = share.claim_back(epoch, call.grain(), call.workers()) {
                self.part.run(other, blocks);
            } else {
                // The share's worker is in the loop and takes the few blocks that are left.
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
        // We set the bit again for each sleep, because the wake-up by another worker may have ended
        // the previous sleep.
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
