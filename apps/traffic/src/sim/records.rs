//! The records of a tile: 36 + 24 bytes per link, and 16 bytes per junction.
//!
//! A link has two ends, which can lie in different tiles. The tile of the junction at which the
//! link begins holds its *entry*: the free storage and the queue of waiters. The tile of the
//! junction at which the link ends holds its *exit*: the cars that wait there. Entry and exit
//! communicate only by cars and holes. A car takes the free-flow time, and a hole takes the hole
//! time.

use super::slab::{Listed, NONE};
use crate::network::Ms;
use serde::{Deserialize, Serialize};

/// The 16-bit value for "none".
pub(super) const NONE16: u16 = u16::MAX;
/// The value that stands for the entry queue in the list of those that wait for a link. All other
/// values are exits.
pub(super) const ENTRY_QUEUE: u16 = u16::MAX - 1;
/// Flag in [`LinkExit::up`] and [`LinkEntry::down`]: the other end of the link is in another tile,
/// and the remaining bits are an index into the tile's `cuts`.
pub(super) const CUT: u32 = 1 << 31;
/// Flag in [`LinkEntry::down`]: the junction at the end of the link watches the cars that approach.
pub(super) const WATCHED: u32 = 1 << 30;
/// Flag in [`LinkEntry::down`]: the link belongs to a roundabout.
pub(super) const RING: u32 = 1 << 29;
/// The bits of [`LinkExit::up`] and [`LinkEntry::down`] that are an index.
pub(super) const INDEX: u32 = RING - 1;
/// Flag in the exit of a message: the junction at the end of the link watches the cars that
/// approach. An index of an exit has 14 bits.
pub(super) const WATCHED16: u16 = 1 << 15;

/// Flag in the exit of a car or of a message: the car has stepped aside. It drives past its link,
/// and takes no place there.
pub(super) const ASIDE16: u16 = 1 << 14;

/// The end of a link, in the tile of the junction at which it ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct LinkExit {
    /// The last of the cars that wait at the end of the link. They form a ring, in which the car
    /// after the last one is the first.
    pub last: u32,
    /// The earliest time at which the capacity of the link lets the next car leave.
    pub free_at: Ms,
    /// The entry (the beginning) of the link: its index in this tile, or an index of `cuts` if the
    /// flag `CUT` is set.
    pub up: u32,
    /// The time at which the present first car has become the first one.
    pub since: Ms,
    pub hole_ms: Ms,
    pub headway_ms: Ms,
    /// The tag that decides when this exit has its turn for the link `tag_of`, see
    /// [`Tile::choose_waiter`](super::tile::Tile::choose_waiter).
    pub tag: u32,
    /// The next exit or entry queue whose cars wait for the same link, in a ring.
    pub next_waiter: u16,
    pub junction: u16,
    /// The link to which `tag` belongs, or [`NONE16`].
    pub tag_of: u16,
    pub approach: u8,
    pub flags: u8,
}

impl LinkExit {
    /// Flag: the first car waits for storage on its next link.
    pub const BLOCKED: u8 = 1;
    /// Flag: a timer is set for the next try of the first car to cross.
    pub const RETRY_TIMER: u8 = 2;
    /// Flag: a timer is set for the time at which the first car counts as stuck.
    pub const STUCK_TIMER: u8 = 4;
    /// Flag: the junction watches the cars that approach on this link, because other movements
    /// yield to them.
    pub const WATCHED: u8 = 8;
}

/// The beginning of a link, in the tile of the junction at which it begins.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct LinkEntry {
    /// The exit (the end) of the link: its index in this tile, or an index of `cuts` if the flag
    /// `CUT` is set.
    pub down: u32,
    /// The free-flow time in the lower 31 bits, and the flag `WAKES` in the highest bit.
    free_flow: u32,
    /// The last of the holes (spaces of cars that have left the link) on their way here. They form
    /// a ring, in which the hole after the last one is the first.
    pub holes: u32,
    /// The earliest time at which the capacity of the link lets the next car enter.
    pub next_in: Ms,
    /// The minimum time between two cars that enter, and between two holes that belong to one
    /// record.
    pub headway_ms: Ms,
    /// The number of cars that can enter now. Holes on their way do not count.
    pub free_storage: u16,
    /// The last of the exits and entry queues whose cars wait for storage on the link, in a ring.
    pub last_waiter: u16,
}

impl LinkEntry {
    const WAKES: u32 = 1 << 31;
    /// The value of `next_in` while the link is closed. No time of a simulation is that late, so no
    /// car enters.
    pub const CLOSED: Ms = Ms::MAX - 1000;

    /// Returns the entry of an empty link.
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

    pub fn set_free_flow_ms(&mut self, free_flow_ms: Ms) {
        self.free_flow = free_flow_ms | self.free_flow & Self::WAKES;
    }

    /// Returns whether a timer is set for the time at which there may be storage.
    #[inline]
    pub fn wakes(&self) -> bool {
        self.free_flow & Self::WAKES != 0
    }

    #[inline]
    pub fn set_wakes(&mut self, wakes: bool) {
        self.free_flow = self.free_flow_ms() | if wakes { Self::WAKES } else { 0 };
    }
}

/// A junction. Its entries and exits end where those of the next junction begin.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Node {
    /// The time until which the last crossing blocks the others at a stop.
    pub busy_until: Ms,
    pub offset_ms: Ms,
    pub first_entry: u16,
    pub first_exit: u16,
    pub program: u16,
    pub turn_bits: u8,
    pub rule: Rule,
}

/// How a junction lets cars cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Rule {
    Free,
    Stop,
    Priority,
    Signal,
}

