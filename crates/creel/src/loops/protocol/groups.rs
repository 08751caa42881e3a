//! Groups of workers in a large loop. Each group has one cache line that reports to the caller, so
//! that the caller need not check every worker. For example, in a loop on 32 workers the caller can
//! read 4 cache lines instead of 31.
//!
//! A worker is *out* of a loop when it has finished its blocks and claims no more. It then checks
//! whether all other workers of its group are out too. The cache lines that it reads belong to its
//! neighbours. If all are out, it records that in the group's cache line. Two workers may find this
//! at the same time, and then both record the same. It may also happen that no worker records it,
//! because one worker of the group never began. In that case the caller checks the workers of that
//! group one by one, as it does in a small loop.
//!
//! Invariant: if the cache line of a group contains the epoch of a loop, the whole group is out of
//! that loop. A thread that reads this sees what the members wrote. No worker waits for its group,
//! and a group has no leader that could be late.

use super::dispatch::Part;
use std::{iter::successors, ops::Range};

/// The number of workers in a group. At least that many cores usually share a cache, and placements
/// give such neighbours consecutive indices.
const GROUP: usize = if cfg!(any(creel_loom, creel_shuttle)) {
    2
} else {
    8
};
/// The largest number of workers for which the caller checks each worker, because their cache lines
/// arrive together.
const FLAT_MAX: usize = if cfg!(any(creel_loom, creel_shuttle)) {
    2
} else {
    16
};

impl Part<'_> {
    /// Returns the workers of the loop, in groups.
    pub(super) fn groups(&self) -> impl Iterator<Item = Range<usize>> {
        let slots = self.call.workers();
        let len = if self.is_flat() { slots } else { GROUP };
        let group = move |first: usize| (first < slots).then(|| first..slots.min(first + len));
        successors(group(0), move |before| group(before.end))
    }

    fn is_flat(&self) -> bool {
        self.call.workers() <= FLAT_MAX
    }

    /// Returns the workers in `group`, without the caller.
    pub(super) fn workers_in(&self, group: Range<usize>) -> impl Iterator<Item = usize> {
        let caller = self.call.caller();
        group.filter(move |slot| *slot != caller)
    }

    /// Returns whether all workers of a group took part and are out. If so, their shares are
    /// completely claimed too.
    pub(super) fn is_out(&self, group: Range<usize>) -> bool {
        let epoch = self.call.epoch();
        if self.is_flat() {
            self.are_done(group)
        } else {
            self.share(group.start).group_out() == epoch
        }
    }

    fn are_done(&self, group: Range<usize>) -> bool {
        let epoch = self.call.epoch();
        self.workers_in(group)
            .all(|slot| self.share(slot).is_done(epoch))
    }

    /// Records that the group is out, if all its workers are. Each worker calls this when it is
    /// out.
    pub(super) fn report(&self) {
        if self.is_flat() {
            return;
        }
        let who = self.slot.index;
        let first = who - who % GROUP;
        let end = self.call.workers().min(first + GROUP);
        // We begin with the next worker, so that not all workers read the same cache line first.
        if self.are_done(who + 1..end) && self.are_done(first..who) {
            self.share(first).set_group_out(self.call.epoch());
        }
    }
}
