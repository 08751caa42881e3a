//! The storage of a link, which is the number of cars that fit on it. Holes (spaces of cars that
//! have left) arrive at its entry, and the cars that wait for the link use them.

use super::records::*;
use super::slab::{Listed, NONE};
use super::tile::Tile;
use crate::network::Ms;

impl Tile {
    /// Turns the holes that have arrived by `now` into free storage. Returns the number of records
    /// of holes that this has freed.
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

    /// Adds a hole that will arrive at an entry at time `at`. If we are processing a slot, `end` is
    /// the end of the slot.
    pub fn hole(&mut self, entry: u16, at: Ms, now: Ms, end: Option<Ms>) {
        self.absorb_holes(entry, now);
        self.append_hole(entry, at, now);
        if self.entries[usize::from(entry)].last_waiter != NONE16 {
            self.wake_when_due(entry, now, end);
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

    /// Before allocating memory for more holes, absorbs all holes of the tile that have arrived
    /// unnoticed. If this frees only a few records, we grow the slab as well, because it would soon
    /// be full again.
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

    /// Sets the headway of cars that enter a link. Holes on their way are stored again, because the
    /// encoding of their times depends on the headway.
    pub fn set_entry_headway(&mut self, entry: u16, headway_ms: Ms, now: Ms) {
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

    /// Sets a timer for the time at which a link will have storage for its waiters, if that time is
    /// known.
    pub fn wake_when_due(&mut self, entry: u16, now: Ms, end: Option<Ms>) {
        let record = &self.entries[usize::from(entry)];
        if record.wakes() {
            return;
        }
        let (free_storage, needed) = (record.free_storage, self.needed_by_waiters(entry));
        let record = &mut self.entries[usize::from(entry)];
        let storage_at = match record.holes {
            _ if free_storage >= needed => now,
            NONE => return,
            last => self.holes[self.holes[last].next()].at,
        };
        record.set_wakes(true);
        let at = record.next_in.max(storage_at).max(now);
        self.set_timer(super::events::WAKE, entry, at, end);
    }

    /// Returns the smallest number of free places with which one of the cars that wait for the link
    /// can enter it.
    #[inline]
    fn needed_by_waiters(&self, entry: u16) -> u16 {
        let record = &self.entries[usize::from(entry)];
        if record.down & RING == 0 {
            return 1;
        }
        let (mut waiter, mut needed) = (record.last_waiter, 2);
        loop {
            waiter = self.next_waiter(entry, waiter);
            needed = needed.min(self.needed_places(waiter, entry));
            if waiter == record.last_waiter {
                return needed;
            }
        }
    }

    /// Appends `waiter` to the cars that wait for storage on a link, and sets its tag.
    pub fn push_waiter(&mut self, entry: u16, waiter: u16) {
        self.set_tag(entry, waiter);
        let last = std::mem::replace(&mut self.entries[usize::from(entry)].last_waiter, waiter);
        let first = match last {
            NONE16 => waiter,
            last => std::mem::replace(self.next_waiter_mut(entry, last), waiter),
        };
        *self.next_waiter_mut(entry, waiter) = first;
    }

    fn next_waiter_mut(&mut self, entry: u16, waiter: u16) -> &mut u16 {
        match waiter {
            ENTRY_QUEUE => {
                let index = self
                    .entry_queue(entry)
                    .expect("a waiting entry queue contains cars");
                &mut self.entry_queues[index].next_waiter
            }
            exit => &mut self.exits[usize::from(exit)].next_waiter,
        }
    }

    /// Returns the waiter for a link that follows `waiter`, in a ring.
    pub fn next_waiter(&self, entry: u16, waiter: u16) -> u16 {
        match waiter {
            ENTRY_QUEUE => {
                let index = self
                    .entry_queue(entry)
                    .expect("a waiting entry queue contains cars");
                self.entry_queues[index].next_waiter
            }
            exit => self.exits[usize::from(exit)].next_waiter,
        }
    }

    /// Returns the index of a link's entry queue, or the index at which it would be inserted.
    pub fn entry_queue(&self, entry: u16) -> Result<usize, usize> {
        self.entry_queues
            .binary_search_by_key(&entry, |entry_queue| entry_queue.entry)
    }

    /// Removes the waiter for a link that [`choose_waiter`](Self::choose_waiter) has chosen.
    pub fn pop_waiter(&mut self, entry: u16, (before, waiter): (u16, u16)) {
        self.unlink_waiter(entry, before, waiter);
    }

    /// Removes `waiter` from the ring of those that wait for a link. It must follow `before` in the
    /// ring.
    fn unlink_waiter(&mut self, entry: u16, before: u16, waiter: u16) {
        let last = self.entries[usize::from(entry)].last_waiter;
        if before == waiter {
            self.entries[usize::from(entry)].last_waiter = NONE16;
        } else {
            *self.next_waiter_mut(entry, before) = self.next_waiter(entry, waiter);
            if last == waiter {
                self.entries[usize::from(entry)].last_waiter = before;
            }
        }
    }

    /// Removes `waiter` from the ring of those that wait for a link, wherever it is in the ring.
    pub fn remove_waiter(&mut self, entry: u16, waiter: u16) {
        let mut before = self.entries[usize::from(entry)].last_waiter;
        while self.next_waiter(entry, before) != waiter {
            before = self.next_waiter(entry, before);
        }
        self.unlink_waiter(entry, before, waiter);
    }
}
