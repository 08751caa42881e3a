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
//! let answer = pool.run_on(1, || 6 * 7).unwrap(); // on the thread of worker 1
//! assert_eq!(answer, 42);
//! # Ok::<(), creel::BuildError>(())
//! ```
//!
//! # Features
//!
//! - `net`, on by default: sockets ([`net`]), signals ([`signal`]) and [`Pool::observe`].
//! - `tasks`, which `net` brings: [`task`], [`time`], [`channel`] and [`blocking`].
//!
//! A program that has loops only builds in a third of the time by `default-features = false`; one
//! with loops and tasks takes `features = ["tasks"]` beside that.
//!
//! - `futures-io`, `tokio-io`: the traits of those crates for streams.
//!
//! # Without threads
//!
//! On WebAssembly (`wasm32-wasip1`, without the feature `net`) a pool has no threads. Loops, joins,
//! scopes, [`Pool::run_on`] and [`Pool::broadcast`] run on the thread that calls them. Tasks and timers
//! run inside of `Pool::block_on`, which panics if nothing is left that could wake its future.
//!
//! `docs/design/pool.md` is the contract that every part of the crate keeps.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]
// What only tasks use of the workers lies there all the same.
#![cfg_attr(
    not(feature = "tasks"),
    allow(
        dead_code,
        unused_imports,
        clippy::default_constructed_unit_structs // of what has no part without them
    )
)]

#[cfg(feature = "tasks")]
mod blocking;
#[cfg(feature = "tasks")]
pub mod channel;
pub mod loops;
#[cfg(all(test, shuttle, not(loom)))]
mod models;
#[cfg(feature = "net")]
pub mod net;
#[cfg(not(feature = "net"))]
#[path = "net/disabled.rs"]
mod net;
mod pool;
#[cfg(all(unix, feature = "net"))]
pub mod signal;
mod sync;
#[cfg(feature = "tasks")]
pub mod task;
#[cfg(not(feature = "tasks"))]
#[path = "task/disabled.rs"]
mod task;
#[cfg(feature = "tasks")]
pub mod time;
#[cfg(not(feature = "tasks"))]
#[path = "time/disabled.rs"]
mod time;
mod worker;

#[cfg(feature = "tasks")]
pub use blocking::{Blocking, blocking, set_max_blocking_threads};
pub use creel_topology::{CpuSet, Neighbour, Placement};
pub use loops::{Outbox, Scope, Scratch};
pub use pool::{
    AcquireError, Balance, BuildError, GlobalError, NamedPools, NamedSettings, Observe,
    ParseKnobError, Pool, PoolBuilder, PoolStats, TaskStats, Wait, WorkerError, WorkerStats,
    global,
};
#[cfg(feature = "tasks")]
pub use task::{JoinError, JoinHandle};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
