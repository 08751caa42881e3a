//! The cache lines of a worker in the loop protocol. They record which blocks of its share are
//! left, and whether its thread is in the loop.
//!
//! Invariant: each block is claimed once, and a worker records that it is *in* the loop before it
//! claims one. Therefore, if a caller finds that every share is claimed, and afterwards that no
//! worker is in, everything is done. (A thread that works in the place of another worker is inside
//! a shared job instead, which the caller closes. See `places.rs`.)

use super::call::{Call, Grain, Left, is_before};
use crate::sync::{AtomicBool, AtomicU64, Ordering, prefetch};
use crossbeam_utils::CachePadded;
use std::{ops::Range, ptr};

/// One worker's part of the protocol. It consists of four cache lines. The first one is for its own
/// thread, and the second one reports to the caller. The third one reports for a whole group, and the
/// fourth one for several groups. They are in use only if the worker is the first one of the group,
/// or of these groups. If a caller finds in the second cache line that the worker is done, it does
/// not touch the first one, which therefore stays in the worker's cache.
#[derive(Debug)]
pub(crate) struct Share {
    claims: CachePadded<Claims>,
    up: CachePadded<Up>,
    /// The epoch of the last loop that all workers of a group have finished. Only the first worker
    /// of a group uses it. It is a hint, because the value of an older loop may arrive late.
    group_out: CachePadded<AtomicU64>,
    /// For each of [`GROUPS_PER_LINE`] groups, the epoch of the last loop of which all shares of the
    /// group are completely claimed. Only the first worker of these groups uses it. They share a
    /// cache line, because a thread that looks for unclaimed blocks reads all of them. A `Release`
    /// store synchronizes with the caller's `Acquire` load, so that the caller sees the claims that
    /// the storing thread has seen. It is a hint, because two threads that make the last two claims
    /// may not see each other's.
    groups_claimed: CachePadded<[AtomicU64; GROUPS_PER_LINE]>,
}

#[derive(Debug)]
struct Claims {
    /// A [`Left`]. Claims change it by compare-and-swap with `AcqRel`. A claim synchronizes with
    /// later claims, and with the `Acquire` load of the thread that finds the share empty.
    /// Therefore this thread sees the `entered` of every worker that has claimed a block.
    /// Otherwise, it could take a worker that still runs a block for one that never took part.
    left: AtomicU64,
    /// The epoch of the last loop that the worker's thread took part in.
    entered: AtomicU64,
    /// The epoch of the last loop that the worker's thread has looked at.
    seen: AtomicU64,
    /// The epoch of the last loop in which the worker's place was taken by compare-and-swap. Either
    /// another thread took it, or the worker's own thread did while it was not idle.
    ///
    /// Relaxed is enough. When the worker's own thread is idle, it reads this without a swap. It
    /// became idle under the lock under which other threads take the place (`places.rs`). Therefore
    /// each earlier take happens before this read, and no thread takes the place of an idle worker.
    taken: AtomicU64,
    /// Whether the worker's thread must stay out of sticky loops for a while, because it lost its
    /// CPU in the middle of one. The thread that holds the loop lock writes it. It is harmless if
    /// the worker sees the change late.
    is_excluded: AtomicBool,
    /// The time that the share's blocks took in a loop that is being timed, on all threads
    /// together. `done` orders it.
    cost_ns: AtomicU64,
}

#[derive(Debug)]
struct Up {
    /// Twice the epoch of the last loop that the worker's thread has finished. If a caller sleeps
    /// until the worker leaves the loop that it is in, [`AWAITED`] is added. The `AcqRel` swap of
    /// `leave` synchronizes with the caller's `Acquire` load, so that the caller sees everything
    /// that the worker wrote in the loop.
    done: AtomicU64,
}

const AWAITED: u64 = 1;

/// The number of groups that report in one cache line that all their shares are claimed.
pub(super) const GROUPS_PER_LINE: usize = 8;

