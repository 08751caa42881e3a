//! Room on a road: the holes that come to its begin, and who waits there for them.

use super::records::*;
use super::slab::{Listed, NONE};
use super::tile::Tile;
use crate::network::Ms;

impl Tile {
    /// Counts the holes as room that are here at `now`, and gives how many records that freed.
    #[inline]
    pub fn absorb_holes(&mut self, entry: u16, now: Ms) -> usize {
        let entry = &mut self.entries[usize::from(entry)];
        let mut freed = 0;
        while entry.holes != NONE {
            let first = self.holes[entry.holes].next();
            let holes = &mut self.holes[first];
            if holes.at > now {
                break;
            }
            let all = holes.count();
            let here = holes.take(now, entry.headway_ms);
            entry.free_storage += here as u16;
            if here < all {
                break;
            }
            entry.holes = self.holes.unlink_first(entry.holes);
            self.holes.remove(first);
            freed += 1;
        }
        freed
    }

    /// A hole is on its way to an entry. `slot` is the one at work, if one is.
    pub fn hole(&mut self, entry: u16, at: Ms, now: Ms, slot: Option<Ms>) {
        self.absorb_holes(entry, now);
        self.append_hole(entry, at, now);
        if self.entries[usize::from(entry)].last_waiter != NONE16 {
            self.wake_when_due(entry, now, slot);
        }
    }

    fn append_hole(&mut self, entry: u16, at: Ms, now: Ms) {
        let record = &self.entries[usize::from(entry)];
        let (last, headway_ms) = (record.holes, record.headway_ms);
        if last != NONE && self.holes[last].extend(at, headway_ms) {
            return;
        }
        if !self.holes.has_free_place() {
            self.absorb_all_holes(now);
        }
        let place = self.holes.add(Holes::new(at));
        let record = &mut self.entries[usize::from(entry)];
        record.holes = self.holes.append(record.holes, place);
    }

    /// Before there is memory for more holes: counts those as room, all over the tile, that nobody has
    /// asked for since they came. If that is but a few, there will soon be need of more all the same.
    #[cold]
    fn absorb_all_holes(&mut self, now: Ms) {
        let mut freed = 0;
        for entry in 0..self.entries.len() {
            let last = self.entries[entry].holes;
            if last != NONE && self.holes[self.holes[last].next()].at <= now {
                freed += self.absorb_holes(entry as u16, now);
            }
        }
        if freed < self.holes.places() / 5 {
            self.holes.grow();
        }
    }

    /// Sets how far apart cars enter a road.
    pub fn set_entry_headway(&mut self, entry: u16, headway_ms: u16, now: Ms) {
        self.absorb_holes(entry, now);
        let record = &mut self.entries[usize::from(entry)];
        let before = std::mem::replace(&mut record.headway_ms, headway_ms);
        let last = std::mem::replace(&mut record.holes, NONE);
        let places: Vec<u32> = self.holes.ring(last).collect();
        let times: Vec<Ms> = places
            .iter()
            .flat_map(|&place| self.holes[place].times(before))
            .collect();
        places
            .into_iter()
            .for_each(|place| self.holes.remove(place));
        times
            .into_iter()
            .for_each(|at| self.append_hole(entry, at, now));
    }

    /// Sets a timer for when there will be room on a road that some wait for, if that is known.
    pub fn wake_when_due(&mut self, entry: u16, now: Ms, slot: Option<Ms>) {
        let record = &mut self.entries[usize::from(entry)];
        if record.wakes() {
            return;
        }
        let storage_at = match record.holes {
            _ if record.free_storage > 0 => now,
            NONE => return,
            last => self.holes[self.holes[last].next()].at,
        };
        record.set_wakes(true);
        let at = record.next_in.max(storage_at).max(now);
        self.set_timer(super::events::WAKE, entry, at, slot);
    }

    /// Puts `who` behind those that wait for a road.
    pub fn push_waiter(&mut self, entry: u16, who: u16) {
        let last = std::mem::replace(&mut self.entries[usize::from(entry)].last_waiter, who);
        let first = match last {
            NONE16 => who,
            last => std::mem::replace(self.next_waiter_mut(entry, last), who),
        };
        *self.next_waiter_mut(entry, who) = first;
    }

    fn next_waiter_mut(&mut self, entry: u16, who: u16) -> &mut u16 {
        match who {
            ENTRY_QUEUE => {
                let index = self.entry_queue(entry).expect("cars wait beside the road");
                &mut self.entry_queues[index].next_waiter
            }
            exit => &mut self.exits[usize::from(exit)].next_waiter,
        }
    }

    /// Who waits for a road after `who`, in a ring.
    pub fn next_waiter(&self, entry: u16, who: u16) -> u16 {
        match who {
            ENTRY_QUEUE => {
                let index = self.entry_queue(entry).expect("cars wait beside the road");
                self.entry_queues[index].next_waiter
            }
            exit => self.exits[usize::from(exit)].next_waiter,
        }
    }

    /// The place of the cars beside a road, or where it would be.
    pub fn entry_queue(&self, entry: u16) -> Result<usize, usize> {
        self.entry_queues
            .binary_search_by_key(&entry, |entry_queue| entry_queue.entry)
    }

    /// Takes the first of those that wait for a road.
    pub fn pop_waiter(&mut self, entry: u16) -> u16 {
        let last = self.entries[usize::from(entry)].last_waiter;
        let first = self.next_waiter(entry, last);
        self.unlink_waiter(entry, last, first);
        first
    }

    /// Takes out `who`, who stands behind `before`.
    fn unlink_waiter(&mut self, entry: u16, before: u16, who: u16) {
        let last = self.entries[usize::from(entry)].last_waiter;
        if before == who {
            self.entries[usize::from(entry)].last_waiter = NONE16;
        } else {
            *self.next_waiter_mut(entry, before) = self.next_waiter(entry, who);
            if last == who {
                self.entries[usize::from(entry)].last_waiter = before;
            }
        }
    }

    /// Takes out `who`, wherever it stands.
    pub fn remove_waiter(&mut self, entry: u16, who: u16) {
        let mut before = self.entries[usize::from(entry)].last_waiter;
        while self.next_waiter(entry, before) != who {
            before = self.next_waiter(entry, before);
        }
        self.unlink_waiter(entry, before, who);
    }
}
