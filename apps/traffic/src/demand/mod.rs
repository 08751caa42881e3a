//! Demand: the plans of all travellers, that is their trips with departure times and routes, in a
//! packed form.

pub mod gravity;
mod grouped;
pub mod laps;
mod matsim;
mod matsim_vehicles;
mod pack;
pub mod prepared;
pub mod read;
mod speeds;
mod sumo;
mod sumo_types;
pub mod write;

pub use pack::{Plans, Route, Traveller};
pub use speeds::CarSpeed;

pub(crate) use pack::{follow_turns, is_turns, turn_bits, unpack};
