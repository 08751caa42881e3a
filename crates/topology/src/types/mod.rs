//! The types that all parts of the crate use: sets of PUs, the objects of a machine as plain data,
//! the results of readers, and errors.
//!
//! Invariant: no file in this folder imports from outside it.

mod cpuset;
mod error;
mod notation;
mod objects;
mod parts;

pub use cpuset::{CpuSet, CpuSetIter};
pub use error::Error;
pub(crate) use error::shown;
pub use objects::{Cache, CacheKind, Core, Die, Kind, KindSource, NumaNode, Package};
pub(crate) use parts::{Constraint, Parts, Rule};
