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
//! Its files lie in layers, each of which imports from those above it in this table:
//!
//! | layer | holds |
//! |---|---|
//! | `types/` | sets of PUs, the machine's objects as plain data, what readers hand on, errors |
//! | `read/`, [`affinity`] | readers: a tree of files (`sysfs/`, `cpuinfo.rs`, `cgroup/`), a description (`synthetic.rs`), a thread's mask |
//! | `machine/` | [`Machine`]: its constructors, what follows from the parts, the logical order |
//! | `budget.rs`, `placement/` | how many workers; policies, layouts, the ledger |
//!
//! Beside them stands `neighbours.rs`, which uses the types only.
//!
//! **Invariants.** No environment variable is read. Nobody is seated outside the PUs that the
//! caller calls allowed. Reading a machine is bounded: a hostile tree gives an [`Error`], never a
//! panic or an endless read.
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
mod machine;
mod neighbours;
mod placement;
mod read;
mod types;

pub use budget::{Budget, Limit, LimitKind, Rounding};
pub use machine::Machine;
pub use neighbours::{Neighbour, neighbours};
pub use placement::{Layout, Ledger, Placement, place};
pub use types::{Cache, CacheKind, Core, CpuSet, Die, Error, Kind, KindSource, NumaNode, Package};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
