//! Counters a worker, cheap enough to be always on.
//!
//! Each counter is written by its own worker only, without a locked operation; readers see a
//! value that was true a moment ago.

use crate::sync::{AtomicU64, Ordering};
use creel_topology::CpuSet;
use std::time::Duration;

/// What one worker has done since it was pinned.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) inbox: Counter,
    pub(crate) timers: Counter,
    pub(crate) events: Counter,
    pub(crate) parks: Counter,
    pub(crate) parked_ns: Counter,
    pub(crate) loop_units: Counter,
    pub(crate) loop_blocks: Counter,
    pub(crate) steals: Counter,
    pub(crate) spins: Counter,
    pub(crate) spun_ns: Counter,
}

/// A number that one thread counts up and any thread may read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to the count. Only the worker that owns the counter may call this.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now.wrapping_add(n), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a pool has done.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// pool.block_on(pool.spawn(async {})).unwrap();
/// let stats = pool.stats();
/// assert_eq!((stats.workers.len(), stats.tasks.spawned), (2, 1));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PoolStats {
    /// The workers, by their index.
    pub workers: Vec<WorkerStats>,
    /// Workers beyond the number of workers, by index, whose threads go on because something is
    /// bound to them: a task of `spawn_on` or `spawn_local`, a timer.
    pub retiring: Vec<usize>,
    /// What became of the pool's tasks.
    pub tasks: TaskStats,
}

/// What became of a pool's tasks so far. When none is left, `spawned` is `finished` and
/// `cancelled` together.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// pool.block_on(pool.spawn(async { 1 })).unwrap();
/// let tasks = pool.stats().tasks;
/// assert_eq!((tasks.spawned, tasks.finished, tasks.cancelled), (1, 1, 0));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskStats {
    /// Tasks made.
    pub spawned: u64,
    /// Tasks whose future was ready, or panicked.
    pub finished: u64,
    /// Tasks whose future was dropped before.
    pub cancelled: u64,
    /// Polls begun.
    pub polls: u64,
    /// Tasks that a worker took from another's queue.
    pub steals: u64,
}

/// What one worker has done since it was pinned.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// pool.run_on(1, || ()).unwrap();
/// for (index, worker) in pool.stats().workers.iter().enumerate() {
///     println!("{index}: on {}, asleep for {:?}", worker.cpus, worker.parked);
/// }
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerStats {
    /// The PUs that it may run on; empty where the system does not tell.
    pub cpus: CpuSet,
    /// Whether the worker has a thread.
    pub started: bool,
    /// Urgent jobs run: `run_on`, `broadcast`.
    pub inbox: u64,
    /// Timers fired.
    pub timers: u64,
    /// Times that a socket was found ready.
    pub events: u64,
    /// How many times the worker went to sleep.
    pub parks: u64,
    /// How long it slept in all, as measured, not as asked for.
    pub parked: Duration,
    /// Items (of a chunked loop: chunks) that it visited in loops. A caller from outside counts
    /// as worker 0. Loops inside of others are not counted, nor are those that only one worker may
    /// run, for example on a pool of one, or on an adaptive pool on one CPU.
    pub loop_items: u64,
    /// Pieces of loops that it ran: how often it went for items.
    pub loop_pieces: u64,
    /// Those of them that it took from another's share.
    pub steals: u64,
    /// How many times the worker spun for work.
    pub spins: u64,
    /// How long it spun in all.
    pub spun: Duration,
}

impl Counters {
    pub(crate) fn read(&self, started: bool) -> WorkerStats {
        WorkerStats {
            cpus: CpuSet::new(),
            started,
            inbox: self.inbox.get(),
            timers: self.timers.get(),
            events: self.events.get(),
            parks: self.parks.get(),
            parked: Duration::from_nanos(self.parked_ns.get()),
            loop_items: self.loop_units.get(),
            loop_pieces: self.loop_blocks.get(),
            steals: self.steals.get(),
            spins: self.spins.get(),
            spun: Duration::from_nanos(self.spun_ns.get()),
        }
    }
}
