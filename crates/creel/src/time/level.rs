//! One level of the timer wheel: the lists of its slots, and which slots are in use.
//!
//! The links of a list are in the entries of the wheel. A level contains the heads of the lists and
//! a bitmap of the slots that have one. Because of the bitmap, it is cheap to find the next
//! deadline and to skip a long time without timers, for example an idle hour.

/// The binary logarithm of the number of slots in a level.
pub(super) const SLOT_BITS: u32 = 10;
pub(super) const SLOTS: usize = 1 << SLOT_BITS;
pub(super) const SLOT_MASK: u64 = SLOTS as u64 - 1;
const WORDS: usize = SLOTS / 64;
/// The index that means "no entry". An empty slot has this index as its head.
pub(super) const NONE: u32 = u32::MAX;

pub(super) struct Level {
    /// The heads of the slots. The list is empty until the wheel has an entry, because most workers
    /// have no timers.
    heads: Box<[u32]>,
    used: [u64; WORDS],
    len: usize,
}

impl Level {
    pub(super) fn new() -> Self {
        Level {
            heads: Box::default(),
            used: [0; WORDS],
            len: 0,
        }
    }

    /// Allocates the slots, if they are not allocated yet.
    pub(super) fn make(&mut self) {
        if self.heads.is_empty() {
            self.heads = vec![NONE; SLOTS].into();
        }
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the first entry of a slot's list.
    pub(super) fn head(&self, slot: usize) -> u32 {
        self.heads.get(slot).copied().unwrap_or(NONE)
    }

    /// Counts an entry that joins a slot, and makes it the head of the slot if the slot is empty.
    /// Returns the previous head.
    #[inline]
    pub(super) fn add(&mut self, slot: usize, index: u32) -> u32 {
        self.len += 1;
        let head = self.heads[slot];
        if head == NONE {
            self.heads[slot] = index;
            self.used[slot / 64] |= 1 << (slot % 64);
        }
        head
    }

    /// Replaces the head of a slot after the previous head has left. `head` is the next entry, or
    /// [`NONE`].
    pub(super) fn set_head(&mut self, slot: usize, head: u32) {
        self.heads[slot] = head;
        if head == NONE {
            self.used[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// Records that `count` entries have left this level.
    pub(super) fn forget(&mut self, count: usize) {
        self.len -= count;
    }

    /// Returns the number of steps from slot `from` to the next slot in use, including `from`
    /// itself.
    pub(super) fn distance(&self, from: usize) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let (word, bit) = (from / 64, from % 64);
        let here = self.used[word] >> bit;
        if here != 0 {
            return Some(u64::from(here.trailing_zeros()));
        }
        (1..=WORDS)
            .map(|step| (step, self.used[(word + step) % WORDS]))
            .find(|&(_, bits)| bits != 0)
            .map(|(step, bits)| (step * 64 - bit) as u64 + u64::from(bits.trailing_zeros()))
    }
}
