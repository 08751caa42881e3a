//! Creel: a runtime whose program owns the four knobs.
//!
//! Four decisions settle how fast a parallel program runs: how many workers there are, where
//! they sit, how they wait, and how work moves between them. Here they are settings of one
//! [`Pool`], and the program makes them; no environment variable does.
//!
//! ```
//! use creel::{Pool, Wait};
//!
//! let pool = Pool::builder().workers(2).wait(Wait::Park).build()?;
//! let answer = pool.run_on(1, || 6 * 7); // on the thread of seat 1
//! assert_eq!(answer, 42);
//! # Ok::<(), creel::BuildError>(())
//! ```
//!
//! `docs/design/pool.md` is the contract that every part of the crate keeps.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod blocking;
pub mod channel;
pub mod loops;
#[cfg(all(test, shuttle, not(loom)))]
mod models;
pub mod net;
mod pool;
mod seat;
#[cfg(unix)]
pub mod signal;
mod sync;
pub mod task;
pub mod time;

pub use blocking::{Blocking, blocking};
pub use creel_topology::{CpuSet, Neighbour, Placement};
pub use loops::{Outbox, Scope, Scratch};
pub use pool::{
    AcquireError, Balance, BuildError, Builder, GlobalError, Handle, NamedPools, Observe,
    ParseKnobError, Pool, Settings, Stats, TaskStats, Wait, WorkerStats, global,
};
pub use task::{JoinError, JoinHandle};
