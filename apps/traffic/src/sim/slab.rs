//! Things in lists, by place: cars, timers and holes. Places of those that are gone are reused.

use crate::network::Ms;
use serde::{Deserialize, Serialize};
use std::ops::{Index, IndexMut};

/// No place.
pub(super) const NONE: u32 = u32::MAX;

/// Something that is due at some time, and lies in one list at a time.
pub(super) trait Listed: Copy {
    fn at(&self) -> Ms;
    fn next(&self) -> u32;
    fn set_next(&mut self, next: u32);
}

/// Things by place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Slab<T> {
    things: Vec<T>,
    free: u32,
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

    /// Makes room for more: a sixteenth, not twice as many, for most of the memory is here.
    #[cold]
    pub fn grow(&mut self) {
        self.things.reserve_exact((self.things.len() / 16).max(32));
    }

    #[inline]
    pub fn remove(&mut self, place: u32) {
        self.things[place as usize].set_next(self.free);
        self.free = place;
    }

    /// Whether there is room for one more in the memory that it has.
    pub fn has_free_place(&self) -> bool {
        self.free != NONE || self.things.len() < self.things.capacity()
    }

    /// How many places it has, in use or not.
    pub fn places(&self) -> usize {
        self.things.len()
    }

    /// Puts a thing behind the last of a ring, and gives back who is the last now.
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

    /// Takes the first out of a ring, and gives back who is the last now, or [`NONE`]. The first is
    /// kept in the slab.
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

    /// The places of a ring, from its first.
    pub fn ring(&self, last: u32) -> impl Iterator<Item = u32> {
        let mut place = (last != NONE).then(|| self[last].next());
        std::iter::from_fn(move || {
            let here = place?;
            place = (here != last).then(|| self[here].next());
            Some(here)
        })
    }

    /// The first of the places that are not in use, in a list.
    pub fn first_free(&self) -> u32 {
        self.free
    }

    /// Something of each line of the cache that it takes.
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
