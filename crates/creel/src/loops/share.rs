//! A seat's lines of the loop protocol: which blocks of its share are left, and whether its
//! thread is in the loop.
//!
//! The invariant: a block is claimed once, and who claims one as a worker has said that it is
//! *in* before. So a caller that finds every share claimed, and after that nobody in, knows that
//! all is done.

use super::words::{Call, Grain, Left};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, WaitWord};
use std::ops::Range;

/// `progress` holds a phase, and above it the low bits of the epoch. Only equality is asked of
/// it, and a mix-up after 2^30 loops makes a caller wait for a worker that is about to leave.
const OUT: u32 = 0;
const IN: u32 = 1;
/// Set by a caller that sleeps until the worker leaves.
const AWAITED: u32 = 2;

/// One seat's part of the protocol.
#[derive(Debug)]
pub(crate) struct Share {
    /// A [`Left`]. Changed by compare-and-swap, `AcqRel`: a claim releases the claimer's *in*,
    /// and later claims carry it on to who finds the share empty.
    left: AtomicU64,
    /// Written by the seat's thread, and by a caller that adds `AWAITED`. Leaving releases what
    /// the worker wrote for the loop.
    progress: WaitWord,
    /// The seat of the awaiting caller plus one, 0 for a thread from outside. Ordered by
    /// `progress`.
    awaiter: AtomicUsize,
    /// The epoch of the last loop that the seat's thread has looked at; its own.
    seen: AtomicU64,
    /// Whether the seat's thread is to stay out of loops for a while: it lost its CPU in the
    /// middle of one. Written by who holds the loop slot; late news are harmless.
    benched: AtomicBool,
    /// What the share's blocks took in a loop that is being timed, whoever ran them. Ordered by
    /// `progress`.
    cost_ns: AtomicU64,
}

impl Share {
    pub(crate) fn new() -> Self {
        Self {
            left: AtomicU64::new(0),
            progress: WaitWord::new(OUT),
            awaiter: AtomicUsize::new(0),
            seen: AtomicU64::new(0),
            benched: AtomicBool::new(false),
            cost_ns: AtomicU64::new(0),
        }
    }

    /// Whether the seat's thread has not looked at this call yet; it has from now on.
    pub(crate) fn is_news(&self, call: Call) -> bool {
        let news = self.is_unseen(call);
        if news {
            self.seen.store(call.epoch(), Ordering::Relaxed);
        }
        news
    }

    /// Whether the seat's thread has not looked at this call yet.
    pub(crate) fn is_unseen(&self, call: Call) -> bool {
        self.seen.load(Ordering::Relaxed) != call.epoch()
    }

    /// Says that nothing is left of any loop up to `epoch`. Called by who holds the loop slot.
    pub(crate) fn close(&self, epoch: u64) {
        self.left.store(Left::new(epoch, 0..0).0, Ordering::Release);
    }

    /// Lays out `blocks` blocks for all to claim, before loop `epoch` is published.
    pub(crate) fn lay_out(&self, epoch: u64, blocks: u64) {
        self.left
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

    /// Whether the seat's thread is to stay out.
    pub(crate) fn is_benched(&self) -> bool {
        self.benched.load(Ordering::Relaxed)
    }

    /// Tells the seat's thread to stay out, or to come back.
    pub(crate) fn bench(&self, out: bool) {
        self.benched.store(out, Ordering::Relaxed);
    }

    /// Whether all of loop `epoch` has been claimed.
    pub(crate) fn is_claimed(&self, epoch: u64) -> bool {
        let left = Left(self.left.load(Ordering::Acquire));
        left.of_or_whole(epoch).is_empty()
    }

    /// `choose` gives what to claim and what is left then; claims nothing if that is empty.
    fn claim(&self, choose: impl Fn(Left) -> (Range<u64>, Left)) -> Option<Range<u64>> {
        let mut now = self.left.load(Ordering::Acquire);
        loop {
            let (claimed, rest) = choose(Left(now));
            if claimed.is_empty() {
                return None;
            }
            let swap =
                self.left
                    .compare_exchange_weak(now, rest.0, Ordering::AcqRel, Ordering::Acquire);
            match swap {
                Ok(_) => return Some(claimed),
                Err(other) => now = other,
            }
        }
    }

    /// The seat's thread takes part from here on: before its first claim.
    pub(crate) fn enter(&self, epoch: u64) {
        self.progress.store(phase(epoch, IN), Ordering::Relaxed);
    }

    /// The seat's thread is done with loop `epoch`. `notify` is told the seat of a caller that
    /// sleeps there.
    pub(crate) fn leave(&self, epoch: u64, notify: impl FnOnce(usize)) {
        let before = self.progress.swap(phase(epoch, OUT), Ordering::AcqRel);
        if before & AWAITED == 0 {
            return;
        }
        match self.awaiter.load(Ordering::Relaxed).checked_sub(1) {
            Some(seat) => notify(seat),
            None => self.progress.wake_one(),
        }
    }

    /// Whether the seat's thread is in loop `epoch`.
    pub(crate) fn is_in(&self, epoch: u64) -> bool {
        self.progress.load(Ordering::Acquire) & !AWAITED == phase(epoch, IN)
    }

    /// Asks to be told when the seat's thread leaves loop `epoch`. False: it has left.
    pub(crate) fn await_leave(&self, epoch: u64, seat: Option<usize>) -> bool {
        let (now, awaited) = (phase(epoch, IN), phase(epoch, IN | AWAITED));
        self.awaiter
            .store(seat.map_or(0, |seat| seat + 1), Ordering::Relaxed);
        let swap =
            self.progress
                .compare_exchange(now, awaited, Ordering::AcqRel, Ordering::Acquire);
        swap.is_ok() || swap == Err(awaited)
    }

    /// Sleeps until the seat's thread leaves, after [`await_leave`](Self::await_leave). May
    /// return early.
    pub(crate) fn sleep_until_left(&self, epoch: u64) {
        self.progress.wait(phase(epoch, IN | AWAITED), None);
    }

    /// Adds to what this share's blocks took.
    pub(crate) fn add_cost(&self, ns: u64) {
        self.cost_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// What this share's blocks took since it was last asked.
    pub(crate) fn take_cost(&self) -> u64 {
        self.cost_ns.swap(0, Ordering::Relaxed)
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

fn phase(epoch: u64, phase: u32) -> u32 {
    (epoch as u32) << 2 | phase
}
