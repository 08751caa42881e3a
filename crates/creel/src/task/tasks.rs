//! A pool's part of the scheduler: what is no worker's.

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
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// A pool's part of the scheduler.
pub(crate) struct Tasks {
    /// Itself, for those who have only a reference.
    own: Weak<Self>,
    pub(super) slots: Arc<WorkerSlots>,
    /// By worker.
    pub(super) schedulers: Table<LocalScheduler>,
    /// Stealable tasks that became scheduled on a thread without a local scheduler.
    pub(super) outside: Inject,
    pub(super) notify_limiter: NotifyLimiter,
    /// In the deterministic mode.
    pub(crate) seeded: Option<Seeded>,
    /// The schedulers of those who stand in for workers.
    pub(super) block_on_schedulers: BlockOnSchedulers,
    /// The heap for tasks spawned on a thread without a local scheduler, which owns it while it holds the
    /// lock.
    pub(super) outside_heap: Mutex<OutsideHeap>,
    /// Tasks spawned there.
    pub(super) spawned: AtomicU64,
    /// Those of them that were dropped again, because no thread could be had.
    pub(super) refused: AtomicU64,
    /// What was dropped at the pool's end, by the one who ends it.
    pub(super) dropped: Counters,
}

#[derive(Default)]
pub(super) struct OutsideHeap(pub(super) Option<NonNull<Heap>>);

// SAFETY: the heap is used under the lock around this, by one thread at a time.
unsafe impl Send for OutsideHeap {}

impl Tasks {
    pub(crate) fn new(slots: Arc<WorkerSlots>, seed: Option<u64>) -> Arc<Self> {
        // For the LIFO slots.
        barrier::prepare();
        Arc::new_cyclic(|own| Self {
            own: own.clone(),
            slots,
            schedulers: Table::new(|_| LocalScheduler::new()),
            outside: Inject::new(),
            notify_limiter: NotifyLimiter::new(),
            seeded: seed.map(Seeded::new),
            block_on_schedulers: BlockOnSchedulers::new(),
            outside_heap: Mutex::new(OutsideHeap::default()),
            spawned: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            dropped: Counters::default(),
        })
    }

    /// These, counted.
    #[cold]
    pub(super) fn counted(&self) -> Arc<Self> {
        let own = self.own.upgrade();
        own.unwrap_or_else(|| unreachable!("who has a reference keeps the tasks"))
    }

    /// Whether stealable tasks lie where any worker takes them.
    #[inline]
    pub(crate) fn any_outside(&self) -> bool {
        self.outside.len() > 0
    }

    /// The schedulers of the workers, and of those who stand in for workers.
    pub(super) fn all_schedulers(&self) -> impl Iterator<Item = &LocalScheduler> {
        self.schedulers.made().chain(self.block_on_schedulers.all())
    }

    /// What became of the pool's tasks.
    pub(crate) fn stats(&self) -> TaskStats {
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

    /// Calls `f` with every cell that there ever was, in use or not: only the word tells.
    pub(super) fn for_each_cell(&self, mut f: impl FnMut(Task)) {
        let outside = lock(&self.outside_heap).0;
        for heap in self
            .all_schedulers()
            .filter_map(LocalScheduler::heap)
            .chain(outside)
        {
            // SAFETY: heaps are orphaned by `end` only, after everybody has left.
            let heap = unsafe { heap.as_ref() };
            // SAFETY: not orphaned, and only the word is used.
            unsafe { heap.walk(|block| f(Task::from_block(block))) };
        }
    }
}

/// Desks that belong to no worker, lent to one caller of `block_on` after the other.
pub(super) struct BlockOnSchedulers {
    schedulers: Table<LocalScheduler>,
    /// How many there are. Release and acquire: who sees one finds it made.
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

    /// A local scheduler that nobody else has.
    pub(super) fn take(&self) -> usize {
        let mut free = lock(&self.free);
        free.pop().unwrap_or_else(|| {
            let index = self.made.load(Ordering::Relaxed);
            self.schedulers.at(index);
            self.made.store(index + 1, Ordering::Release);
            index
        })
    }

    /// Gives one back, which is empty.
    pub(super) fn return_lease(&self, index: usize) {
        lock(&self.free).push(index);
    }
}
