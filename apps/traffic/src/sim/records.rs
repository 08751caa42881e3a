//! The records of a tile: 28 + 24 bytes a road, 16 a junction.
//!
//! A road has two ends, which may lie in two tiles. The junction where it begins has its *entry*:
//! how much room there is, and who waits for it. The one where it ends has its *exit*: the cars that
//! wait there. The two meet by messages only, which take as long as a car or a hole through it.

use super::slab::{Listed, NONE};
use crate::network::Ms;
use serde::{Deserialize, Serialize};

/// None, where numbers have 16 bits.
pub(super) const NONE16: u16 = u16::MAX;
/// Among those that wait for room: the cars beside the road.
pub(super) const ENTRY_QUEUE: u16 = u16::MAX - 1;
/// In `up` and `down`: the other end is in another tile, and this a place in the tile's `cuts`.
pub(super) const CUT: u32 = 1 << 31;

/// The end of a road, in the tile of the junction where it ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct LinkExit {
    /// The last of the cars that wait, in a ring; its next is the first.
    pub last: u32,
    /// When the flow lets the next car go.
    pub free_at: Ms,
    /// The road's entry.
    pub up: u32,
    /// Since when the first car is the first.
    pub since: Ms,
    pub hole_ms: Ms,
    /// The next of those that wait for the same road, in a ring.
    pub next_waiter: u16,
    pub junction: u16,
    pub headway_ms: u16,
    pub approach: u8,
    pub flags: u8,
}

impl LinkExit {
    /// It waits for room on a road.
    pub const BLOCKED: u8 = 1;
    /// A timer is set for when it may try again.
    pub const RETRY_TIMER: u8 = 2;
    /// A timer is set for when it has waited too long.
    pub const STUCK_TIMER: u8 = 4;
}

/// The begin of a road, in the tile of the junction where it begins.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct LinkEntry {
    /// The road's exit.
    pub down: u32,
    /// The free-flow time, below 2³¹; above it, whether a timer is set for when there may be room.
    free_flow: u32,
    /// The last of the holes that are on their way here, in a ring; its next is the first.
    pub holes: u32,
    /// When the flow lets the next car in.
    pub next_in: Ms,
    /// How many cars there is room for, holes on their way not counted.
    pub free_storage: u16,
    pub headway_ms: u16,
    /// The last of the exits that wait for room, in a ring.
    pub last_waiter: u16,
}

impl LinkEntry {
    const WAKES: u32 = 1 << 31;

    /// An empty road's.
    pub fn new(down: u32, flow: &crate::network::Flow) -> Self {
        Self {
            down,
            free_flow: flow.free_flow_ms,
            holes: NONE,
            next_in: 0,
            free_storage: flow.storage,
            headway_ms: flow.headway_ms,
            last_waiter: NONE16,
        }
    }

    #[inline]
    pub fn free_flow_ms(&self) -> Ms {
        self.free_flow & !Self::WAKES
    }

    /// Whether a timer is set for when there may be room.
    #[inline]
    pub fn wakes(&self) -> bool {
        self.free_flow & Self::WAKES != 0
    }

    #[inline]
    pub fn set_wakes(&mut self, wakes: bool) {
        self.free_flow = self.free_flow_ms() | if wakes { Self::WAKES } else { 0 };
    }
}

/// A junction. Its exits are those before the first of the next.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Node {
    /// Until when the last crossing keeps others off: stops, and roads that yield.
    pub busy_until: Ms,
    pub offset_ms: Ms,
    pub first_entry: u16,
    pub first_exit: u16,
    pub program: u16,
    pub turn_bits: u8,
    pub rule: Rule,
}

/// How cars cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Rule {
    Free,
    Stop,
    Priority,
    Signal,
}

/// Holes on their way to an entry, a headway of the road apart, as those are that a queue leaves.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Holes {
    /// When the first is there.
    pub at: Ms,
    /// The next in the list, and above [`Self::NEXT`] how many there are but for one.
    next: u32,
}

impl Holes {
    const NEXT: u32 = (1 << 26) - 1;
    const ONE: u32 = Self::NEXT + 1;
    const MOST: u32 = u32::MAX / Self::ONE + 1;
    /// A slab has fewer places.
    pub const PLACES_MAX: usize = Self::NEXT as usize;

    /// A single one.
    pub fn new(at: Ms) -> Self {
        Self {
            at,
            next: Self::NEXT,
        }
    }

    #[inline]
    pub fn count(&self) -> u32 {
        self.next / Self::ONE + 1
    }

