//! What every part of the crate speaks of: sets of PUs, the machine's objects as plain data, what
//! readers hand on, and errors.
//!
//! Invariant: nothing here imports from the crate outside this folder.

mod cpuset;
mod error;
mod notation;
mod objects;
mod parts;

pub use cpuset::CpuSet;
pub use error::Error;
pub use objects::{Cache, CacheKind, Core, Die, Kind, KindSource, NumaNode, Package};
pub(crate) use parts::{Constraint, Parts, Rule};
