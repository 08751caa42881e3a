//! Who drives where, and when: the plans of all travellers, packed.

pub mod laps;
mod pack;

pub(crate) use pack::turn_bits;
pub use pack::{Plans, Route, Traveller};
