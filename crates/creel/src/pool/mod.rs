//! The pool: worker threads, and the four settings that the program makes for them.
//!
//! Loops, tasks, timers and sockets do not know each other. They only share what is in `worker/`.
//! This module combines them in the worker's loop (`worker_loop.rs`). The methods for loops are in
//! `crate::loops`, which is built on this module. `docs/design/pool.md` describes the guarantees
//! that all of them rely on.

#[cfg(feature = "tasks")]
mod away;
#[cfg(feature = "tasks")]
mod block_on;
mod builder;
mod builder_diagnostics;
mod global;
mod handle;
mod named;
mod observe;
mod pinning;
mod rhythm;
#[cfg(feature = "tasks")]
mod seeded;
pub(crate) mod shared;
mod source;
#[cfg(feature = "tasks")]
mod spawn;
mod spin;
#[cfg(feature = "tasks")]
mod threadless;
mod trace;
mod wait;
mod watchdog;
mod worker_loop;

pub use crate::worker::{
    error::WorkerError,
    hooks::{NewThread, Source},
    knobs::{Balance, ParseKnobError, Wait},
    stats::{PoolStats, TaskStats, WorkerStats},
};
pub use builder::{BuildError, PoolBuilder};
pub use global::{GlobalError, global};
pub use named::{AcquireError, NamedPools, NamedSettings};
pub use observe::Observe;

use crate::sync::{AtomicBool, Ordering};
use crate::worker::{current, scoped_job};
use shared::Shared;
use std::{fmt, mem, sync::Arc, time::Duration};

/// A pool of workers. Each worker has one OS thread, and these threads run the closures and futures
/// that you pass to the pool.
///
/// A worker's thread starts when the worker gets its first work. You can call all methods from any
/// thread, including the pool's own workers.
///
/// A `Pool` is cheap to clone, and all clones share the workers. The pool ends when the last clone
/// is dropped. A view, for example from [`with_balance`](Self::with_balance), counts as a clone.
/// [`handle`](Self::handle) returns a `Pool` that does not keep it from ending.
///
/// Dropping the last clone closes the pool, waits until the workers have finished the work that
/// they have accepted, and joins their threads. Tasks that are not finished are cancelled. If one
/// of the pool's own workers drops the last clone, the drop returns at once, and a thread that
/// Creel starts for this purpose waits for the workers. Use
/// [`shutdown_timeout`](Self::shutdown_timeout) or
/// [`shutdown_background`](Self::shutdown_background) if the drop must not wait for an unlimited
/// time.
///
/// A process that you fork from this one inherits the pool but none of its threads. In the forked
/// process, dropping the pool does nothing, and using it may block for ever. However, you can
/// create a new pool there.
///
/// If the operating system refuses a thread, the method that needed it panics or returns an error.
/// The workers that already have a thread continue to work.
///
/// ```
/// use creel::Pool;
///
/// let pool = Pool::builder().workers(3).name("mixer").build()?;
/// let names = pool.broadcast(|index| {
///     let name = std::thread::current().name().map(String::from);
///     (index, name)
/// });
/// assert_eq!(names[2], (2, Some("mixer-2".into())));
/// # Ok::<(), creel::BuildError>(())
/// ```
pub struct Pool {
    pub(crate) shared: Arc<Shared>,
    /// The balance of loops that are called through this value. It differs from the pool's own
    /// setting if [`with_balance`](Self::with_balance) created this value.
    pub(crate) balance: Balance,
    /// The maximum number of workers of loops that are called through this value. It is a limit if
    /// [`with_max_workers`](Self::with_max_workers) created this value, and otherwise `usize::MAX`.
    pub(crate) most: usize,
    /// The number that [`with_site`](Self::with_site) adds to the key under which the pool
    /// remembers a loop. It is 0 by default.
    pub(crate) site: u64,
    /// Keeps the workers alive. It is `None` for a handle.
    owner: Option<Arc<Owner>>,
}

/// The state that the clones of a pool share. The pool ends when the last of them is dropped, or
/// earlier if one of them is shut down.
#[derive(Default)]
struct Owner {
    /// Whether the end of the pool has begun. Relaxed is enough, because the flag only decides
    /// which thread ends the pool.
    ended: AtomicBool,
}

