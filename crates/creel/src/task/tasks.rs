//! The part of the scheduler that a pool's workers share: their local schedulers, the injection
//! queue, and the heap for threads without a local scheduler.
//!
//! The methods of [`Tasks`] are in the files that use them: `spawn.rs`, `turn.rs`, `steal.rs` and
//! `end.rs`.

use super::cell::Task;
use super::inject::Inject;
use super::local::{Counters, LocalScheduler};
use super::seeded::Seeded;
use super::slab::Heap;
use super::steal::NotifyLimiter;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, barrier, lock};
use crate::worker::slots::WorkerSlots;
use crate::worker::stats::TaskStats;
use crate::worker::table::Table;
use crossbeam_utils::CachePadded;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// The part of the scheduler that a pool's workers share.
pub(crate) struct Tasks {
    /// A weak reference to this value, from which a method makes a counted reference.
    own: Weak<Self>,
    pub(super) slots: Arc<WorkerSlots>,
    /// The local scheduler of each worker.
    pub(super) schedulers: Table<LocalScheduler>,
    /// The injection queue. It has the stealable tasks that became scheduled on a thread without a
    /// local scheduler, or that a thread has moved here from its local scheduler.
    pub(super) outside: Inject,
    pub(super) notify_limiter: NotifyLimiter,
    /// The number of the local scheduler from which a thief has stolen last and that had more tasks
    /// (`steal::search`). It is only a hint.
    pub(super) victim: CachePadded<AtomicUsize>,
    /// The state of the deterministic mode, if the pool uses it.
    pub(crate) seeded: Option<Seeded>,
    /// The local schedulers of `block_on` drivers.
    pub(super) block_on_schedulers: BlockOnSchedulers,
    /// The heap for tasks that are spawned on a thread without a local scheduler. A thread owns the
    /// heap while it holds the lock.
    pub(super) outside_heap: Mutex<OutsideHeap>,
    /// The number of tasks spawned in `outside_heap`.
    pub(super) spawned: AtomicU64,
    /// The number of tasks that were dropped again because no thread could be started.
    pub(super) refused: AtomicU64,
    /// The counts of tasks dropped at the pool's end. The thread that ends the pool writes them.
    pub(super) dropped: Counters,
}

#[derive(Default)]
pub(super) struct OutsideHeap(pub(super) Option<NonNull<Heap>>);

// SAFETY: the heap is used under the lock around it, by one thread at a time.
unsafe impl Send for OutsideHeap {}

impl Tasks {
    pub(super) fn new(slots: Arc<WorkerSlots>, seed: Option<u64>) -> Arc<Self> {
        // The LIFO slots use these barriers (`lifo.rs`).
        barrier::prepare();
        Arc::new_cyclic(|own| Self {
            own: own.clone(),
            slots,
            schedulers: Table::new(|_| LocalScheduler::new()),
            outside: Inject::new(),
            notify_limiter: NotifyLimiter::new(),
            victim: CachePadded::new(AtomicUsize::new(0)),
            seeded: seed.map(Seeded::new),
            block_on_schedulers: BlockOnSchedulers::new(),
            outside_heap: Mutex::new(OutsideHeap::default()),
            spawned: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            dropped: Counters::default(),
        })
    }

    /// Returns a counted reference to this value.
    #[cold]
    pub(super) fn counted(&self) -> Arc<Self> {
        let own = self.own.upgrade();
        own.unwrap_or_else(|| unreachable!("a reference keeps the tasks alive"))
    }

    /// Returns whether there are stealable tasks that any worker can take.
    #[inline]
    pub(super) fn any_outside(&self) -> bool {
        self.outside.len() > 0
    }

    /// Returns the local schedulers of the workers and of the `block_on` drivers.
    pub(super) fn all_schedulers(&self) -> impl Iterator<Item = &LocalScheduler> {
        self.schedulers.made().chain(self.block_on_schedulers.all())
    }

    /// Returns the statistics of the pool's tasks.
    pub(super) fn stats(&self) -> TaskStats {
        let refused = self.refused.load(Ordering::Relaxed);
        let mut stats = TaskStats {
            spawned: self.spawned.load(Ordering::Relaxed),
            cancelled: self.dropped.cancelled.get() + refused,
            ..TaskStats::default()
        };
        for scheduler in self.all_schedulers() {
            for counters in [&scheduler.counters, &scheduler.bound_counters] {
                stats.spawned += counters.spawned.get();
                stats.finished += counters.finished.get();
                stats.cancelled += counters.cancelled.get();
                stats.polls += counters.polls.get();
                stats.steals += counters.steals.get();
            }
        }
        stats
    }

    /// Calls `f` with every cell that was ever created, whether it is in use or not. Only its state
    /// word shows whether it is.
    pub(super) fn for_each_cell(&self, mut f: impl FnMut(Task)) {
        let outside = lock(&self.outside_heap).0;
        for heap in self
            .all_schedulers()
            .filter_map(LocalScheduler::heap)
            .chain(outside)
        {
            // SAFETY: only `end` orphans heaps, after all users have left.
            let heap = unsafe { heap.as_ref() };
            // SAFETY: the heap is not orphaned, and `f` uses only the state word.
            unsafe { heap.walk(|block| f(Task::from_block(block))) };
        }
    }
}

/// Local schedulers that do not belong to a worker. `block_on` callers, and threads that run
/// stranded tasks (`end.rs`), use them one after the other.
pub(super) struct BlockOnSchedulers {
    schedulers: Table<LocalScheduler>,
    /// The number of local schedulers. The `Release` store after a scheduler was created
    /// synchronizes with the `Acquire` load, so that a thread that reads the number finds each of
    /// the schedulers initialized.
    made: AtomicUsize,
    free: Mutex<Vec<usize>>,
}

impl BlockOnSchedulers {
    fn new() -> Self {
        Self {
            schedulers: Table::new(|_| LocalScheduler::new()),
            made: AtomicUsize::new(0),
            free: Mutex::default(),
        }
    }

    pub(super) fn made(&self) -> usize {
        self.made.load(Ordering::Acquire)
    }

    pub(super) fn scheduler(&self, index: usize) -> &LocalScheduler {
        self.schedulers.at(index)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &LocalScheduler> {
        (0..self.made()).map(|index| self.scheduler(index))
    }

    /// Takes a local scheduler that no other thread uses, and returns its index.
    pub(super) fn take(&self) -> usize {
        let mut free = lock(&self.free);
        free.pop().unwrap_or_else(|| {
            let index = self.made.load(Ordering::Relaxed);
            self.schedulers.at(index);
            self.made.store(index + 1, Ordering::Release);
            index
        })
    }

    /// Gives the local scheduler `index` back, which must be empty.
    pub(super) fn release(&self, index: usize) {
        lock(&self.free).push(index);
    }
}
