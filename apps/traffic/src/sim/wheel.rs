//! What is due when, in one tile: lists by the eighth of a second.
//!
//! Lists are not in order; whoever drains a slot sorts what was in it. What is due after the wheel
//! has gone round lies in the slot where it will be, and is put back until then.

use super::slab::{Listed, NONE, Slab};
use crate::network::Ms;

/// A slot's length. Eight are a tick.
pub(super) const SLOT_MS: Ms = 125;
const SLOTS: usize = 512;

/// The lists by slot.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Wheel {
    first: Vec<u32>,
    /// A bit a slot that is not empty.
    taken: [u64; SLOTS / 64],
}

impl Wheel {
    pub fn new() -> Self {
        Self {
            first: vec![NONE; SLOTS],
            taken: [0; SLOTS / 64],
        }
    }

    /// Puts a thing where it is due.
    #[inline]
    pub fn push(&mut self, slab: &mut Slab<impl Listed>, place: u32) {
        let thing = &mut slab[place];
        let slot = Self::slot_of(thing.at());
        thing.set_next(self.first[slot]);
        self.first[slot] = place;
        self.taken[slot / 64] |= 1 << (slot % 64);
    }

    /// The first slot from `from` on, before `until`, with something in it; else `until`.
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

    /// Takes out what is due in a slot.
    #[inline]
    pub fn drain<T: Listed>(
        &mut self,
        slab: &mut Slab<T>,
        slot: Ms,
        mut due: impl FnMut(&mut Slab<T>, u32, T),
    ) {
        let index = slot as usize % SLOTS;
        if self.taken[index / 64] & 1 << (index % 64) == 0 {
            return;
        }
        let end = (slot + 1) * SLOT_MS;
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

    /// Calls `f` for each place.
    pub fn each(&self, slab: &Slab<impl Listed>, mut f: impl FnMut(u32)) {
        for &first in &self.first {
            let mut place = first;
            while place != NONE {
                f(place);
                place = slab[place].next();
            }
        }
    }

    /// The first of each slot, if it is one as [`push`](Self::push) leaves it.
    pub fn firsts(&self) -> Option<&[u32]> {
        let noted = |slot: usize| self.taken[slot / 64] & 1 << (slot % 64) != 0;
        let fits = |(slot, &first): (usize, &u32)| noted(slot) == (first != NONE);
        let all = self.first.len() == SLOTS && self.first.iter().enumerate().all(fits);
        all.then_some(&self.first)
    }

    /// The slot for what is due at a time.
    #[inline]
    pub fn slot_of(at: Ms) -> usize {
        (at / SLOT_MS) as usize % SLOTS
    }

    pub fn bytes(&self) -> usize {
        self.first.len() * 4
    }
}
