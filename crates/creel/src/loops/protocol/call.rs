//! The two words of the loop protocol, as values. The first word says which loop is published, and
//! the second word says which blocks of a share are left.
//!
//! Each loop has an **epoch**, which is one more than that of the previous loop. After the highest
//! epoch comes 1 again, because 0 is not the epoch of any loop. A share (the part of a loop that
//! belongs to one worker) is cut into [`BLOCKS`] blocks, whatever its number of items. A worker can
//! therefore claim blocks without reading anything that belongs to the caller.

use std::ops::Range;

/// The number of blocks that each share is cut into.
pub(crate) const BLOCKS: u64 = 1 << BLOCKS_LOG2;
pub(crate) const BLOCKS_LOG2: u32 = 6;
/// The maximum number of workers that take part in one loop.
pub(crate) const WORKERS_MAX: usize = (1 << WORKER_BITS) - 1;

const WORKER_BITS: u32 = 10;
const EPOCH_BITS: u32 = 38;
pub(in crate::loops) const EPOCH_MASK: u64 = (1 << EPOCH_BITS) - 1;

/// Returns the epoch after `epoch`.
pub(in crate::loops) fn next_epoch(epoch: u64) -> u64 {
    if epoch == EPOCH_MASK { 1 } else { epoch + 1 }
}

/// Returns whether loop `epoch` came before loop `other`. They must be fewer than 2³⁷ loops apart,
/// because epochs wrap around.
pub(in crate::loops) fn is_before(epoch: u64, other: u64) -> bool {
    epoch.wrapping_sub(other) & EPOCH_MASK > EPOCH_MASK / 2
}

/// A call, which is the one word that publishes a loop.
///
/// | bits | field | |
/// |---|---|---|
/// | 0 | `SLEEPERS` | set by a worker that is about to sleep; the next publication reads and clears it in one swap |
/// | 1 | `WAKE` | each worker that sees the call wakes its children in the tree |
/// | 2–4 | grain | log2 of the smallest number of blocks claimed at once; [`Grain::QUEUE`] means one queue for all |
/// | 5–14 | workers | the workers below this number take part |
/// | 15–24 | caller | the worker whose share the calling thread takes |
/// | 25 | `OPTIONAL` | the caller may run all units alone, so excluded workers stay out |
/// | 26–63 | epoch | |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Call(pub(crate) u64);

/// The granularity of claims, as log2 of the smallest number of blocks that is claimed at once. For
/// example, 4 means that a thread claims at least 16 blocks if that many are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grain(pub(crate) u32);

impl Grain {
    /// A share is claimed as a whole, so one thread runs all of it.
    pub(crate) const WHOLE: Grain = Grain(BLOCKS_LOG2);
    /// All blocks are in the caller's share, and each thread claims one block at a time from its
    /// front.
    pub(crate) const QUEUE: Grain = Grain(7);

    /// Returns the smallest number of blocks that is claimed at once.
    pub(crate) fn blocks(self) -> u64 {
        1 << self.0
    }
}

impl Call {
    pub(crate) const SLEEPERS: u64 = 1;
    const WAKE: u64 = 2;
    const OPTIONAL: u64 = 1 << 25;

    pub(crate) fn new(epoch: u64, workers: usize, caller: usize, grain: Grain) -> Self {
        debug_assert!(workers <= WORKERS_MAX && caller < workers && epoch != 0);
        let fields = u64::from(grain.0) << 2 | (workers as u64) << 5 | (caller as u64) << 15;
        Self(fields | (epoch & EPOCH_MASK) << 26)
    }

    /// Returns the same call with the flag `WAKE`, which makes the loop's workers wake other
    /// workers.
    pub(crate) fn waking(self) -> Self {
        Self(self.0 | Self::WAKE)
    }

    /// Returns the same call with the flag `OPTIONAL`, which keeps excluded workers out of the
    /// loop. In a loop without this flag, the units may wait for each other, so each worker has to
    /// take its share.
    pub(crate) fn optional(self) -> Self {
        Self(self.0 | Self::OPTIONAL)
    }

    pub(crate) fn epoch(self) -> u64 {
        self.0 >> 26
    }

    pub(crate) fn workers(self) -> usize {
        (self.0 >> 5) as usize & WORKERS_MAX
    }

    pub(crate) fn caller(self) -> usize {
        (self.0 >> 15) as usize & WORKERS_MAX
    }

    pub(crate) fn grain(self) -> Grain {
        Grain((self.0 >> 2) as u32 & 7)
    }

    pub(crate) fn wakes(self) -> bool {
        self.0 & Self::WAKE != 0
    }

    pub(crate) fn is_optional(self) -> bool {
        self.0 & Self::OPTIONAL != 0
    }

