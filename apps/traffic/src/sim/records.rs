//! The records of a tile: 28 + 28 bytes a road, 20 a junction.
//!
//! A road has two ends, which may lie in two tiles. The junction where it begins has its *tail*:
//! how much room there is, and who waits for it. The one where it ends has its *head*: the cars that
//! wait there. The two meet by messages only, which take as long as a car or a hole through it.

use crate::network::Ms;
use serde::{Deserialize, Serialize};

/// None, where numbers have 16 bits.
pub(super) const NONE16: u16 = u16::MAX;
/// Among those that wait for room: the cars beside the road.
pub(super) const DRIVEWAY: u16 = u16::MAX - 1;
/// In `up` and `down`: the other end is in another tile, and this a place in the tile's `cuts`.
pub(super) const CUT: u32 = 1 << 31;

/// The end of a road, in the tile of the junction where it ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Head {
    /// The last of the cars that wait, in a ring; its next is the first.
    pub last: u32,
    /// When the flow lets the next car go.
    pub free_at: Ms,
    /// The road's tail.
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

impl Head {
    /// It waits for room on a road.
    pub const WAITS: u8 = 1;
    /// A timer is set for when it may try again.
    pub const RETRIES: u8 = 2;
    /// A timer is set for when it has waited too long.
    pub const WATCHED: u8 = 4;
}

/// The begin of a road, in the tile of the junction where it begins.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Tail {
    /// The road's head.
    pub down: u32,
    pub free_flow_ms: Ms,
    /// The last of the holes that are on their way here, in a ring; its next is the first.
    pub holes: u32,
    /// When the flow lets the next car in.
    pub next_in: Ms,
    /// How many cars there is room for, holes on their way not counted.
    pub room: u16,
    pub headway_ms: u16,
    /// The last of the heads that wait for room, in a ring.
    pub waiters: u16,
    /// A timer is set for when there may be room.
    pub wakes: bool,
    /// Who waits next after the cars beside the road.
    pub driveway_next: u16,
}

/// A junction.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Crossing {
    /// Until when the last crossing keeps others off: stops, and roads that yield.
    pub busy_until: Ms,
    pub offset_ms: Ms,
    pub first_tail: u16,
    pub first_head: u16,
    pub heads: u16,
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

/// A hole on its way to a tail.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Hole {
    pub at: Ms,
    pub next: u32,
}

/// Where the other end of a road is that leaves the tile.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Cut {
    /// Which of the tile's neighbours.
    pub neighbour: u16,
    /// The head or tail there.
    pub there: u16,
    /// The road.
    pub link: u32,
}

/// What one tile tells another: a car that comes, or a hole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    /// The head of the car's road, or the hole's tail.
    pub to: u16,
    pub word: u16,
    /// The car, or `NONE` for a hole.
    pub car: u32,
    pub at: Ms,
    pub turns: u32,
}

/// The cars beside a road, which wait to enter it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Driveway {
    pub tail: u16,
    /// The last, in a ring.
    pub last: u32,
}

/// A trip that has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Departure {
    pub at: Ms,
    pub car: u32,
    pub junction: u16,
    /// The trip's place in the plan.
    pub word: u16,
}