impl Pool {
    /// Creates a pool with the default settings: one worker per usable core, [`Wait::Adaptive`] and
    /// [`Balance::Sticky`].
    ///
    /// ```
    /// let pool = creel::Pool::new();
    /// assert_eq!(pool.sum(0..100, |n| n), 4950);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        let built = Self::builder().build();
        built.unwrap_or_else(|e| unreachable!("the defaults are in range: {e}"))
    }

    /// Returns a builder, with which you can change the settings before you create the pool.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).name("mixer").build()?;
    /// assert_eq!(pool.workers(), 2);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn builder() -> PoolBuilder {
        PoolBuilder::new()
    }

    /// Returns the current number of workers.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert_eq!(pool.workers(), 2);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn workers(&self) -> usize {
        self.shared.slots.workers()
    }

    /// Returns the reason for the number of workers: every limit that the machine and the process
    /// set, and the one that determined the number. If your program chose the number, with
    /// [`PoolBuilder::workers`] or [`resize`](Self::resize), that number is the last limit.
    ///
    /// The pool reads the limits once, when it first needs them. A pool with the default number of
    /// workers reads them when it is built. A pool with a number of your choice reads them in its
    /// first loop or gang, or in the first call of this method. On Linux, this reads about twenty
    /// files and takes a fraction of a millisecond. Returns `None` if the system does not report
    /// its CPUs.
    ///
    /// ```
    /// let pool = creel::Pool::new();
    /// if let Some(budget) = pool.budget() {
    ///     // For example: 3 workers, because of cpu.max of the parent cgroup (300000/100000)
    ///     println!("{} workers, because of {}", budget.workers(), budget.bound_by());
    ///     assert_eq!(budget.workers(), pool.workers());
    /// }
    /// ```
    #[must_use]
    pub fn budget(&self) -> Option<creel_topology::Budget> {
        self.shared.budget()
    }

    /// Changes the number of workers. You can call this at any time and from any thread, because it
    /// does not wait for the workers.
    ///
    /// An added worker starts its thread when it gets its first work. A removed worker finishes the
    /// work that it has accepted before its thread ends. A loop that is running finishes with the
    /// workers that it started with.
    ///
    /// # Errors
    /// Returns an error if the number is out of range, if the placement has no room for that number
    /// of workers, or if the pool has been dropped. The pool is unchanged in that case.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// pool.resize(4)?;
    /// assert_eq!(pool.workers(), 4);
    /// assert!(pool.resize(0).is_err());
    /// assert_eq!(pool.workers(), 4);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn resize(&self, workers: usize) -> Result<(), BuildError> {
        builder::check_workers(workers)?;
        let slots = &self.shared.slots;
        if !slots.life.enter() {
            return Err(BuildError::Ended);
        }
        let resized = self.shared.resize(workers);
        slots.leave();
        resized
    }

    /// Runs `f` on the thread of worker `worker`, and returns its result. This includes worker 0,
    /// so `f` does not run on the calling thread unless that is the worker's own.
    ///
    /// Blocks until `f` has run. The worker first finishes what it is running, and the closures
    /// that it received earlier. If you call this on the worker's own thread, `f` runs at once. A
    /// worker that waits for another worker here keeps running the closures that other workers wait
    /// for, so two workers that wait for each other both make progress. Closures from threads that
    /// are not workers wait until this worker's own wait is over.
    ///
    /// # Errors
    /// Returns an error if the pool has no such worker, has ended, or the operating system refuses
    /// the worker's thread. `f` has been dropped in that case.
    ///
    /// # Panics
    /// Resumes a panic of `f`. The pool keeps working.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut log = vec!["from the caller"];
    /// pool.run_on(1, || log.push("from worker 1")).unwrap();
    /// assert_eq!(log, ["from the caller", "from worker 1"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn run_on<R: Send>(
        &self,
        worker: usize,
        f: impl FnOnce() -> R + Send,
    ) -> Result<R, WorkerError> {
        let slots = &self.shared.slots;
        let slot = slots.slot_in_use(worker)?;
        if current::index_in(slots) == Some(worker) {
            return Ok(f());
        }
        let mut sent = Ok(());
        let mut results = scoped_job::run(vec![f], |_, job| sent = slots.send(slot, job));
        sent.map_err(|error| slots.refused(error))?;
        Ok(results.remove(0))
    }

    /// Calls `f(index)` once on each worker's own thread, and returns the results in the order of
    /// the workers. Blocks in the same way as [`run_on`](Self::run_on).
    ///
    /// # Panics
    /// Resumes the panic of the worker with the lowest index, after all calls have ended. Panics if
    /// the operating system refuses a worker's thread.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let squares = pool.broadcast(|worker| worker * worker);
    /// assert_eq!(squares, [0, 1]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn broadcast<R: Send>(&self, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
        let f = &f;
        let works: Vec<_> = (0..self.workers()).map(|index| move || f(index)).collect();
        let slots = &self.shared.slots;
        let mut refused = None;
        let results = scoped_job::run(works, |index, job| {
            if let Err(error) = slots.send(slots.at(index), job) {
                refused.get_or_insert((index, error));
            }
        });
        if let Some((index, error)) = refused {
            slots.panic_refused(index, &error);
        }
        results
    }

    /// Returns what each worker has done so far, and on which CPUs it runs.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// pool.for_each(0..100, |_| ());
    /// let items: u64 = pool.stats().workers.iter().map(|worker| worker.loop_items).sum();
    /// assert!(items <= 100); // not counted if only one worker may run the loop
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.shared.stats()
    }

    /// Returns, for each worker, the threads of other processes that are pinned to the worker's
    /// CPUs. Such a thread and the worker take turns, even if other CPUs are free. The list of a
    /// worker that is not pinned is empty.
    ///
    /// Inspects every thread of the system, which takes milliseconds. Use it for a report, or for a
    /// warning when your program starts.
    ///
    /// ```
    /// use creel::{Placement, Pool};
    ///
    /// let pool = Pool::builder().workers(2).placement(Placement::Cores).build()?;
    /// for (worker, others) in pool.neighbours().iter().enumerate() {
    ///     for other in others {
    ///         eprintln!("worker {worker} shares CPU {} with {}", other.pus, other.name);
    ///     }
    /// }
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn neighbours(&self) -> Vec<Vec<creel_topology::Neighbour>> {
        let pinning = &self.shared.pinning;
        let others = |index| match pinning.pinned_pus(index) {
            Some(pus) => creel_topology::neighbours(&pus),
            None => Vec::new(),
        };
        (0..self.workers()).map(others).collect()
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

/// A clone shares the workers, and keeps them alive as well. A clone of a
/// [handle](Pool::handle) is a handle.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let clone = pool.clone();
/// drop(pool);
/// assert_eq!(clone.sum(0..100, |n| n), 4950);
/// # Ok::<(), creel::BuildError>(())
/// ```
impl Clone for Pool {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            balance: self.balance,
            most: self.most,
            site: self.site,
            owner: self.owner.clone(),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // If several threads drop the last clones at the same time, exactly one of them gets the
        // `Owner`, and ends the pool.
        if let Some(owner) = self.owner.take().and_then(Arc::into_inner) {
            self.end(&owner, None);
        }
    }
}

