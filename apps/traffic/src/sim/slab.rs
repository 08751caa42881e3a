//! Storage for the elements of linked lists: cars, timers and holes. The places of removed elements
//! are reused. We use 32-bit places instead of pointers, because these references take most of the
//! memory.

use crate::network::Ms;
use serde::{Deserialize, Serialize};
use std::ops::{Index, IndexMut};

/// The value for "no place".
pub(super) const NONE: u32 = u32::MAX;

/// An element that is due at some time and is in one list at a time.
pub(super) trait Listed: Copy {
    fn at(&self) -> Ms;
    fn next(&self) -> u32;
    fn set_next(&mut self, next: u32);
}

/// Elements, addressed by their place.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Slab<T> {
    things: Vec<T>,
    free: u32,
}

impl<T: Copy> Clone for Slab<T> {
    fn clone(&self) -> Self {
        Self {
            things: self.things.clone(),
            free: self.free,
        }
    }

    fn clone_from(&mut self, from: &Self) {
        self.things.clone_from(&from.things);
        self.free = from.free;
    }
}

impl<T: Listed> Slab<T> {
    pub fn new() -> Self {
        Self {
            things: Vec::new(),
            free: NONE,
        }
    }

    #[inline]
    pub fn add(&mut self, thing: T) -> u32 {
        if self.free == NONE {
            if self.things.len() == self.things.capacity() {
                self.grow();
            }
            self.things.push(thing);
            return self.things.len() as u32 - 1;
        }
        let place = self.free;
        let slot = &mut self.things[place as usize];
        self.free = slot.next();
        *slot = thing;
        place
    }

    /// Reserves memory for more elements. It grows by a sixteenth (at least 32 elements) and not
    /// twofold like a `Vec`, because the slabs of cars, timers and holes take most of the memory of
    /// a simulation.
    #[cold]
    pub fn grow(&mut self) {
        self.things.reserve_exact((self.things.len() / 16).max(32));
    }

    #[inline]
    pub fn remove(&mut self, place: u32) {
        self.things[place as usize].set_next(self.free);
        self.free = place;
    }

    /// Returns whether one more element fits without allocating.
    pub fn has_free_place(&self) -> bool {
        self.free != NONE || self.things.len() < self.things.capacity()
    }

    /// Returns the number of places, used or not.
    pub fn places(&self) -> usize {
        self.things.len()
    }

    /// Appends an element to a ring and returns the new last element.
    #[inline]
    pub fn append(&mut self, last: u32, place: u32) -> u32 {
        let first = match last {
            NONE => place,
            last => {
                let first = self[last].next();
                self[last].set_next(place);
                first
            }
        };
        self[place].set_next(first);
        place
    }

    /// Unlinks the first element of a ring, and returns the new last element or [`NONE`]. The
    /// unlinked element stays in the slab.
    #[inline]
    pub fn unlink_first(&mut self, last: u32) -> u32 {
        let first = self[last].next();
        if first == last {
            return NONE;
        }
        let next = self[first].next();
        self[last].set_next(next);
        last
    }

    /// Unlinks any element of a ring, and returns the new last element or [`NONE`].
    pub fn unlink(&mut self, last: u32, place: u32) -> u32 {
        let mut before = last;
        while self[before].next() != place {
            before = self[before].next();
        }
        if before == place {
            return NONE;
        }
        let next = self[place].next();
        self[before].set_next(next);
        if last == place { before } else { last }
    }

    /// Returns the places of a ring, starting with the first.
    pub fn ring(&self, last: u32) -> impl Iterator<Item = u32> {
        let mut place = (last != NONE).then(|| self[last].next());
        std::iter::from_fn(move || {
            let here = place?;
            place = (here != last).then(|| self[here].next());
            Some(here)
        })
    }

    /// Returns the first unused place. Unused places form a list.
    pub fn first_free(&self) -> u32 {
        self.free
    }

    /// Reads one value from each cache line of the slab, which loads the whole slab into the cache.
    pub fn each_line(&self) -> impl Iterator<Item = Ms> {
        let step = 64 / size_of::<T>();
        self.things.iter().step_by(step).map(Listed::at)
    }

    pub fn bytes(&self) -> usize {
        self.things.capacity() * size_of::<T>()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, place: u32) -> &T {
        &self.things[place as usize]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.things[place as usize]
    }
}
