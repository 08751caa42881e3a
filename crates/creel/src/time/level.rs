//! One level of the timer wheel: the slots' lists, and which are in use.
//!
//! The links of a list lie in the wheel's entries; here are the heads, and a bitmap of the slots
//! that have one, which makes the search for the next deadline, and a jump over an idle hour,
//! cheap.

/// log2 of the slots of a level.
pub(super) const SLOT_BITS: u32 = 10;
pub(super) const SLOTS: usize = 1 << SLOT_BITS;
pub(super) const SLOT_MASK: u64 = SLOTS as u64 - 1;
const WORDS: usize = SLOTS / 64;
/// No entry: the head of an empty slot.
pub(super) const NONE: u32 = u32::MAX;

pub(super) struct Level {
    /// Empty until the wheel has an entry: most workers have no timers.
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

    /// Makes the slots, if they are not there yet.
    pub(super) fn make(&mut self) {
        if self.heads.is_empty() {
            self.heads = vec![NONE; SLOTS].into();
        }
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The first entry of a slot's list.
    pub(super) fn head(&self, slot: usize) -> u32 {
        self.heads.get(slot).copied().unwrap_or(NONE)
    }

    /// Counts an entry in, and makes it the head of an empty slot. The head there was before.
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

    /// The head has left; the next one, if any, is `head`.
    pub(super) fn set_head(&mut self, slot: usize, head: u32) {
        self.heads[slot] = head;
        if head == NONE {
            self.used[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// So many entries have left.
    pub(super) fn forget(&mut self, count: usize) {
        self.len -= count;
    }

    /// Steps from slot `from` to the next slot in use, `from` itself included.
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
