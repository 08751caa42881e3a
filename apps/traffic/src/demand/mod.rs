//! Who drives where, and when: the plans of all travellers, packed.

pub mod gravity;
pub mod laps;
mod pack;
pub mod read;

pub(crate) use pack::turn_bits;
pub use pack::{Plans, Route, Traveller};
