//! Runs futures that need tokio as tasks of a Creel pool.
//!
//! Many crates only work inside a tokio runtime, for example reqwest, sqlx, redis and tonic's
//! client. Outside of one they panic with "there is no reactor running". Wrap such a future in
//! [`with_tokio`], and it runs on any [`Pool`](creel::Pool):
//!
//! ```
//! use creel_tokio::with_tokio;
//! use std::time::Duration;
//!
//! let pool = creel::Pool::builder().workers(2).build()?;
//! let task = pool.spawn(with_tokio(async {
//!     tokio::time::sleep(Duration::from_millis(1)).await;
//!     tokio::net::TcpListener::bind("127.0.0.1:0").await
//! }));
//! let listener = pool.block_on(task)??;
//! assert!(listener.local_addr()?.port() != 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The workers of the pool poll the future. We only enter tokio's context around each poll, and
//! while the future is dropped. One helper thread runs tokio's drivers for I/O and time. It starts
//! with the first use, serves all pools of the process, and sleeps while no event happens. If you
//! want a helper thread that ends, or a tokio runtime of your own, create a [`Tokio`].
//!
//! You can mix both worlds in one future. For example, [`creel::time::timeout`] and Creel's
//! channels and sockets work inside [`with_tokio`], because a worker polls the future.
//!
//! # What runs where
//!
//! | code inside `with_tokio` | where it runs |
//! |---|---|
//! | the future, and everything that it awaits | on the workers of the pool |
//! | sockets, timers, signals and child processes of tokio | the worker makes the system calls. The helper thread waits for events and wakes the task |
//! | [`creel_tokio::spawn`](spawn), [`Executor`], and `creel::task::spawn` of a [`with_tokio`] | on the workers of the pool |
//! | [`creel_tokio::spawn_blocking`](spawn_blocking) | on Creel's threads for blocking calls |
//! | `tokio::spawn`, `tokio::task::JoinSet` | **on the helper thread**, together with all other such tasks of the process |
//! | `spawn_blocking`, `tokio::fs`, tokio's name lookups | on threads of tokio: at most 512, each of which ends after 10 idle seconds |
//! | `block_in_place` | the closure runs on the worker. Other workers take over the tasks that wait behind it |
//! | `block_in_place` inside `tokio::spawn` | panics, because the helper's runtime has a single thread |
//!
//! # `tokio::spawn` and `spawn_blocking`
//!
//! We cannot redirect `tokio::spawn` and `tokio::task::spawn_blocking` to a pool, because tokio has
//! no hook for it. A tokio handle always leads to one of tokio's own schedulers, whose threads
//! belong to tokio. `LocalSet` only redirects `spawn_local`. Therefore you have these choices:
//!
//! | the task is spawned by | use |
//! |---|---|
//! | your own code | [`spawn`] and [`spawn_blocking`] |
//! | a crate that accepts an executor: hyper, hyper-util's client, tonic's client | [`Executor`] |
//! | a server for hyper, axum or tonic | `creel_hyper::serve`, whose connections are tasks of the pool. Wrap the service in `TokioService` if its handlers need tokio |
//! | a crate that calls `tokio::spawn` itself: reqwest, sqlx, redis | nothing. The task runs on the helper thread |
//!
//! In the last case, for example, reqwest runs each HTTP connection as a task of its own, so the
//! helper thread parses the answers and decrypts TLS. The future that awaits the answer still runs
//! on your pool. This matters in two cases:
//!
//! - **Throughput.** All tasks that other crates spawn share one core. If this limits your program,
//!   pass your own multi-threaded tokio runtime to [`Tokio::from_handle`].
//! - **Latency.** A task that computes or blocks on the helper thread delays all I/O and all timers
//!   of tokio in the process.
//!
//! # Cost
//!
//! We measured these costs with `cargo bench -p creel-tokio` on a virtual machine with two busy
//! cores.
//!
//! | what | cost |
//! |---|---|
//! | a poll | about 70 ns more, to enter and leave the context |
//! | a future | 16 bytes and a reference count |
//! | an event of a socket or timer | It passes through the helper thread, which wakes a worker. A round trip of 64 bytes over loopback takes 68 µs, compared with 40 µs for Creel's own sockets and 41 µs for tokio's in tokio's current-thread runtime |
//! | the helper thread | one thread and its descriptors, and no CPU time while no event happens |
//!
//! Therefore use Creel's own sockets and timers where a crate lets you choose.
//!
//! # What does not work
//!
//! - A pool's manual clock ([`Clock::manual`](creel::time::Clock::manual)) does not move tokio's
//!   timers. Use [`creel::time`] in code that you test in this way.
//! - [`Pool::seeded`](creel::Pool::seeded) is not deterministic with tokio's I/O and timers,
//!   because they wake tasks from another thread.
//! - tokio's cooperative budget only applies to tokio's own tasks. A future that awaits only
//!   operations that are always ready does not yield. Wrap these operations in
//!   [`creel::task::budgeted`].
//! - `tokio::task::spawn_local` needs a `LocalSet`, as it does inside tokio. Use
//!   [`creel::task::spawn_local`] with a [`with_tokio`] future instead.
//! - Sockets and timers of tokio belong to the helper that created them. If you created a [`Tokio`]
//!   of your own, its sockets return errors after it has ended.
//!
//! # Features
//!
//! The feature `hyper` of this crate implements hyper's trait for [`Executor`], and adds
//! `TokioService`.
//!
//! The helper drives I/O and time if the features `net` and `time` of tokio are enabled. The crates
//! that need them enable them. In your own code, add the features to your dependency on tokio.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod executor;
mod helper;
#[cfg(feature = "hyper")]
mod service;
mod with_tokio;

