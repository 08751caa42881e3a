//! The topology of a machine, the CPU budget of a process, and the placement of its workers.
//!
//! The crate answers three questions. It starts no thread.
//!
//! | question | answer |
//! |---|---|
//! | Which hardware is there? | [`Machine`]: packages, dies, NUMA nodes, caches, cores with kinds, PUs |
//! | How many workers should you start? | [`Budget`]: mask ∩ cpuset ∩ quota, and the limit that decided |
//! | Where should each worker run? | [`place`]: one [`CpuSet`] per worker, chosen by a [`Placement`] |
//!
//! A *PU* (processing unit) is a hardware thread. The OS numbers PUs, and we call this number the
//! OS index.
//!
//! The source files form layers. Each layer imports only from the layers above it in this table:
//!
//! | layer | contents |
//! |---|---|
//! | `types/` | sets of PUs, the objects of a machine as plain data, the results of readers, errors |
//! | `read/` | readers of a tree of files (`sysfs/`, `cpuinfo.rs`, `cgroup/`), of a description (`synthetic.rs`), and of what Windows and macOS return |
//! | `system/`, [`affinity`] | calls to the operating system, and the masks of threads |
//! | `machine/` | [`Machine`]: its constructors, derived facts, the logical order |
//! | `budget.rs`, `placement/` | the number of workers, placement policies, layouts, the ledger |
//!
//! In addition, `neighbours.rs` finds threads of other processes that are pinned to the same PUs.
//! It imports from `types/` only.
//!
//! **Invariants.** No environment variable changes a result, with one exception: if a variable of
//! OpenMP is set and an OpenMP runtime is loaded, its runtime may have bound the calling thread. We
//! then use the places of this runtime as the mask. We place workers only on PUs that the caller
//! allows. Reading a machine is bounded, and no file can make [`Machine::detect`] fail. A tree of
//! nonsense files gives a machine with notes, or [`Error::NoMachine`] if it lists no CPU, and never
//! a panic or an endless read.
//!
//! **Left out on purpose.** Memory binding, devices, and distances between NUMA nodes. We use the
//! distances only to find the nearest PUs of a node without PUs.
//!
//! ```
//! use creel_topology::{place, Machine, Placement};
//!
//! let machine = Machine::synthetic("package:2 core:4 pu:2")?;
//! assert_eq!(machine.cores().len(), 8);
//! let layout = place(&machine, machine.allowed(), 2, &Placement::Spread)?;
//! assert_eq!(layout.assigned()[0].to_string(), "0-1"); // the first core of package 0
//! assert_eq!(layout.assigned()[1].to_string(), "8-9"); // the first core of package 1
//! # Ok::<(), creel_topology::Error>(())
//! ```

pub mod affinity;
mod budget;
mod machine;
mod neighbours;
mod placement;
mod read;
mod system;
mod types;

pub use budget::{Budget, Limit, LimitKind, Rounding};
pub use machine::Machine;
pub use neighbours::{Neighbour, neighbours};
pub use placement::{Layout, Ledger, Placement, place};
pub use types::{
    Cache, CacheKind, Core, CpuSet, CpuSetIter, Die, Error, Kind, KindSource, NumaNode, Package,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
