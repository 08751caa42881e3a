//! Creel is a thread pool and async runtime that lets your program decide what other runtimes
//! decide for it.
//!
//! Four decisions determine how fast a parallel program runs: how many workers there are, on which
//! cores they run, how they wait for work, and how work moves between them. In Creel, these are
//! settings of a [`Pool`], and your program makes them. Creel reads no environment variable for
//! them.
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
//! # How to use Creel
//!
//! You first create a [`Pool`], with [`Pool::new`] for the default settings or with
//! [`Pool::builder`] for your own. There is also a [`global`] pool. You can then run work on it in
//! three ways, and mix them freely:
//!
//! - **Loops** are fork-join parallelism, similar to rayon's. A method such as [`Pool::for_each`],
//!   [`Pool::map`], [`Pool::fold`] or [`Pool::sort`] distributes the items among the workers, and
//!   returns when all of them are done. [`Pool::join`] and [`Pool::scope`] run closures in the same
//!   way. Closures may borrow from the stack.
//! - **Tasks** are futures, similar to tokio's. `Pool::spawn` runs a future on any worker, and
//!   `Pool::block_on` waits for one. Tasks need the feature `tasks`.
//! - **A chosen thread** runs a closure if you name its worker. [`Pool::run_on`] runs a closure on
//!   one worker, and [`Pool::broadcast`] runs it on each of them. Use this for data that must stay
//!   on one thread, or in the caches of one core.
//!
//! For example, this program runs a loop and a task on the same pool:
//!
//! ```
//! let pool = creel::Pool::builder().workers(2).build()?;
//! let (mut positions, speeds) = ([10.0, 20.0], [1.0, 2.0]);
//! pool.for_each((&mut positions, &speeds), |(x, v)| *x += v);
//! assert_eq!(positions, [11.0, 22.0]);
//!
//! # #[cfg(feature = "tasks")]
//! # {
//! let task = pool.spawn(async { 6 * 7 });
//! assert_eq!(pool.block_on(task).unwrap(), 42);
//! # }
//! # Ok::<(), creel::BuildError>(())
//! ```
//!
//! # Where to find what
//!
//! | you need | see |
//! |---|---|
//! | an `async` main function, or `async` tests | [`macro@main`], [`macro@test`] |
//! | loops over slices, ranges, and tuples of them | [`Pool`], [`loops`] |
//! | loops over iterators, channels and other live sources | [`Pool::for_each_bridged`], [`Pool::map_bridged`] |
//! | a buffer per worker, or messages between items | [`Scratch`], [`Outbox`] |
//! | futures, their handles, and timers | `task`, `time` |
//! | channels | `channel` |
//! | sockets, signals and child processes | `net`, `signal`, `process` |
//! | functions that block, such as file access | `blocking` |
//! | how workers wait, and how loops are balanced | [`Wait`], [`Balance`] |
//! | which cores the workers run on | [`Placement`] |
//! | why a pool has its number of workers | [`Pool::budget`], [`topology`] |
//! | pools that parts of a program share by name | [`NamedPools`] |
//! | what the workers have done | [`Pool::stats`], [`Pool::trace`] |
//!
//! # Features
//!
//! | feature | default? | adds |
//! |---|---|---|
//! | `macros` | yes | the attributes [`macro@main`] and [`macro@test`]. It enables `tasks`. |
//! | `net` | yes | sockets, signals, child processes and [`Pool::observe`]. It enables `tasks`. |
//! | `tasks` | yes, through `net` | tasks, timers, channels and blocking calls |
//! | `futures-io` | no | the I/O traits of the `futures-io` crate for streams |
//! | `stream` | no | the traits `Stream` and `Sink` of the crates `futures-core` and `futures-sink` for channels, intervals, listeners and sets of tasks |
//! | `tokio-io` | no | the I/O traits of the `tokio` crate for streams. You need no tokio runtime. |
//!
//! If your program only runs loops, use `default-features = false`. Creel then builds in a third of
//! the time. If it also needs tasks but no sockets, add `features = ["tasks"]`.
//!
//! # Systems without threads
//!
//! On WebAssembly (`wasm32-wasip1`, without the feature `net`) a pool has no threads. Loops, joins,
//! scopes, [`Pool::run_on`] and [`Pool::broadcast`] run on the thread that calls them. Tasks and
//! timers run inside `Pool::block_on`, which panics if nothing is left that could wake its future.
//!
//! # The guide and the design
//!
//! The [guide][guide] has a chapter for each setting, recipes, and pages for users of
//! [rayon][from rayon], [threads][from threads] and [tokio][from tokio]. The [contract][contract]
//! describes the guarantees that all parts of the crate keep.
//!
//! [guide]: https://github.com/creel-rs/creel/blob/main/docs/guide/src/introduction.md
//! [from rayon]: https://github.com/creel-rs/creel/blob/main/docs/guide/src/from-rayon.md
//! [from threads]: https://github.com/creel-rs/creel/blob/main/docs/guide/src/from-threads.md
//! [from tokio]: https://github.com/creel-rs/creel/blob/main/docs/guide/src/from-tokio.md
//! [contract]: https://github.com/creel-rs/creel/blob/main/docs/design/pool.md

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]
// Without the feature `tasks`, we still compile the parts of the workers that only tasks use. We
// allow that these parts are then dead code.
#![cfg_attr(
    not(feature = "tasks"),
    allow(
        dead_code,
        unused_imports,
        clippy::default_constructed_unit_structs // some types have no fields without tasks
    )
)]

#[cfg(feature = "tasks")]
mod blocking;
#[cfg(feature = "tasks")]
pub mod channel;
pub mod loops;
#[cfg(all(test, creel_shuttle, not(creel_loom)))]
mod models;
#[cfg(feature = "net")]
pub mod net;
#[cfg(not(feature = "net"))]
#[path = "net/disabled.rs"]
mod net;
mod pool;
#[cfg(all(unix, feature = "net"))]
pub mod process;
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

// A build without a feature replaces a part of the pool, for example the sockets, by a type that
// never has any work (`disabled.rs`). The tests of a complete build compile these replacements as
// well. Therefore a replacement that does not match the traits in `worker/parts.rs` fails to
// compile at once.
#[cfg(all(test, feature = "net", not(any(creel_loom, creel_shuttle))))]
#[allow(dead_code, reason = "only the compiler looks at it")]
#[path = "net/disabled.rs"]
mod disabled_net;
#[cfg(all(test, feature = "net", not(any(creel_loom, creel_shuttle))))]
#[allow(dead_code, reason = "only the compiler looks at it")]
#[path = "task/disabled.rs"]
mod disabled_task;
#[cfg(all(test, feature = "net", not(any(creel_loom, creel_shuttle))))]
#[allow(dead_code, reason = "only the compiler looks at it")]
#[path = "time/disabled.rs"]
mod disabled_time;

#[cfg(feature = "tasks")]
pub use blocking::{Blocking, blocking, set_max_blocking_threads};
#[cfg(feature = "macros")]
pub use creel_macros::{main, test};
pub use creel_topology as topology;
pub use creel_topology::{CpuSet, Neighbour, Placement};
pub use loops::{BrokenBarrier, Gang, GangError, Joiner, Member, Outbox, Scope, Scratch};
pub use pool::{
    AcquireError, Balance, BuildError, GlobalError, NamedPools, NamedSettings, NewThread, Observe,
    ParseKnobError, Pool, PoolBuilder, PoolStats, Source, TaskStats, Wait, WorkerError,
    WorkerStats, global,
};
#[cfg(feature = "tasks")]
pub use task::{JoinError, JoinHandle};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
