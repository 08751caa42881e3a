//! What is due when, in one tile: entries in lists by the eighth of a second, and a calendar of trips.
//!
//! An entry is a car on a road or a timer. It lies in one list at a time: of the wheel while it is
//! not due, then (a car) in the queue of its road. Lists are not in order; whoever drains a slot
//! sorts what was in it. What is due after the wheel has gone round lies in the slot where it will
//! be, and is put back until then.

use crate::network::Ms;

/// No entry.
pub(super) const NONE: u32 = u32::MAX;
/// A slot's length. Eight are a tick.
pub(super) const SLOT_MS: Ms = 125;
const SLOTS: usize = 512;

/// A car on a road, or a timer.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Entry {
    /// Which car; numbers from [`TIMER`] on are timers.
    pub car: u32,
    /// When it is at the end of the road; when the timer is due.
    pub at: Ms,
    /// The next in the list that this is in.
    pub next: u32,
    /// The rest of the word of the route that it is in.
    pub turns: u32,
    /// The road's head, or what the timer is for.
    pub of: u16,
    /// The place of that word in the plan.
    pub word: u16,
}

/// The lowest number that is no car's.
pub(super) const TIMER: u32 = 1 << 30;

/// Entries, by place; free ones are reused.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Slab {
    entries: Vec<Entry>,
    free: u32,
}

impl Slab {
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
        }
    }

    #[inline]
    pub fn add(&mut self, entry: Entry) -> u32 {
        if self.free == NONE {
            if self.entries.len() == self.entries.capacity() {
                // A quarter more at a time, not twice as many: most of the memory is here.
                self.entries.reserve_exact((self.entries.len() / 4).max(64));
            }
            self.entries.push(entry);
            return self.entries.len() as u32 - 1;
        }
        let place = self.free;
        let slot = &mut self.entries[place as usize];
        self.free = slot.next;
        *slot = entry;
        place
    }

    #[inline]
    pub fn remove(&mut self, place: u32) {
        self.entries[place as usize].next = self.free;
        self.free = place;
    }

    /// Something of each line of the cache that it takes.
    pub fn each_line(&self) -> impl Iterator<Item = Ms> {
        self.entries
            .iter()
            .step_by(64 / size_of::<Entry>())
            .map(|entry| entry.at)
    }

    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Entry;
    #[inline]
    fn index(&self, place: u32) -> &Entry {
        &self.entries[place as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut Entry {
        &mut self.entries[place as usize]
    }
}

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

    /// Puts an entry where it is due.
    #[inline]
    pub fn push(&mut self, slab: &mut Slab, place: u32) {
        let entry = &mut slab[place];
        let slot = (entry.at / SLOT_MS) as usize % SLOTS;
        entry.next = self.first[slot];
        self.first[slot] = place;
        self.taken[slot / 64] |= 1 << (slot % 64);
    }

    /// The first slot from `from` on, before `until`, with something in it.
    #[inline]
    pub fn next(&self, from: Ms, until: Ms) -> Option<Ms> {
        let mut slot = from;
        while slot < until {
            let bits = self.taken[slot as usize % SLOTS / 64] >> (slot % 64);
            if bits != 0 {
                let found = slot + bits.trailing_zeros();
                return (found < until).then_some(found);
            }
            slot = (slot | 63) + 1;
        }
        None
    }

    /// Takes out what is due in a slot.
    #[inline]
    pub fn drain(&mut self, slab: &mut Slab, slot: Ms, mut due: impl FnMut(u32, &Entry)) {
        let index = slot as usize % SLOTS;
        let end = (slot + 1) * SLOT_MS;
        let mut place = std::mem::replace(&mut self.first[index], NONE);
        self.taken[index / 64] &= !(1 << (index % 64));
        while place != NONE {
            let entry = slab[place];
            if entry.at < end {
                due(place, &entry);
            } else {
                self.push(slab, place);
            }
            place = entry.next;
        }
    }

    /// Calls `f` for each entry.
    pub fn each(&self, slab: &Slab, mut f: impl FnMut(u32)) {
        for &first in &self.first {
            let mut place = first;
            while place != NONE {
                f(place);
                place = slab[place].next;
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.first.len() * 4
    }
}
