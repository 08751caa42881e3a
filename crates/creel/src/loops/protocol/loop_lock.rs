//! The data under the loop lock, which the callers of loops keep from one loop to the next. For
//! example, we remember the last epoch, and which workers have been woken.

use super::{Protocol, call::next_epoch, call_sites::Sites, exclusion::Exclusion};

/// The data that belongs to the thread that holds the loop lock.
#[derive(Default)]
pub(in crate::loops) struct LoopState {
    pub(in crate::loops) cache: LoopCache,
    pub(in crate::loops) sites: Sites,
    pub(in crate::loops) exclusion: Exclusion,
}

/// The loop cache, in which callers remember facts about the workers.
#[derive(Default)]
pub(in crate::loops) struct LoopCache {
    /// The epoch of the last loop.
    pub(in crate::loops) epoch: u64,
    /// The workers below this index have been woken since `SLEEPERS` was last cleared.
    pub(in crate::loops) awake: usize,
    /// The workers below this index have a share with a valid epoch.
    pub(in crate::loops) touched: usize,
    /// The version of the workers' layout that the last loop found. It is `None` before the first
    /// loop.
    pub(in crate::loops) pinned: Option<usize>,
    /// The processing unit on which the last caller from outside ran.
    pub(in crate::loops) caller_pu: Option<usize>,
    /// Whether the workers have moved away from that processing unit.
    pub(in crate::loops) made_way: bool,
    /// The time at which the workers last moved away from that processing unit.
    pub(in crate::loops) made_way_ns: u64,
}

/// The number of loops after which all shares are reset. The reset happens long before an old epoch
/// could be mistaken for the epoch of a later loop.
const TOUCH_EVERY: u64 = 1 << 30;

impl LoopCache {
    /// Returns the epoch of a new loop. In every share of that loop, the last epoch is an older
    /// one.
    pub(in crate::loops) fn next_epoch(&mut self, loops: &Protocol, slots: usize) -> u64 {
        let before = self.epoch;
        self.epoch = next_epoch(before);
        if self.epoch.is_multiple_of(TOUCH_EVERY) {
            let made = loops.shares.made();
            made.for_each(|share| share.bring_up_to(before));
        }
        for slot in self.touched..slots {
            loops.shares.at(slot).close(before);
            self.touched = slot + 1;
        }
        self.epoch
    }
}
