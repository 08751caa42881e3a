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
//! # Features
//!
//! - `net`, on by default: sockets ([`net`]), signals ([`signal`]) and [`Pool::observe`]. A program
//!   that has loops and tasks only builds in less time without it, by `default-features = false`.
//! - `futures-io`, `tokio-io`: the traits of those crates for streams.
//!
//! `docs/design/pool.md` is the contract that every part of the crate keeps.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod blocking;
pub mod channel;
pub mod loops;
#[cfg(all(test, shuttle, not(loom)))]
mod models;
#[cfg(feature = "net")]
pub mod net;
#[cfg(not(feature = "net"))]
#[path = "net/without.rs"]
mod net;
mod pool;
mod seat;
#[cfg(all(unix, feature = "net"))]
pub mod signal;
mod sync;
pub mod task;
pub mod time;

pub use blocking::{Blocking, blocking};
pub use creel_topology::{CpuSet, Neighbour, Placement};
pub use loops::{Outbox, Scope, Scratch};
pub use pool::{
    AcquireError, Balance, BuildError, Builder, GlobalError, Handle, NamedPools, NamedSettings,
    Observe, ParseKnobError, Pool, PoolStats, TaskStats, Wait, WorkerStats, global,
};
pub use task::{JoinError, JoinHandle};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
