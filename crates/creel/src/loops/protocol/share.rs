//! A worker's lines of the loop protocol: which blocks of its share are left, and whether its
//! thread is in the loop.
//!
//! The invariant: a block is claimed once, and who claims one as a worker has said that it is
//! *in* before. So a caller that finds every share claimed, and after that nobody in, knows that
//! all is done. (One that works in another's place is inside of an offer instead, which the caller
//! closes: `places.rs`.)

use super::call::{Call, Grain, Left, is_before};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use std::ops::Range;

/// One worker's part of the protocol: a line for its own thread, and one that goes up to the
/// caller. A caller that finds the second done does not touch the first, which so stays in its
/// worker's cache.
#[derive(Debug)]
pub(crate) struct Share {
    claims: CachePadded<Claims>,
    up: CachePadded<Up>,
    /// Of the first worker of a group: the last loop that all its workers are out of. Advice: an
    /// older loop's may come late.
    group_out: CachePadded<AtomicU64>,
}

#[derive(Debug)]
struct Claims {
    /// A [`Left`]. Changed by compare-and-swap, `AcqRel`: a claim releases the claimer's
    /// `entered`, and later claims carry it on to who finds the share empty.
    left: AtomicU64,
    /// The epoch of the last loop that the worker's thread took part in.
    entered: AtomicU64,
    /// The epoch of the last loop that the worker's thread has looked at.
    seen: AtomicU64,
    /// The epoch of the last loop in which the worker's place was taken by compare-and-swap: by another
    /// thread, or by the worker's own while it did not idle. Relaxed: the worker's own thread reads it
    /// without a swap when it idles, and became idle under the lock under which others took it
    /// (`places.rs`).
    taken: AtomicU64,
    /// Whether the worker's thread is to stay out of loops for a while: it lost its CPU in the
    /// middle of one. Written by who holds the loop slot; late news are harmless.
    sits_out: AtomicBool,
    /// What the share's blocks took in a loop that is being timed, whoever ran them. Ordered by
    /// `done`.
    cost_ns: AtomicU64,
}

#[derive(Debug)]
struct Up {
    /// Twice the epoch of the last loop that the worker's thread is out of, plus [`AWAITED`] if a
    /// caller sleeps until the next. Leaving releases what the worker wrote for the loop.
    done: AtomicU64,
}

const AWAITED: u64 = 1;

