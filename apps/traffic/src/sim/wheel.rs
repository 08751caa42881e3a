//! The timing wheel of a tile: lists of pending elements, in slots of an eighth of a second.
//!
//! The lists are not sorted, so the caller that drains a slot sorts its elements. An element that
//! is due more than one revolution later is already in its slot. Draining the slot puts it back.

use super::slab::{Listed, NONE, Slab};
use crate::network::Ms;

/// The length of a slot. A tick has eight slots.
pub(super) const SLOT_MS: Ms = 125;
const SLOTS: usize = 512;

/// A timing wheel, which has one linked list of pending elements per slot.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Wheel {
    first: Vec<u32>,
    /// One bit per slot, set if the slot is not empty.
    taken: [u64; SLOTS / 64],
}

impl Clone for Wheel {
    fn clone(&self) -> Self {
        Self {
            first: self.first.clone(),
            taken: self.taken,
        }
    }

    fn clone_from(&mut self, from: &Self) {
        self.first.clone_from(&from.first);
        self.taken = from.taken;
    }
}

impl Wheel {
    pub fn new() -> Self {
        Self {
            first: vec![NONE; SLOTS],
            taken: [0; SLOTS / 64],
        }
    }

    /// Adds an element to the slot in which it is due.
    #[inline]
    pub fn push(&mut self, slab: &mut Slab<impl Listed>, place: u32) {
        let thing = &mut slab[place];
        let slot = Self::slot_of(thing.at());
        thing.set_next(self.first[slot]);
        self.first[slot] = place;
        self.taken[slot / 64] |= 1 << (slot % 64);
    }

    /// Returns the first non-empty slot from `from` on, or `until` if all slots before it are
    /// empty.
    #[inline]
    pub fn next(&self, from: Ms, until: Ms) -> Ms {
        let mut slot = from;
        while slot < until {
            let bits = self.taken[slot as usize % SLOTS / 64] >> (slot % 64);
            if bits != 0 {
                return until.min(slot + bits.trailing_zeros());
            }
            slot = (slot | 63) + 1;
        }
        until
    }

    /// Removes the elements that are due in a slot before `end`, and calls `due` for each. `end` is
    /// at most the end of the slot.
    #[inline]
    pub fn drain<T: Listed>(
        &mut self,
        slab: &mut Slab<T>,
        slot: Ms,
        end: Ms,
        mut due: impl FnMut(&mut Slab<T>, u32, T),
    ) {
        let index = slot as usize % SLOTS;
        if self.taken[index / 64] & 1 << (index % 64) == 0 {
            return;
        }
        let mut place = std::mem::replace(&mut self.first[index], NONE);
        self.taken[index / 64] &= !(1 << (index % 64));
        while place != NONE {
            let thing = slab[place];
            if thing.at() < end {
                due(slab, place, thing);
            } else {
                self.push(slab, place);
            }
            place = thing.next();
        }
    }

    /// Removes an element from the wheel before it is due.
    pub fn remove(&mut self, slab: &mut Slab<impl Listed>, place: u32) {
        let slot = Self::slot_of(slab[place].at());
        let next = slab[place].next();
        if self.first[slot] == place {
            self.first[slot] = next;
            if next == NONE {
                self.taken[slot / 64] &= !(1 << (slot % 64));
            }
            return;
        }
        let mut before = self.first[slot];
        while slab[before].next() != place {
            before = slab[before].next();
        }
        slab[before].set_next(next);
    }

    /// Calls `f` for each place in the wheel.
    pub fn each(&self, slab: &Slab<impl Listed>, mut f: impl FnMut(u32)) {
        for &first in &self.first {
            let mut place = first;
            while place != NONE {
                f(place);
                place = slab[place].next();
            }
        }
    }

    /// Returns the first place of each slot, or `None` if the wheel is inconsistent.
    pub fn firsts(&self) -> Option<&[u32]> {
        let noted = |slot: usize| self.taken[slot / 64] & 1 << (slot % 64) != 0;
        let fits = |(slot, &first): (usize, &u32)| noted(slot) == (first != NONE);
        let all = self.first.len() == SLOTS && self.first.iter().enumerate().all(fits);
        all.then_some(&self.first)
    }

    /// Returns the slot of a time.
    #[inline]
    pub fn slot_of(at: Ms) -> usize {
        (at / SLOT_MS) as usize % SLOTS
    }

    pub fn bytes(&self) -> usize {
        self.first.len() * 4
    }
}
