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

use super::{
    call::WORKERS_MAX,
    dispatch::Part,
    share::{GROUPS_PER_LINE, Share},
};
use crate::sync::spin_loop;
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
    8
};
/// The number of cache lines that a thread requests before it reads the first of them. A core can
/// wait for about ten cache lines at the same time.
const AHEAD: usize = 8;

/// Returns the items of an iterator unchanged, and calls `fetch` for each item up to [`AHEAD`]
/// items before it returns the item.
fn ahead<T>(mut items: impl Iterator<Item = T>, fetch: impl Fn(&T)) -> impl Iterator<Item = T> {
    let mut ring = [const { None }; AHEAD];
    let (mut filled, mut taken) = (0, 0);
    std::iter::from_fn(move || {
        while filled - taken < AHEAD
            && let Some(item) = items.next()
        {
            fetch(&item);
            ring[filled % AHEAD] = Some(item);
            filled += 1;
        }
        let item = ring[taken % AHEAD].take();
        taken += usize::from(item.is_some());
        item
    })
}

impl Part<'_> {
    /// Returns the groups of the loop's workers, beginning with the group whose first worker is
    /// `first`. In a flat loop, each worker is a group of its own.
    pub(super) fn groups_from(&self, first: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let slots = self.call.workers();
        let len = if self.is_flat() { 1 } else { GROUP };
        let group = move |first: usize| (first < slots).then(|| first..slots.min(first + len));
        successors(group(first), move |before| group(before.end))
    }

    /// Returns whether the loop is *flat*, which means that it has so few workers that the caller
    /// checks each of them.
    pub(super) fn is_flat(&self) -> bool {
        self.call.workers() <= FLAT_MAX
    }

    /// Returns the group of a worker. The loop must not be flat.
    fn group_of(&self, slot: usize) -> Range<usize> {
        let first = slot - slot % GROUP;
        first..self.call.workers().min(first + GROUP)
    }

    /// Returns the workers in `group`, without the caller.
    pub(super) fn workers_in(&self, group: Range<usize>) -> impl Iterator<Item = usize> + use<> {
        let caller = self.call.caller();
        group.filter(move |slot| *slot != caller)
    }

    /// Returns whether all workers of a group took part and are out. If so, their shares are
    /// completely claimed too.
    pub(super) fn is_out(&self, group: &Range<usize>) -> bool {
        let epoch = self.call.epoch();
        if self.is_flat() {
            self.are_done(group.clone())
        } else {
            // The caller of a loop does not report when it has finished its blocks. If it is the
            // only worker of its group, the group therefore always counts as out.
            let is_caller = group.len() == 1 && group.start == self.call.caller();
            is_caller || self.share(group.start).group_out() == epoch
        }
    }

    /// Returns the first group from worker `first` on that is not out.
    pub(super) fn first_late(&self, first: usize) -> Option<Range<usize>> {
        let is_late = |group: &Range<usize>| !self.is_out(group);
        if self.is_flat() {
            return self.groups_from(first).find(is_late);
        }
        let fetch = |group: &Range<usize>| self.share(group.start).prefetch_group_out();
        ahead(self.groups_from(first), fetch).find(is_late)
    }

    /// Waits until all groups from worker `first` on are out, and gives up after `looks` pauses
    /// without progress. Returns the first group that is not out. The loop must not be flat.
    ///
    /// It checks all groups between two pauses, because their cache lines arrive together. If it
    /// waited for one group after the other, it would wait for one cache line after the other.
    pub(super) fn poll_groups(&self, first: usize, looks: u32) -> Option<Range<usize>> {
        const {
            let groups = WORKERS_MAX.div_ceil(GROUP) as u32;
            assert!(groups <= u128::BITS || cfg!(any(creel_loom, creel_shuttle)));
        }
        let bit = |group: &Range<usize>| 1_u128 << (group.start / GROUP);
        let fetch = |group: &Range<usize>| self.share(group.start).prefetch_group_out();
        let (mut late, mut left) = (u128::MAX, looks);
        loop {
            let groups = self
                .groups_from(first)
                .filter(|group| late & bit(group) != 0);
            let still = ahead(groups, fetch)
                .filter(|group| !self.is_out(group))
                .fold(0, |still, group| still | bit(&group));
            left = if still == late { left - 1 } else { looks };
            if still == 0 || left == 0 {
                return self
                    .groups_from(first)
                    .find(|group| still & bit(group) != 0);
            }
            late = still;
            spin_loop();
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
        let group = self.group_of(who);
        let others = group.clone().filter(|slot| *slot != who);
        others.for_each(|slot| self.share(slot).prefetch_done());
        // We begin with the next worker, so that not all workers read the same cache line first.
        if self.are_done(who + 1..group.end) && self.are_done(group.start..who) {
            self.share(group.start).set_group_out(self.call.epoch());
        }
    }

    /// Records that the group of share `home` is completely claimed, if it is. A thread calls this
    /// each time that it has claimed blocks of that share. The exception is the loop's caller when
    /// it sweeps the shares at the end.
    pub(super) fn note_claim(&self, home: usize) {
        if self.is_flat() {
            return;
        }
        let (epoch, group) = (self.call.epoch(), self.group_of(home));
        let is_claimed = |slot: usize| self.share(slot).is_claimed(epoch);
        let mut others = (home + 1..group.end).chain(group.start..home);
        // We first check one other share, because each check takes the cache line away from a worker
        // that may be about to claim.
        if is_claimed(home) && others.next().is_none_or(is_claimed) {
            others
                .clone()
                .for_each(|slot| self.share(slot).prefetch_claims());
            if others.all(is_claimed) {
                let (line, index) = self.claimed_at(home);
                line.set_group_claimed(index, epoch);
            }
        }
    }

    /// Returns where the group of this worker records that it is completely claimed: the share with
    /// the cache line, and the index in it.
    fn claimed_at(&self, slot: usize) -> (&Share, usize) {
        let group = slot / GROUP;
        let first = group - group % GROUPS_PER_LINE;
        (self.share(first * GROUP), group - first)
    }

    /// Returns whether the share of this worker is known to be completely claimed, because its
    /// group is.
    pub(super) fn is_group_claimed(&self, slot: usize) -> bool {
        !self.is_flat() && {
            let (line, index) = self.claimed_at(slot);
            line.is_group_claimed(index, self.call.epoch())
        }
    }

    /// Returns whether all shares are known to be completely claimed. In a small loop, a thread has
    /// to check each of them.
    pub(super) fn are_all_claimed(&self) -> bool {
        if self.is_flat() {
            return false;
        }
        self.groups_from(0)
            .step_by(GROUPS_PER_LINE)
            .for_each(|group| self.share(group.start).prefetch_groups_claimed());
        self.groups_from(0)
            .all(|group| self.is_group_claimed(group.start))
    }
}