impl Share {
    pub(crate) fn new() -> Self {
        Self {
            claims: CachePadded::new(Claims {
                left: AtomicU64::new(0),
                entered: AtomicU64::new(0),
                seen: AtomicU64::new(0),
                taken: AtomicU64::new(0),
                sits_out: AtomicBool::new(false),
                cost_ns: AtomicU64::new(0),
            }),
            up: CachePadded::new(Up {
                done: AtomicU64::new(0),
            }),
            group_out: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Whether the worker's thread has not looked at this call yet; it has from now on.
    pub(crate) fn is_news(&self, call: Call) -> bool {
        let news = self.is_unseen(call);
        if news {
            self.claims.seen.store(call.epoch(), Ordering::Relaxed);
        }
        news
    }

    /// Whether the worker's thread has not looked at this call yet.
    pub(crate) fn is_unseen(&self, call: Call) -> bool {
        self.claims.seen.load(Ordering::Relaxed) != call.epoch()
    }

    /// Says that nothing is left of any loop up to `epoch`. Called by who holds the loop slot.
    pub(crate) fn close(&self, epoch: u64) {
        self.claims
            .left
            .store(Left::new(epoch, 0..0).0, Ordering::Release);
        self.claims.taken.store(epoch, Ordering::Relaxed);
    }

    /// Forgets what is older than loop `epoch`, the last one, which is over: by the time its epoch
    /// comes again, nothing may look as if it were of that loop. Called by who holds the loop slot.
    ///
    /// The worker's thread may be late in an old loop, in which it finds nothing, and write that
    /// one's epoch after this: it is brought up to date the next time.
    pub(crate) fn bring_up_to(&self, epoch: u64) {
        self.close(epoch);
        self.claims.seen.store(epoch, Ordering::Relaxed);
        // No loop's.
        self.claims.entered.store(0, Ordering::Relaxed);
        self.up.done.store(0, Ordering::Relaxed);
        self.group_out.store(0, Ordering::Relaxed);
    }

    /// Lays out `blocks` blocks for all to claim, before loop `epoch` is published.
    pub(crate) fn lay_out(&self, epoch: u64, blocks: u64) {
        self.claims
            .left
            .store(Left::new(epoch, 0..blocks).0, Ordering::Release);
    }

    /// The owner's claim: half of what is left, from the front, at least a grain.
    pub(crate) fn claim_front(&self, epoch: u64, grain: Grain) -> Option<Range<u64>> {
        self.claim(|left| {
            let blocks = left.of_or_whole(epoch);
            let end = blocks.start + bite(&blocks, grain);
            (blocks.start..end, Left::new(epoch, end..blocks.end))
        })
    }

    /// A thief's claim: half of what is left, from the back, but nothing when less than a grain
    /// is left to an owner who is at it.
    pub(crate) fn claim_back(&self, epoch: u64, grain: Grain) -> Option<Range<u64>> {
        self.claim(|left| {
            let blocks = left.of_or_whole(epoch);
            let leave = left_len(&blocks) < grain.blocks() && self.is_in(epoch);
            let begin = match leave {
                true => blocks.end,
                false => blocks.end - bite(&blocks, grain),
            };
            (begin..blocks.end, Left::new(epoch, blocks.start..begin))
        })
    }

    /// Claims one block that [`lay_out`](Self::lay_out) laid out.
    pub(crate) fn claim_one(&self, epoch: u64) -> Option<Range<u64>> {
        self.claim(|left| {
            let blocks = left.of(epoch).unwrap_or(0..0);
            let end = blocks.end.min(blocks.start + 1);
            (blocks.start..end, Left::new(epoch, end..blocks.end))
        })
    }

    /// Whether the worker's thread is to stay out.
    pub(crate) fn sits_out(&self) -> bool {
        self.claims.sits_out.load(Ordering::Relaxed)
    }

    /// Tells the worker's thread to stay out, or to come back.
    pub(crate) fn exclusion(&self, out: bool) {
        self.claims.sits_out.store(out, Ordering::Relaxed);
    }

    /// Whether all of loop `epoch` has been claimed.
    pub(crate) fn is_claimed(&self, epoch: u64) -> bool {
        let left = Left(self.claims.left.load(Ordering::Acquire));
        left.of_or_whole(epoch).is_empty()
    }

    /// `choose` gives what to claim and what is left then; claims nothing if that is empty.
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

    /// Takes the worker's place in loop `epoch`, unless somebody has.
    pub(crate) fn take_place(&self, epoch: u64) -> bool {
        let taken = &self.claims.taken;
        let take = |last| is_before(last, epoch).then_some(epoch);
        taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    /// Whether somebody has taken the worker's place in loop `epoch`, and so is the one that the
    /// loop's body may know by its index.
    pub(crate) fn is_taken(&self, epoch: u64) -> bool {
        self.claims.taken.load(Ordering::Relaxed) == epoch
    }

    /// Whether the worker's thread has taken part in loop `epoch`. Certain for one that has left
    /// idleness since.
    pub(crate) fn has_entered(&self, epoch: u64) -> bool {
        self.claims.entered.load(Ordering::Relaxed) == epoch
    }

    /// The worker's thread takes part from here on: before its first claim.
    pub(crate) fn enter(&self, epoch: u64) {
        self.claims.entered.store(epoch, Ordering::Relaxed);
    }

    /// The worker's thread is done with loop `epoch`. Says whether a caller sleeps until then.
    pub(crate) fn leave(&self, epoch: u64) -> bool {
        let before = self.up.done.swap(epoch << 1, Ordering::AcqRel);
        before & AWAITED != 0
    }

    /// Whether the worker's thread took part in loop `epoch` and is out: then its share is
    /// claimed, too.
    pub(crate) fn is_done(&self, epoch: u64) -> bool {
        self.up.done.load(Ordering::Acquire) >> 1 == epoch
    }

    /// All workers of the group that begins with this worker are out of loop `epoch`. Releases what
    /// the caller of this has seen of them.
    pub(crate) fn set_group_out(&self, epoch: u64) {
        self.group_out.store(epoch, Ordering::Release);
    }

    /// The last loop that all of the group are out of.
    pub(crate) fn group_out(&self) -> u64 {
        self.group_out.load(Ordering::Acquire)
    }

    /// Whether the worker's thread is in loop `epoch`. Certain for one whose claim was seen.
    pub(crate) fn is_in(&self, epoch: u64) -> bool {
        !self.is_done(epoch) && self.claims.entered.load(Ordering::Acquire) == epoch
    }

    /// The caller is about to sleep until the worker's thread, which is in loop `epoch`, is out. False:
    /// it has left meanwhile.
    pub(crate) fn await_leave(&self, epoch: u64) -> bool {
        let done = &self.up.done;
        let before = done.fetch_or(AWAITED, Ordering::AcqRel);
        let left = before >> 1 == epoch;
        if left {
            // Take the bit back, which nobody would.
            done.store(epoch << 1, Ordering::Relaxed);
        }
        !left
    }

    /// Adds to what this share's blocks took.
    pub(crate) fn add_cost(&self, ns: u64) {
        self.claims.cost_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// What this share's blocks took since it was last asked.
    pub(crate) fn take_cost(&self) -> u64 {
        self.claims.cost_ns.swap(0, Ordering::Relaxed)
    }
}

fn left_len(blocks: &Range<u64>) -> u64 {
    blocks.end - blocks.start
}

/// How many blocks are claimed at once: half, at least a grain, and no crumb is left.
fn bite(blocks: &Range<u64>, grain: Grain) -> u64 {
    let (len, grain) = (left_len(blocks), grain.blocks());
    let half = len.div_ceil(2).max(grain);
    if len < half + grain { len } else { half }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_forgets_its_epoch_before_the_epoch_is_reused() {
        let share = Share::new();
        let call = Call::new(5, 2, 0, Grain(0));
        assert!(share.is_news(call));
        share.enter(5);
        assert!(share.is_in(5));
        share.leave(5);
        share.set_group_out(5);
        assert!(share.is_done(5) && share.group_out() == 5);
        share.bring_up_to(900);
        assert!(!share.is_done(5) && !share.is_in(5) && share.group_out() != 5);
        assert!(share.is_unseen(call));
        assert!(!share.is_unseen(Call::new(900, 2, 0, Grain(0))));
        assert!(share.is_claimed(900) && !share.is_claimed(901));
    }
}
