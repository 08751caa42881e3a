//! The clock of the simulated machine, with the functions that the programs of `cases.rs` use.

pub use creel_sim::{now_ns, thread::sleep as rest, work};
