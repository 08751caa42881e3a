//! The pool: placed threads, and the four knobs they obey.
//!
//! Loops, tasks, timers and sockets know nothing of each other but what `worker/` has; this module
//! composes them, in the worker's turn. The loop verbs stand on it, in `crate::loops`.
//! `docs/design/pool.md` holds the contract.

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

/// A number of workers, each served by one OS thread: the one thing here that runs code.
///
/// A worker's thread starts with its first work. All methods take `&self` and may be called from
/// any thread, from inside the pool's own workers too.
///
/// A `Pool` is cheap to clone, and all clones share the workers. The pool ends when the last clone
/// is dropped. [`handle`](Self::handle) returns a `Pool` that does not keep it from ending.
///
/// Dropping the last clone lets the threads finish
/// what they were given and joins them; dropped on one of its own workers it returns at once, and
/// a thread made for it waits for them. [`shutdown_timeout`](Self::shutdown_timeout) and
/// [`shutdown_background`](Self::shutdown_background) do not wait for ever.
///
/// A process that was forked from this one has the pool, but none of its threads: there, dropping
/// it does nothing, also not to what it waits for here, and using it may wait for ever. A new pool
/// made there works.
///
/// If the system refuses a thread, the verb that needed it panics and says so; the workers that
/// have theirs go on.
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
    /// How loops that are called through this value are balanced. It differs from the pool's own
    /// setting after [`with_balance`](Self::with_balance).
    pub(crate) balance: Balance,
    /// The maximum number of workers of loops that are called through this value. It is lower than
    /// the number of workers after [`with_max_workers`](Self::with_max_workers).
    pub(crate) most: usize,
    /// Keeps the workers alive. `None` for a handle.
    owner: Option<Arc<Owner>>,
}

/// What the clones of a pool share. The pool ends when the last of them is dropped, or earlier if
/// one of them is shut down.
#[derive(Default)]
struct Owner {
    /// The end has begun. Relaxed: the flag only decides which thread runs the end.
    ended: AtomicBool,
}

impl Pool {
    /// A pool with every knob at its default: a worker a usable core, adaptive, sticky.
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

    /// Sets knobs first.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).name("mixer").build()?;
    /// assert_eq!(pool.workers(), 2);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn builder() -> PoolBuilder {
        PoolBuilder::new()
    }

    /// How many workers the pool has now.
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

    /// Changes the number of workers, at any time and from any thread; returns at once.
    ///
    /// Added workers start with their first work. Removed ones finish what they were given
    /// before their threads end; a loop under way ends with the workers it began with.
    ///
    /// # Errors
    /// If the number is out of range, the placement cannot worker them, or the pool has been dropped;
    /// the pool is then as before.
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

    /// Runs `f` on the thread of worker `worker` (for 0 too) and gives back its result.
    ///
    /// Blocks until `f` has run: after what that worker does now and what it was told before.
    /// On that very thread it runs at once; on another worker of a pool, that worker runs its
    /// own such requests while it waits, so two that wait for each other both get on.
    ///
    /// # Errors
    /// If the pool has no such worker, has ended, or the operating system refuses the worker's
    /// thread. `f` has been dropped in that case.
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
        let mut results = scoped_job::lend(vec![f], |_, job| sent = slots.send(slot, job));
        sent.map_err(|error| slots.refused(error))?;
        Ok(results.remove(0))
    }

    /// Runs `f` once on each worker's own thread, told its index; gives back the results in the
    /// order of the workers. Blocks as [`run_on`](Self::run_on) does.
    ///
    /// # Panics
    /// Re-throws the first panic in that order, after all have ended.
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
        let results = scoped_job::lend(works, |index, job| {
            if let Err(error) = slots.send(slots.at(index), job) {
                refused.get_or_insert((index, error));
            }
        });
        if let Some((index, error)) = refused {
            slots.panic_refused(index, &error);
        }
        results
    }

    /// What each worker has done so far and where it sits.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// pool.for_each(0..100, |_| ());
    /// let items: u64 = pool.stats().workers.iter().map(|worker| worker.loop_items).sum();
    /// assert!(items <= 100); // what its caller did alone is no worker's
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.shared.stats()
    }

    /// For each worker, the threads of other processes that are pinned where it sits: with them
    /// it takes turns, while other PUs may be free. None for a worker that is not pinned.
    ///
    /// Looks at each thread on the system, which takes milliseconds: for a report, or to warn
    /// once at the start.
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
        let beside = |index| match pinning.pinned_pus(index) {
            Some(pus) => creel_topology::neighbours(&pus),
            None => Vec::new(),
        };
        (0..self.workers()).map(beside).collect()
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
            owner: self.owner.clone(),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Of several threads that drop clones at the same time, one gets the value.
        if let Some(owner) = self.owner.take().and_then(Arc::into_inner) {
            self.end(&owner, None);
        }
    }
}

impl Pool {
    /// Ends the pool as dropping its last clone does, but waits for no longer than `duration`. It
    /// ends even if there are other clones, whose methods then refuse. A [handle](Self::handle)
    /// does not own the pool, so shutting down a handle does nothing.
    ///
    /// The pool refuses new work and cancels its tasks. A worker whose thread is blocked in your
    /// code, or a [`block_on`](Self::block_on) of another thread that is not ready, can hold up its
    /// end. If the pool has not ended after `duration`, this returns all the same, and a thread that
    /// Creel makes for it waits for the rest. On one of the pool's own workers this returns at once.
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
    /// The same as [`shutdown_timeout`](Self::shutdown_timeout) with a duration of zero. The futures
    /// of its tasks may be dropped after this has returned.
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
            // Its locks may be held for ever by threads that are not here, its descriptors are
            // shared with the process that has them, and what its tasks own is that one's.
            mem::forget(Arc::clone(&self.shared));
        } else {
            // Before the window: who opens one by a handle is refused, or has it closed here.
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