pub use executor::Executor;
pub use helper::Tokio;
#[cfg(feature = "hyper")]
pub use service::{TokioBody, TokioResponse, TokioService};
pub use with_tokio::WithTokio;

use creel::Blocking;
use creel::task::JoinHandle;
use std::future::Future;

/// Wraps a future that needs tokio's context, so that any pool can run it. It uses the helper
/// thread of the process ([`Tokio::global`]).
///
/// Pass an `async` block, and create everything that needs tokio inside it. Some functions need the
/// context when you call them, and not only when you await their future. For example,
/// `tokio::time::sleep` and the `send` of a reqwest request with a timeout panic outside of it.
///
/// # Panics
///
/// Panics if the operating system refuses the helper thread or its descriptors.
///
/// ```
/// use creel_tokio::with_tokio;
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let read = async { tokio::fs::read_to_string("Cargo.toml").await };
/// let text = pool.block_on(with_tokio(read))?;
/// assert!(text.contains("creel-tokio"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn with_tokio<F: Future>(future: F) -> WithTokio<F> {
    Tokio::global().wrap(future)
}

/// Spawns a future that needs tokio's context as a task of the pool whose code this thread runs.
/// Use it in place of `tokio::spawn`. It is short for [`creel::task::spawn`] of [`with_tokio`].
///
/// # Panics
///
/// Panics if the thread is neither a worker of a pool nor inside `block_on`, and in the same cases
/// as [`with_tokio`].
///
/// ```
/// use creel_tokio::with_tokio;
/// use std::time::Duration;
///
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let seven = pool.block_on(async {
///     let task = creel_tokio::spawn(async {
///         tokio::time::sleep(Duration::from_millis(1)).await;
///         7
///     });
///     task.await
/// })?;
/// assert_eq!(seven, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    creel::task::spawn(with_tokio(future))
}

/// Calls `work` on one of Creel's threads for blocking calls, inside tokio's context. Use it in place
/// of `tokio::task::spawn_blocking`. It is short for [`creel::blocking`], and `Handle::current`
/// works in the closure.
///
/// There are two differences to tokio. If you drop the future, a call that has not started is
/// skipped. If the closure panics, awaiting the future resumes the panic.
///
/// # Panics
///
/// Panics in the same cases as [`creel::blocking`] and [`with_tokio`].
///
/// ```
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let sum = creel_tokio::spawn_blocking(|| {
///     let handle = tokio::runtime::Handle::current();
///     handle.block_on(async { 3 + 4 })
/// });
/// assert_eq!(pool.block_on(sum), 7);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[track_caller]
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Blocking<T> {
    let tokio = Tokio::global();
    creel::blocking(move || {
        let _entered = tokio.enter();
        work()
    })
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