    /// Adds one behind the others, if it is where the next would be.
    #[inline]
    pub fn extend(&mut self, at: Ms, headway_ms: u16) -> bool {
        let count = self.count();
        let fits = at == self.at + count * Ms::from(headway_ms) && count < Self::MOST;
        if fits {
            self.next += Self::ONE;
        }
        fits
    }

    /// Takes out those that are there at `now`, and gives how many these are. If it is all, they are
    /// left for the caller to remove.
    #[inline]
    pub fn take(&mut self, now: Ms, headway_ms: u16) -> u32 {
        let count = self.count();
        if count == 1 {
            return 1;
        }
        let here = ((now - self.at) / Ms::from(headway_ms) + 1).min(count);
        if here < count {
            self.at += here * Ms::from(headway_ms);
            self.next -= here * Self::ONE;
        }
        here
    }

    /// When each is there.
    pub fn times(self, headway_ms: u16) -> impl Iterator<Item = Ms> {
        (0..self.count()).map(move |index| self.at + index * Ms::from(headway_ms))
    }
}

impl Listed for Holes {
    #[inline]
    fn at(&self) -> Ms {
        self.at
    }

    #[inline]
    fn next(&self) -> u32 {
        match self.next & Self::NEXT {
            Self::NEXT => NONE,
            next => next,
        }
    }

    #[inline]
    fn set_next(&mut self, next: u32) {
        self.next = self.next & !Self::NEXT | next & Self::NEXT;
    }
}

/// A car that is on a road, or beside one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[repr(C, packed(2))]
pub(super) struct Car {
    /// When it is at the end of the road; since when it is beside it.
    pub at: Ms,
    /// The next in the list that this is in.
    pub next: u32,
    /// The rest of the word of its route that it is in.
    pub turns: u32,
    /// The place of that word, which also tells whose plan it is.
    pub place: u32,
    /// The road's exit.
    pub exit: u16,
}

impl Listed for Car {
    #[inline]
    fn at(&self) -> Ms {
        self.at
    }

    #[inline]
    fn next(&self) -> u32 {
        self.next
    }

    #[inline]
    fn set_next(&mut self, next: u32) {
        self.next = next;
    }
}

/// Something to look at, later. A tile has at most two for each exit and one for each entry, so that 16
/// bits tell them apart; a tile's size is bounded for that (network/tiles.rs).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Timer {
    pub at: Ms,
    next: u16,
    /// An exit or an entry, and above [`Self::OF`] the kind.
    kind_and_index: u16,
}

impl Timer {
    const OF: u16 = (1 << 14) - 1;

    pub fn new(at: Ms, kind: u16, of: u16) -> Self {
        debug_assert!(of <= Self::OF, "a tile has fewer roads");
        Self {
            at,
            next: NONE16,
            kind_and_index: kind << 14 | of,
        }
    }

    #[inline]
    pub fn kind(&self) -> u16 {
        self.kind_and_index >> 14
    }

    #[inline]
    pub fn of(&self) -> u16 {
        self.kind_and_index & Self::OF
    }
}

impl Listed for Timer {
    #[inline]
    fn at(&self) -> Ms {
        self.at
    }

    #[inline]
    fn next(&self) -> u32 {
        match self.next {
            NONE16 => NONE,
            next => u32::from(next),
        }
    }

    #[inline]
    fn set_next(&mut self, next: u32) {
        self.next = next as u16;
    }
}

const _: () = assert!(
    size_of::<LinkExit>() == 28
        && size_of::<LinkEntry>() == 24
        && size_of::<Node>() == 16
        && size_of::<Car>() == 18
        && size_of::<Timer>() == 8
        && size_of::<Holes>() == 8
);

/// Where the other end of a road is that leaves the tile.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Cut {
    /// Which of the tile's neighbours.
    pub neighbour: u16,
    /// The exit or entry there.
    pub there: u16,
    /// The road.
    pub link: u32,
}

/// What one tile tells another: a car that comes, or a hole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub at: Ms,
    pub turns: u32,
    /// Its place in the plans, or `NONE` for a hole.
    pub place: u32,
    /// The exit of the car's road, or the hole's entry.
    pub to: u16,
}

/// The cars beside a road, which wait to enter it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct EntryQueue {
    /// The last, in a ring.
    pub last: u32,
    pub entry: u16,
    /// Who waits for the road after them.
    pub next_waiter: u16,
}

/// A trip that has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Departure {
    pub at: Ms,
    /// The trip's place in the plans.
    pub place: u32,
    pub junction: u16,
}
