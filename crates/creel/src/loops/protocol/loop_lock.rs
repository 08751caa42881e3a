//! What those who call loops remember from one to the next.

use super::{Protocol, call::next_epoch, call_sites::Sites, exclusion::Exclusion};

/// What belongs to who holds the loop slot.
#[derive(Default)]
pub(in crate::loops) struct LoopState {
    pub(in crate::loops) cache: LoopCache,
    pub(in crate::loops) sites: Sites,
    pub(in crate::loops) exclusion: Exclusion,
}

/// What the slot's holders remember about the workers.
#[derive(Default)]
pub(in crate::loops) struct LoopCache {
    /// The last loop's epoch.
    pub(in crate::loops) epoch: u64,
    /// Workers below this index were woken since `SLEEPERS` was last cleared.
    pub(in crate::loops) awake: usize,
    /// Workers below this index have a share that knows of epochs.
    pub(in crate::loops) touched: usize,
    /// The version of the workers' layout, once they were pinned for loops.
    pub(in crate::loops) pinned: Option<usize>,
    /// Where the last caller from outside ran.
    pub(in crate::loops) caller_pu: Option<usize>,
    /// Whether the workers have made way for it there.
    pub(in crate::loops) made_way: bool,
    /// When they last did.
    pub(in crate::loops) made_way_ns: u64,
}

/// So often all workers are brought up to date, long before what they remember of a loop looks like
/// one to come.
const TOUCH_EVERY: u64 = 1 << 30;

impl LoopCache {
    /// The epoch of a new loop, which every share of it knows to be newer than its last one.
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
