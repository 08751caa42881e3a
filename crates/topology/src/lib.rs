//! What is there, what may be used, and where workers sit.
//!
//! The crate answers three questions and starts no thread:
//!
//! | question | answer |
//! |---|---|
//! | what is there? | [`Machine`]: packages, dies, NUMA nodes, caches, cores with kinds, PUs |
//! | how many workers? | [`Budget`]: mask ∩ cpuset ∩ quota, and which limit bound it |
//! | where do they sit? | [`place`]: one [`CpuSet`] a worker, by a [`Placement`] |
//!
//! **Invariants.** No environment variable is read. No answer widens what the system allows.
//! Reading is bounded: a hostile tree gives an [`Error`], never a panic or an endless read.
//!
//! **Left out on purpose.** Memory binding, devices and distances between nodes beyond what a
//! node without PUs needs to find its neighbours.
//!
//! ```
//! use creel_topology::{place, Machine, Placement};
//!
//! let machine = Machine::synthetic("package:2 core:4 pu:2")?;
//! assert_eq!(machine.cores().len(), 8);
//! let layout = place(&machine, machine.allowed(), 2, &Placement::Spread)?;
//! assert_eq!(layout.seats()[0].to_string(), "0-1"); // the first core of package 0
//! assert_eq!(layout.seats()[1].to_string(), "8-9"); // the first core of package 1
//! # Ok::<(), creel_topology::Error>(())
//! ```

pub mod affinity;
mod budget;
mod cgroup;
mod cpuinfo;
mod cpuset;
mod error;
mod kinds;
mod layout;
mod ledger;
mod machine;
mod neighbours;
mod nodes;
mod placement;
mod synthetic;
mod sysfs;
mod tree;

pub use budget::{Budget, Limit, LimitKind, Rounding};
pub use cpuset::CpuSet;
pub use error::Error;
pub use layout::{Layout, place};
pub use ledger::Ledger;
pub use machine::{Cache, CacheKind, Core, Die, Kind, KindSource, Machine, NumaNode, Package};
pub use neighbours::{Neighbour, neighbours};
pub use placement::Placement;