    pub(crate) fn has_sleepers(self) -> bool {
        self.0 & Self::SLEEPERS != 0
    }
}

/// The blocks of a share that no thread has claimed, as a range, and the epoch of their loop.
///
/// | bits | field |
/// |---|---|
/// | 0–11 | end |
/// | 12–23 | begin |
/// | 25–62 | epoch |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left(pub(crate) u64);

impl Left {
    /// The maximum number of blocks in a share, which [`Grain::QUEUE`] may use.
    pub(crate) const BLOCKS_MAX: u64 = (1 << 12) - 1;

    pub(crate) fn new(epoch: u64, blocks: Range<u64>) -> Self {
        debug_assert!(blocks.start <= blocks.end && blocks.end <= Self::BLOCKS_MAX);
        Self((epoch & EPOCH_MASK) << 25 | blocks.start << 12 | blocks.end)
    }

    /// Returns the blocks of loop `epoch` that are left, if the last claim in this share was made
    /// in that loop.
    pub(crate) fn of(self, epoch: u64) -> Option<Range<u64>> {
        let blocks = self.0 >> 12 & Self::BLOCKS_MAX..self.0 & Self::BLOCKS_MAX;
        (self.0 >> 25 == epoch & EPOCH_MASK).then_some(blocks)
    }

    /// Returns the blocks of loop `epoch` that are left. A share that was last touched in an
    /// earlier loop is still whole. If the share has been touched in a later loop, no block is
    /// left.
    pub(crate) fn of_or_whole(self, epoch: u64) -> Range<u64> {
        match self.of(epoch) {
            Some(blocks) => blocks,
            None if is_before(self.0 >> 25, epoch) => 0..BLOCKS,
            None => 0..0,
        }
    }
}

/// Returns the units in the blocks `blocks` of a share.
pub(crate) fn units_of(blocks: Range<u64>, share: Range<usize>) -> Range<usize> {
    let at = |block: u64| {
        let part = (share.len() as u128 * u128::from(block)) >> BLOCKS_LOG2;
        share.start + part as usize
    };
    at(blocks.start)..at(blocks.end)
}

/// Units (for example items or chunks) that are cut into parts whose lengths differ by at most one.
/// The longer parts come first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Even {
    /// The length of a part in units, without the extra unit of the first parts.
    pub(crate) base: usize,
    /// The number of parts that have one extra unit.
    pub(crate) extra: usize,
}

impl Even {
    pub(crate) fn new(units: usize, parts: usize) -> Self {
        Self {
            base: units / parts,
            extra: units % parts,
        }
    }

    /// Returns the index at which a part begins.
    pub(crate) fn at(self, part: usize) -> usize {
        self.base * part + part.min(self.extra)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_packed_into_a_word_returns_all_its_fields() {
        let call = Call::new(77, WORKERS_MAX, 1022, Grain(3));
        assert_eq!(
            (call.epoch(), call.workers(), call.caller()),
            (77, WORKERS_MAX, 1022)
        );
        assert_eq!(
            (call.grain(), call.wakes(), call.has_sleepers()),
            (Grain(3), false, false)
        );
        assert!(!call.is_optional());
        let woken = Call(call.waking().optional().0 | Call::SLEEPERS);
        assert!(woken.wakes() && woken.has_sleepers() && woken.is_optional());
        assert_eq!((woken.epoch(), woken.grain()), (77, Grain(3)));
    }

    #[test]
    fn a_share_is_whole_in_the_next_loop_and_empty_for_late_workers() {
        let left = Left::new(5, 3..9);
        assert_eq!(left.of(5), Some(3..9));
        assert_eq!(left.of(6), None);
        assert_eq!(left.of_or_whole(5), 3..9);
        assert_eq!(left.of_or_whole(6), 0..BLOCKS);
        assert!(left.of_or_whole(4).is_empty(), "a latecomer finds nothing");
        let last = Left::new(EPOCH_MASK, 0..0);
        let next = next_epoch(EPOCH_MASK);
        assert_eq!(last.of_or_whole(next), 0..BLOCKS, "epochs wrap");
        assert!(Left::new(next, 0..0).of_or_whole(EPOCH_MASK).is_empty());
    }

    #[test]
    fn blocks_cover_all_units_once() {
        for units in [0, 1, 2, 63, 64, 65, 1000, usize::MAX / 2] {
            let mut end = 10;
            for block in 0..BLOCKS {
                let part = units_of(block..block + 1, 10..10 + units);
                assert_eq!(part.start, end);
                end = part.end;
            }
            assert_eq!(end, 10 + units);
            assert_eq!(Even::new(units, 7).at(0), 0);
            assert_eq!(Even::new(units, 7).at(7), units);
        }
    }
}
