//! The way up of a large loop: a line a group of workers, so that the caller need not look at each.
//!
//! A worker that is out looks whether all others of its group are, too: the lines that it reads
//! are its neighbours'. If so, it says so in the group's line. Two may find that at the same time
//! and say the same. It may also be that nobody says it, because one of the group has not begun:
//! then the caller looks at the workers of that group one by one, as it does in a small loop.
//!
//! The invariant: a group whose line has a loop's epoch is out of that loop, all of it, and who
//! reads so sees what its members wrote. Nobody waits for a group, and a group has no leader who
//! might be late.

use super::dispatch::Part;
use std::{iter::successors, ops::Range};

/// Workers of one group: so many cores share a cache, or more; placements put neighbours in index
/// there.
const GROUP: usize = if cfg!(any(loom, shuttle)) { 2 } else { 8 };
/// A loop of no more workers is joined worker by worker: their lines arrive together.
const FLAT_MAX: usize = if cfg!(any(loom, shuttle)) { 2 } else { 16 };

impl Part<'_> {
    /// The workers of the loop, in groups.
    pub(super) fn groups(&self) -> impl Iterator<Item = Range<usize>> {
        let slots = self.call.workers();
        let len = if self.is_flat() { slots } else { GROUP };
        let group = move |first: usize| (first < slots).then(|| first..slots.min(first + len));
        successors(group(0), move |before| group(before.end))
    }

    fn is_flat(&self) -> bool {
        self.call.workers() <= FLAT_MAX
    }

    /// The workers among `group`.
    pub(super) fn workers_in(&self, group: Range<usize>) -> impl Iterator<Item = usize> {
        let caller = self.call.caller();
        group.filter(move |slot| *slot != caller)
    }

    /// Whether all workers of a group took part and are out: then their shares are claimed, too.
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

    /// Called by a worker that is out: tells it if it is the last of its group.
    pub(super) fn report(&self) {
        if self.is_flat() {
            return;
        }
        let who = self.slot.index;
        let first = who - who % GROUP;
        let end = self.call.workers().min(first + GROUP);
        // From the next one on: not all look at the same line first.
        if self.are_done(who + 1..end) && self.are_done(first..who) {
            self.share(first).set_group_out(self.call.epoch());
        }
    }
}