impl Pool {
    /// Ends the pool as dropping its last clone does, but waits for no longer than `duration`. The
    /// pool ends even if there are other clones, and their methods then refuse new work. A
    /// [handle](Self::handle) does not own the pool, so shutting down a handle does nothing.
    ///
    /// The pool refuses new work and cancels its tasks. Two things can delay its end: a worker
    /// whose thread is blocked in your code, and a [`block_on`](Self::block_on) of another thread
    /// whose future is not ready. If the pool has not ended after `duration`, this method returns
    /// nevertheless, and a thread that Creel starts for this purpose waits for the rest. Without
    /// the feature `tasks`, Creel starts no such thread. If you call it on one of the pool's own
    /// workers, it returns at once.
    ///
    /// ```
    /// use std::{thread::sleep, time::{Duration, Instant}};
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// pool.spawn(async { sleep(Duration::from_secs(2)) }).detach(); // blocks its worker
    /// let begin = Instant::now();
    /// pool.shutdown_timeout(Duration::from_millis(10));
    /// assert!(begin.elapsed() < Duration::from_secs(2));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn shutdown_timeout(mut self, duration: Duration) {
        if let Some(owner) = self.owner.take() {
            self.end(&owner, Some(duration));
        }
    }

    /// Ends the pool as dropping it does, but does not wait for it.
    ///
    /// This is [`shutdown_timeout`](Self::shutdown_timeout) with a duration of zero. Note that the
    /// futures of the pool's tasks may be dropped after this has returned.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let handle = pool.handle();
    /// pool.shutdown_background();
    /// let late = handle.spawn(async { 7 });
    /// let other = creel::Pool::builder().workers(1).build()?;
    /// assert!(other.block_on(late).is_err());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn shutdown_background(self) {
        self.shutdown_timeout(Duration::ZERO);
    }

    /// Ends the pool, unless its end has begun. Waits for at most `within`.
    fn end(&self, owner: &Owner, within: Option<Duration>) {
        if owner.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.shared.slots.is_forked() {
            // In a forked process we leak the pool. Its locks may be held for ever by threads that
            // exist in the parent only. Its file descriptors are shared with the parent, and its
            // tasks own things that belong to the parent.
            mem::forget(Arc::clone(&self.shared));
        } else {
            // We close the pool before its window (`observe.rs`). A thread that opens a window
            // through a handle therefore either gets an error, or its window is closed here.
            self.shared.slots.life.close();
            self.close_window();
            self.shared.close(within);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("name", &self.shared.slots.name)
            .field("workers", &self.workers())
            .field("wait", &self.shared.wait)
            .field("balance", &self.balance)
            .finish_non_exhaustive()
    }
}
