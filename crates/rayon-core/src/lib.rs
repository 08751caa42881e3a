//! A replacement for rayon-core that runs on a Creel pool.
//!
//! A program that uses rayon runs on Creel with one more section in its `Cargo.toml`, and with no
//! change in its code:
//!
//! ```toml
//! [patch.crates-io]
//! rayon-core = { git = "…/creel" } # or a path to crates/rayon-core
//! ```
//!
//! All public items of rayon-core 1.13 are here, with their meaning. The README lists the
//! differences that you may notice.
//!
//! ```
//! let (a, b) = rayon_core::join(|| 1 + 1, || 2 + 2);
//! assert_eq!((a, b), (2, 4));
//! ```
//!
//! rayon's documentation describes how to use the functions. There are two additions:
//! [`ThreadPoolBuilder::creel`] changes the settings of the Creel pool, and [`pool`] returns it.

mod broadcast;
mod builder;
mod configuration;
mod job;
mod join;
mod latch;
mod pool;
mod registry;
mod scope;
mod spawn;
mod unwind;

pub use broadcast::{BroadcastContext, broadcast, spawn_broadcast};
pub use builder::{ThreadBuilder, ThreadPoolBuildError, ThreadPoolBuilder};
#[allow(deprecated)]
pub use configuration::{Configuration, initialize};
pub use join::{FnContext, join, join_context};
pub use pool::ThreadPool;
pub use scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};
pub use spawn::{spawn, spawn_fifo};

use registry::{Registry, WorkerThread};

/// The result of [`yield_now`] or [`yield_local`], which says whether the function found a job to
/// run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// The function has run a job.
    Executed,
    /// The function has found no job.
    Idle,
}

impl Yield {
    fn new(executed: bool) -> Self {
        match executed {
            true => Self::Executed,
            false => Self::Idle,
        }
    }
}

/// Returns the highest number of threads that a pool can have. A pool for which you ask for more
/// has this number of threads.
pub fn max_num_threads() -> usize {
    builder::MAX_THREADS
}

/// Returns the number of threads of the current pool. This is the pool of the calling thread, or
/// the global pool if the thread belongs to none.
pub fn current_num_threads() -> usize {
    match WorkerThread::current() {
        Some(worker) => worker.registry.threads(),
        None => Registry::global().threads(),
    }
}

/// Returns the index of the calling thread in its pool, from 0 on. Returns `None` if the thread
/// belongs to no pool.
#[inline]
pub fn current_thread_index() -> Option<usize> {
    WorkerThread::current().map(|worker| worker.index)
}

/// Returns whether the deque of the calling thread has jobs. Returns `None` if the thread belongs
/// to no pool.
///
/// The second closure of a join does not count, because Creel does not keep it in this deque.
#[inline]
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    WorkerThread::current().map(WorkerThread::has_jobs)
}

/// Runs one job of the pool on the calling thread, if there is one. Returns `None` if the thread
/// belongs to no pool.
pub fn yield_now() -> Option<Yield> {
    WorkerThread::current().map(|worker| Yield::new(worker.run_any()))
}

/// Runs one job of the calling thread's own deque, if there is one. Returns `None` if the thread
/// belongs to no pool.
pub fn yield_local() -> Option<Yield> {
    WorkerThread::current().map(|worker| Yield::new(worker.run_own()))
}

/// Returns the Creel pool that the current pool runs on, as a [handle](creel::Pool::handle). You
/// can use it for everything that Creel has and rayon has not, for example tasks and statistics. Do
/// not resize it, because the number of rayon's threads is fixed.
///
/// rayon-core has no such function.
///
/// ```
/// let pool = rayon_core::pool();
/// assert_eq!(pool.workers(), rayon_core::current_num_threads());
/// ```
pub fn pool() -> creel::Pool {
    Registry::current().pool.clone()
}
