//! Counters per worker, which are cheap enough to be always on.
//!
//! A counter is written without a locked operation, because only one thread at a time writes it.
//! Therefore no count is lost. Other threads read a value that was correct a moment ago.
//!
//! Threads that take part in a loop without being one of its workers count as one of its workers.
//! The worker itself may count at the same time, for example because it helps in the place of
//! another worker. Therefore these threads have counters of their own, which only the sum in
//! [`WorkerStats`] adds to the worker's.

use crate::sync::{AtomicU64, Ordering};
use creel_topology::CpuSet;
use std::time::Duration;

/// The counters of one worker, counted since the worker was created.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) inbox: Counter,
    pub(crate) timers: Counter,
    pub(crate) events: Counter,
    pub(crate) parks: Counter,
    pub(crate) parked_ns: Counter,
    pub(crate) spins: Counter,
    pub(crate) spun_ns: Counter,
    /// The counts of the worker itself, for its work in loops.
    pub(crate) loops: LoopCounters,
    /// The counts of callers of loops that count as this worker. A caller holds the loop lock, so
    /// only one caller at a time adds to these counters.
    pub(crate) callers: LoopCounters,
    /// The counts of threads that are not workers, for their work in loops in the place of this
    /// worker. Several such threads may add to these counters at the same time, so they use
    /// [`LoopCounters::merge`].
    pub(crate) helpers: LoopCounters,
}

/// Counts of what a thread did in loops.
#[derive(Debug, Default)]
pub(crate) struct LoopCounters {
    pub(crate) units: Counter,
    pub(crate) blocks: Counter,
    pub(crate) steals: Counter,
}

impl LoopCounters {
    /// Adds the counts of `other`. Several threads may do this at the same time, if none of them
    /// calls [`Counter::add`].
    pub(crate) fn merge(&self, other: &Self) {
        self.units.merge(&other.units);
        self.blocks.merge(&other.blocks);
        self.steals.merge(&other.steals);
    }
}

/// A counter that any thread may read. Only one thread at a time may increment it, because
/// otherwise counts are lost.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to the count. Only the thread that owns the counter calls this.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now.wrapping_add(n), Ordering::Relaxed);
    }

    /// Adds the count of `other`. Relaxed is enough, because nothing depends on the order of
    /// counts.
    fn merge(&self, other: &Self) {
        self.0.fetch_add(other.get(), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The statistics of a pool and its workers. [`Pool::stats`](crate::Pool::stats) returns them.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// pool.block_on(pool.spawn(async {})).unwrap();
/// let stats = pool.stats();
/// assert_eq!((stats.workers.len(), stats.tasks.spawned), (2, 1));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// One entry per worker, in the order of their indices.
    pub workers: Vec<WorkerStats>,
    /// The indices of removed workers whose threads still run, because something is bound to them.
    /// This can be a task of `spawn_on` or `spawn_local`, or a timer.
    pub retiring: Vec<usize>,
    /// The counts of the pool's tasks.
    pub tasks: TaskStats,
}

/// The numbers of tasks that a pool has spawned, finished and cancelled so far. When no task is
/// left, `spawned` equals `finished` plus `cancelled`.
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
    /// The number of tasks that were spawned.
    pub spawned: u64,
    /// The number of tasks whose future was ready, or panicked.
    pub finished: u64,
    /// The number of tasks whose future was dropped before it was ready.
    pub cancelled: u64,
    /// The number of polls that were started.
    pub polls: u64,
    /// The number of tasks that a worker took from another worker's queue.
    pub steals: u64,
}

/// The statistics of one worker since it was created.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// pool.run_on(1, || ()).unwrap();
/// for (index, worker) in pool.stats().workers.iter().enumerate() {
///     println!("{index}: on {}, asleep for {:?}", worker.cpus, worker.parked);
/// }
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// The CPUs that the worker may run on. The set is empty if the system does not report them.
    pub cpus: CpuSet,
    /// Whether the pool has pinned the worker to `cpus`, or will do so when its thread starts. It
    /// is false if the system refused, for example because it has no affinity masks. In this case
    /// the worker may run on any CPU that the process may use.
    pub pinned: bool,
    /// Whether the worker has a thread.
    pub started: bool,
    /// The number of inbox jobs that the worker has run. These are closures for this worker's
    /// thread, for example those of `run_on`, `broadcast` and
    /// [`Scope::spawn_on`](crate::Scope::spawn_on).
    pub inbox: u64,
    /// The number of timers that the worker has fired. If the worker is busy, another thread fires
    /// its due timers. These are not counted.
    pub timers: u64,
    /// The number of times that the worker found a socket ready.
    pub events: u64,
    /// The number of times that the worker went to sleep.
    pub parks: u64,
    /// The total time that the worker slept, as measured and not as requested.
    pub parked: Duration,
    /// The number of items that the worker visited in loops. A loop over chunks counts chunks, a
    /// loop with an outbox counts its sections, and `deliver` counts its ranges. A caller that is
    /// not one of the loop's workers counts as worker 0. Another thread that is not a worker, and
    /// that helps while it waits, counts as the worker whose place it takes.
    ///
    /// Some loops are not counted:
    ///
    /// - loops inside other loops
    /// - loops that are called while the pool runs another loop, or while one of its workers runs
    ///   other code. In the second case, a loop that is known to be tiny counts nevertheless
    /// - loops that only one worker may run, for example on a pool with one worker, or on an
    ///   adaptive pool with one CPU
    pub loop_items: u64,
    /// The number of blocks of loops that the worker ran. It is also the number of times that the
    /// worker fetched items.
    pub loop_blocks: u64,
    /// The number of these blocks that the worker took from another worker's share. The blocks that
    /// a loop's caller takes at the end, because nobody has claimed them, do not count.
    pub steals: u64,
    /// The number of times that the worker spun to wait for work.
    pub spins: u64,
    /// The total time that the worker spun.
    pub spun: Duration,
}

impl Counters {
    pub(crate) fn read(&self, started: bool) -> WorkerStats {
        let in_loops = |of: fn(&LoopCounters) -> &Counter| {
            let all = [&self.loops, &self.callers, &self.helpers];
            all.into_iter().map(|counters| of(counters).get()).sum()
        };
        WorkerStats {
            cpus: CpuSet::new(),
            pinned: false,
            started,
            inbox: self.inbox.get(),
            timers: self.timers.get(),
            events: self.events.get(),
            parks: self.parks.get(),
            parked: Duration::from_nanos(self.parked_ns.get()),
            loop_items: in_loops(|counters| &counters.units),
            loop_blocks: in_loops(|counters| &counters.blocks),
            steals: in_loops(|counters| &counters.steals),
            spins: self.spins.get(),
            spun: Duration::from_nanos(self.spun_ns.get()),
        }
    }
}