impl Share {
    pub(crate) fn new() -> Self {
        Self {
            claims: CachePadded::new(Claims {
                left: AtomicU64::new(0),
                entered: AtomicU64::new(0),
                seen: AtomicU64::new(0),
                taken: AtomicU64::new(0),
                is_excluded: AtomicBool::new(false),
                cost_ns: AtomicU64::new(0),
            }),
            up: CachePadded::new(Up {
                done: AtomicU64::new(0),
            }),
            group_out: CachePadded::new(AtomicU64::new(0)),
            groups_claimed: CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    /// Returns whether the worker's thread has not looked at this call yet, and records that it has
    /// now.
    pub(crate) fn is_news(&self, call: Call) -> bool {
        let news = self.is_unseen(call);
        if news {
            self.claims.seen.store(call.epoch(), Ordering::Relaxed);
        }
        news
    }

    /// Returns whether the worker's thread has not looked at this call yet.
    pub(crate) fn is_unseen(&self, call: Call) -> bool {
        self.claims.seen.load(Ordering::Relaxed) != call.epoch()
    }

    /// Records that nothing is left of any loop up to `epoch`. Only the thread that holds the loop
    /// lock may call this.
    pub(crate) fn close(&self, epoch: u64) {
        self.claims
            .left
            .store(Left::new(epoch, 0..0).0, Ordering::Release);
        self.claims.taken.store(epoch, Ordering::Relaxed);
    }

    /// Resets everything older than loop `epoch`, which is the last one and is over. Otherwise,
    /// when an old epoch is used again, a value could look as if it belonged to the new loop. Only
    /// the thread that holds the loop lock may call this.
    ///
    /// The worker's thread may be late in an old loop, where it finds nothing to do, and may write
    /// the epoch of that loop after this reset. The next reset corrects it.
    pub(crate) fn bring_up_to(&self, epoch: u64) {
        self.close(epoch);
        self.claims.seen.store(epoch, Ordering::Relaxed);
        // 0 is not the epoch of any loop.
        self.claims.entered.store(0, Ordering::Relaxed);
        self.up.done.store(0, Ordering::Relaxed);
        self.group_out.store(0, Ordering::Relaxed);
        for claimed in self.groups_claimed.iter() {
            claimed.store(0, Ordering::Relaxed);
        }
    }

    /// Provides `blocks` blocks that all threads can claim, before loop `epoch` is published.
    pub(crate) fn lay_out(&self, epoch: u64, blocks: u64) {
        self.claims
            .left
            .store(Left::new(epoch, 0..blocks).0, Ordering::Release);
    }

    /// Claims blocks for the owner, which takes about half of the remaining blocks from the front
    /// (see `bite`).
    pub(crate) fn claim_front(&self, epoch: u64, grain: Grain) -> Option<Range<u64>> {
        self.claim(|left| {
            let blocks = left.of_or_whole(epoch);
            let end = blocks.start + bite(&blocks, grain, 2);
            (blocks.start..end, Left::new(epoch, end..blocks.end))
        })
    }

    /// Claims blocks for a thief from the back. If the owner does not run, all other workers of the
    /// loop become thieves at about the same time, and no thread can take what another one has
    /// claimed. Therefore a thief takes only one part of the remaining blocks (see `bite`), of as
    /// many parts as the loop has workers. More parts than blocks make no difference. A thief takes
    /// nothing if less than a grain is left and the owner is in the loop.
    pub(crate) fn claim_back(
        &self,
        epoch: u64,
        grain: Grain,
        workers: usize,
    ) -> Option<Range<u64>> {
        let parts = workers.max(2) as u64;
        self.claim(|left| {
            let blocks = left.of_or_whole(epoch);
            let leave = left_len(&blocks) < grain.blocks() && self.is_in(epoch);
            let begin = match leave {
                true => blocks.end,
                false => blocks.end - bite(&blocks, grain, parts),
            };
            (begin..blocks.end, Left::new(epoch, blocks.start..begin))
        })
    }

    /// Claims one of the blocks that [`lay_out`](Self::lay_out) provided.
    pub(crate) fn claim_one(&self, epoch: u64) -> Option<Range<u64>> {
        self.claim(|left| {
            let blocks = left.of(epoch).unwrap_or(0..0);
            let end = blocks.end.min(blocks.start + 1);
            (blocks.start..end, Left::new(epoch, end..blocks.end))
        })
    }

    /// Returns whether the worker's thread must stay out of sticky loops.
    pub(crate) fn is_excluded(&self) -> bool {
        self.claims.is_excluded.load(Ordering::Relaxed)
    }

    /// Sets whether the worker's thread must stay out of sticky loops.
    pub(crate) fn exclusion(&self, out: bool) {
        self.claims.is_excluded.store(out, Ordering::Relaxed);
    }

    /// Returns whether all of loop `epoch` has been claimed.
    pub(crate) fn is_claimed(&self, epoch: u64) -> bool {
        let left = Left(self.claims.left.load(Ordering::Acquire));
        left.of_or_whole(epoch).is_empty()
    }

    /// Calls `choose` with the blocks that are left in the share. `choose` returns the blocks to
    /// claim and the blocks that are left after that. Returns `None` if there are no blocks to
    /// claim.
    fn claim(&self, choose: impl Fn(Left) -> (Range<u64>, Left)) -> Option<Range<u64>> {
        let mut now = self.claims.left.load(Ordering::Acquire);
        loop {
            let (claimed, rest) = choose(Left(now));
            if claimed.is_empty() {
                return None;
            }
            let swap = self.claims.left.compare_exchange_weak(
                now,
                rest.0,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match swap {
                Ok(_) => return Some(claimed),
                Err(other) => now = other,
            }
        }
    }

    /// Takes the worker's place in loop `epoch`. Returns false if another thread has already taken
    /// it.
    pub(crate) fn take_place(&self, epoch: u64) -> bool {
        let taken = &self.claims.taken;
        let take = |last| is_before(last, epoch).then_some(epoch);
        taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    /// Returns whether a thread has taken the worker's place in loop `epoch` by a swap. The loop's
    /// body then knows that thread by this worker's index.
    pub(crate) fn is_taken(&self, epoch: u64) -> bool {
        self.claims.taken.load(Ordering::Relaxed) == epoch
    }

    /// Returns whether the worker's thread has taken part in loop `epoch`. The answer is reliable
    /// if the worker has stopped being idle since.
    pub(crate) fn has_entered(&self, epoch: u64) -> bool {
        self.claims.entered.load(Ordering::Relaxed) == epoch
    }

    /// Records that the worker's thread takes part from here on. The thread calls this before its
    /// first claim.
    pub(crate) fn enter(&self, epoch: u64) {
        self.claims.entered.store(epoch, Ordering::Relaxed);
    }

    /// Records that the worker's thread is done with loop `epoch`. Returns whether a caller sleeps
    /// until then.
    pub(crate) fn leave(&self, epoch: u64) -> bool {
        let before = self.up.done.swap(epoch << 1, Ordering::AcqRel);
        before & AWAITED != 0
    }

    /// Returns whether the worker's thread took part in loop `epoch` and is out. If so, its share
    /// is completely claimed too.
    pub(crate) fn is_done(&self, epoch: u64) -> bool {
        self.up.done.load(Ordering::Acquire) >> 1 == epoch
    }

    /// Records that all workers of the group that begins with this worker are out of loop `epoch`.
    /// The `Release` store synchronizes with the load in [`group_out`](Self::group_out), whose
    /// caller then sees everything that this thread has seen of the workers.
    pub(crate) fn set_group_out(&self, epoch: u64) {
        self.group_out.store(epoch, Ordering::Release);
    }

    /// Returns the epoch of the last loop that all workers of the group have finished.
    pub(crate) fn group_out(&self) -> u64 {
        self.group_out.load(Ordering::Acquire)
    }

    /// Records that all shares of group `index` in this cache line are claimed in loop `epoch`.
    pub(crate) fn set_group_claimed(&self, index: usize, epoch: u64) {
        self.groups_claimed[index].store(epoch, Ordering::Release);
    }

    /// Returns whether all shares of group `index` in this cache line are known to be claimed in loop
    /// `epoch`.
    pub(crate) fn is_group_claimed(&self, index: usize, epoch: u64) -> bool {
        self.groups_claimed[index].load(Ordering::Acquire) == epoch
    }

    /// Prefetches the cache line that [`is_claimed`](Self::is_claimed) reads.
    pub(crate) fn prefetch_claims(&self) {
        prefetch(ptr::from_ref(&*self.claims).cast(), 1);
    }

    /// Prefetches the cache line that [`is_done`](Self::is_done) reads.
    pub(crate) fn prefetch_done(&self) {
        prefetch(ptr::from_ref(&*self.up).cast(), 1);
    }

    /// Prefetches the cache line that [`group_out`](Self::group_out) reads.
    pub(crate) fn prefetch_group_out(&self) {
        prefetch(ptr::from_ref(&*self.group_out).cast(), 1);
    }

    /// Prefetches the cache line that [`is_group_claimed`](Self::is_group_claimed) reads.
    pub(crate) fn prefetch_groups_claimed(&self) {
        prefetch(ptr::from_ref(&*self.groups_claimed).cast(), 1);
    }

    /// Returns whether the worker's thread is in loop `epoch`. The answer is reliable if the
    /// calling thread has seen a claim of that worker.
    pub(crate) fn is_in(&self, epoch: u64) -> bool {
        !self.is_done(epoch) && self.claims.entered.load(Ordering::Acquire) == epoch
    }

    /// Announces that the caller is about to sleep until the worker's thread leaves loop `epoch`,
    /// which it is in. Returns false if the thread has already left.
    pub(crate) fn await_leave(&self, epoch: u64) -> bool {
        let done = &self.up.done;
        let before = done.fetch_or(AWAITED, Ordering::AcqRel);
        let left = before >> 1 == epoch;
        if left {
            // The worker has already left, so this thread must reset the bit, because no other
            // thread would.
            done.store(epoch << 1, Ordering::Relaxed);
        }
        !left
    }

    /// Adds to the time that this share's blocks took.
    pub(crate) fn add_cost(&self, ns: u64) {
        self.claims.cost_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Returns the time that this share's blocks have taken since the last call.
    pub(crate) fn take_cost(&self) -> u64 {
        self.claims.cost_ns.swap(0, Ordering::Relaxed)
    }
}

fn left_len(blocks: &Range<u64>) -> u64 {
    blocks.end - blocks.start
}

/// Returns the number of blocks that are claimed at once. This is one of `parts` equal parts, but at
/// least a grain. If less than a grain would remain, it is all of them.
fn bite(blocks: &Range<u64>, grain: Grain, parts: u64) -> u64 {
    let (len, grain) = (left_len(blocks), grain.blocks());
    let part = len.div_ceil(parts).max(grain);
    if len < part + grain { len } else { part }
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;
    use crate::loops::protocol::call::BLOCKS;

    #[test]
    fn thieves_leave_enough_for_each_other() {
        for (workers, largest) in [(2, BLOCKS / 2), (8, BLOCKS / 8), (64, 1), (1023, 1)] {
            let share = Share::new();
            let mut claims = Vec::new();
            while let Some(blocks) = share.claim_back(1, Grain(0), workers) {
                claims.push(left_len(&blocks));
            }
            assert_eq!(claims.iter().sum::<u64>(), BLOCKS);
            // Workers that come together take equal parts. None may take more.
            assert_eq!(claims.iter().max(), Some(&largest));
        }
    }

    #[test]
    fn a_share_forgets_its_epoch_before_the_epoch_is_reused() {
        let share = Share::new();
        let call = Call::new(5, 2, 0, Grain(0));
        assert!(share.is_news(call));
        share.enter(5);
        assert!(share.is_in(5));
        share.leave(5);
        share.set_group_out(5);
        share.set_group_claimed(2, 5);
        assert!(share.is_done(5) && share.group_out() == 5 && share.is_group_claimed(2, 5));
        share.bring_up_to(900);
        assert!(!share.is_done(5) && !share.is_in(5));
        assert!(share.group_out() != 5 && !share.is_group_claimed(2, 5));
        assert!(share.is_unseen(call));
        assert!(!share.is_unseen(Call::new(900, 2, 0, Grain(0))));
        assert!(share.is_claimed(900) && !share.is_claimed(901));
    }
}