/// Several holes on their way to an entry, one headway apart. This is how the holes of a
/// discharging queue follow each other.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Holes {
    /// The time at which the first hole arrives at the entry.
    pub at: Ms,
    /// The next element of the list in the lower 26 bits, and the number of holes minus one in the
    /// bits above.
    next: u32,
}

impl Holes {
    const NEXT: u32 = (1 << 26) - 1;
    const ONE: u32 = Self::NEXT + 1;
    const MOST: u32 = u32::MAX / Self::ONE + 1;
    /// The maximum number of places in a slab of holes, because the next element of a list has 26
    /// bits.
    pub const PLACES_MAX: usize = Self::NEXT as usize;

    /// Returns a record of a single hole, which is the space of a car that has left its link.
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

    /// Adds a hole at the end if it arrives exactly one headway after the last one and the count
    /// has room. Returns whether it did.
    #[inline]
    pub fn extend(&mut self, at: Ms, headway_ms: Ms) -> bool {
        let count = self.count();
        let next = u64::from(self.at) + u64::from(count) * u64::from(headway_ms);
        let fits = u64::from(at) == next && count < Self::MOST;
        if fits {
            self.next += Self::ONE;
        }
        fits
    }

    /// Removes the holes that have arrived at `now`, and returns their number. If all have arrived,
    /// the record is unchanged, and the caller must remove it.
    #[inline]
    pub fn take(&mut self, now: Ms, headway_ms: Ms) -> u32 {
        let count = self.count();
        if count == 1 {
            return 1;
        }
        let here = ((now - self.at) / headway_ms + 1).min(count);
        if here < count {
            self.at += here * headway_ms;
            self.next -= here * Self::ONE;
        }
        here
    }

    /// Returns the arrival time of each hole.
    pub fn times(self, headway_ms: Ms) -> impl Iterator<Item = Ms> {
        (0..self.count()).map(move |index| self.at + index * headway_ms)
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

/// A car on a link or in an entry queue.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[repr(C, packed(2))]
pub(super) struct Car {
    /// The time at which the car arrives at the end of its link. In an entry queue, the time at
    /// which it joined the queue.
    pub at: Ms,
    /// The next element of the list that contains the car.
    pub next: u32,
    /// The remaining turns of the current word of its route.
    pub turns: u32,
    /// The place in the plans of the current word of the route. The place also identifies the
    /// traveller.
    pub place: u32,
    /// The exit of the link, and the flag [`ASIDE16`].
    pub exit: u16,
}

impl Car {
    /// Returns whether the car has stepped aside and drives past its link.
    #[inline]
    pub fn is_aside(&self) -> bool {
        self.exit & ASIDE16 != 0
    }
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

/// A timer. A tile has at most two timers per exit and one per entry, so 16 bits are enough for
/// their indices. The tile size is limited for this reason (`network/tiles.rs`).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Timer {
    pub at: Ms,
    next: u16,
    /// The index of an exit or entry in the lower 14 bits, and the kind in the bits above.
    kind_and_index: u16,
}

impl Timer {
    const OF: u16 = (1 << 14) - 1;

    pub fn new(at: Ms, kind: u16, of: u16) -> Self {
        debug_assert!(of <= Self::OF, "the index of a link end has 14 bits");
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
    size_of::<LinkExit>() == 36
        && size_of::<LinkEntry>() == 24
        && size_of::<Node>() == 16
        && size_of::<Car>() == 18
        && size_of::<Timer>() == 8
        && size_of::<Holes>() == 8
);

/// The other end of a link that leaves the tile.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Cut {
    /// The index of the other tile among the neighbours of this tile.
    pub neighbour: u16,
    /// The index of the link's exit or entry in the other tile.
    pub there: u16,
    /// The link that leaves this tile.
    pub link: u32,
}

/// A message from one tile to another: a car or a hole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub at: Ms,
    pub turns: u32,
    /// The car's place in the plans, or `NONE` for a hole.
    pub place: u32,
    /// The exit of the car's link, or the entry that the hole moves to.
    pub to: u16,
}

/// The cars that wait to enter a link, because they begin a trip there, or because they have
/// stepped aside and wait for the link.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct EntryQueue {
    /// The last car of the queue. The cars form a ring, in which the car after the last one is the
    /// first.
    pub last: u32,
    pub entry: u16,
    /// The next exit whose first car waits for the link.
    pub next_waiter: u16,
    /// The tag that decides when the queue has its turn for the link, see
    /// [`Tile::choose_waiter`](super::tile::Tile::choose_waiter).
    pub tag: Option<u32>,
}

/// The crossings of a movement that others yield to, or that yields itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Crossings {
    /// The time of the last crossing, or 0.
    pub last: Ms,
    /// The moving average of the time between two crossings, or 0 before the first one. The first
    /// crossing counts as [`MEAN_MS_MAX`](Self::MEAN_MS_MAX).
    pub mean_ms: Ms,
}

impl Crossings {
    /// The longest time between two crossings that counts.
    pub const MEAN_MS_MAX: Ms = 60_000;

    /// Records a crossing at `now`, and updates the moving average.
    pub fn add(&mut self, now: Ms) {
        let between = match self.last {
            0 => Self::MEAN_MS_MAX,
            last => (now - last).min(Self::MEAN_MS_MAX),
        };
        self.mean_ms = match self.mean_ms {
            0 => between,
            mean => (mean * 15 + between) / 16,
        };
        self.last = now.max(1);
    }
}

/// A trip that has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Departure {
    pub at: Ms,
    /// The place of the trip in the plans.
    pub place: u32,
    pub junction: u16,
}
