//! A pool's part of the scheduler: what is no seat's.

use super::cell::Task;
use super::desk::{Counters, Desk};
use super::inject::Inject;
use super::seeded::Seeded;
use super::slab::Heap;
use super::steal::Calls;
use crate::pool::TaskStats;
use crate::pool::shared::Shared;
use crate::seat::table::Table;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, barrier, lock};
use std::ptr::NonNull;

/// A pool's part of the scheduler.
pub(crate) struct Tasks {
    /// Stealable tasks that became scheduled on a thread without a desk.
    pub(crate) outside: Inject,
    pub(super) calls: Calls,
    /// In the deterministic mode.
    pub(super) seeded: Option<Seeded>,
    /// The desks of those who stand in for workers.
    pub(super) guests: Guests,
    /// The heap for tasks spawned on a thread without a desk, which owns it while it holds the
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

// The user's code runs under `catch_unwind` or leaves the pool's own data whole.
impl std::panic::UnwindSafe for Shared {}
impl std::panic::RefUnwindSafe for Shared {}

impl Tasks {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        // For the LIFO slots.
        barrier::prepare();
        Self {
            outside: Inject::new(),
            calls: Calls::new(),
            seeded: seed.map(Seeded::new),
            guests: Guests::new(),
            outside_heap: Mutex::new(OutsideHeap::default()),
            spawned: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            dropped: Counters::default(),
        }
    }

    /// Whether no thread is to be started.
    pub(crate) fn is_seeded(&self) -> bool {
        self.seeded.is_some()
    }
}

/// Desks that belong to no seat, lent to one caller of `block_on` after the other.
pub(super) struct Guests {
    desks: Table<Desk>,
    /// How many there are. Release and acquire: who sees one finds it made.
    made: AtomicUsize,
    free: Mutex<Vec<usize>>,
}

impl Guests {
    fn new() -> Self {
        Self {
            desks: Table::new(|_| Desk::new()),
            made: AtomicUsize::new(0),
            free: Mutex::default(),
        }
    }

    pub(super) fn made(&self) -> usize {
        self.made.load(Ordering::Acquire)
    }

    pub(super) fn desk(&self, index: usize) -> &Desk {
        self.desks.at(index)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Desk> {
        (0..self.made()).map(|index| self.desk(index))
    }

    /// A desk that nobody else has.
    pub(super) fn take(&self) -> usize {
        let mut free = lock(&self.free);
        free.pop().unwrap_or_else(|| {
            let index = self.made.load(Ordering::Relaxed);
            self.desks.at(index);
            self.made.store(index + 1, Ordering::Release);
            index
        })
    }

    /// Gives one back, which is empty.
    pub(super) fn give_back(&self, index: usize) {
        lock(&self.free).push(index);
    }
}

/// What became of the pool's tasks.
pub(crate) fn stats(pool: &Shared) -> TaskStats {
    let tasks = &pool.tasks;
    let refused = tasks.refused.load(Ordering::Relaxed);
    let mut stats = TaskStats {
        spawned: tasks.spawned.load(Ordering::Relaxed),
        cancelled: tasks.dropped.cancelled.get() + refused,
        ..TaskStats::default()
    };
    let seats = pool.seats.made().map(|seat| &seat.desk);
    for desk in seats.chain(tasks.guests.all()) {
        for counters in [&desk.counters, &desk.bound_counters] {
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
pub(super) fn for_each_cell(pool: &Shared, mut f: impl FnMut(Task)) {
    let outside = lock(&pool.tasks.outside_heap).0;
    let seats = pool.seats.made().map(|seat| &seat.desk);
    let desks = seats.chain(pool.tasks.guests.all());
    for heap in desks.filter_map(Desk::heap).chain(outside) {
        // SAFETY: heaps are orphaned by `end` only, after everybody has left.
        let heap = unsafe { heap.as_ref() };
        // SAFETY: not orphaned, and only the word is used.
        unsafe { heap.walk(|block| f(Task::from_block(block))) };
    }
}
