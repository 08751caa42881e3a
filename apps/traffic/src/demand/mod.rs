//! Who drives where, and when: the plans of all travellers, packed.

pub mod gravity;
pub mod laps;
mod pack;
pub mod read;
pub mod write;

pub use pack::{Plans, Route, Traveller};
pub(crate) use pack::{follow_turns, is_turns, turn_bits, unpack};
