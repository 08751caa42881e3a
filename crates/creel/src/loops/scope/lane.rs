//! The queue of the jobs that one thread spawns, from which other threads steal.
//!
//! The owner pushes at the bottom. Everybody takes the oldest jobs from the top, by a
//! compare-and-swap of `top`. A thief takes up to half of the jobs at once, so that it disturbs the
//! owner rarely. As long as nobody steals, all cache lines stay with the owner.
//!
//! A thief holds a lock from before it moves `top` until it has moved the jobs out. The owner takes
//! this lock only when it has to reuse places, or to get more of them. Therefore it never
//! overwrites a job that a thief is about to read.

use crate::sync::{AtomicUsize, Mutex, Ordering, UnsafeCell, lock};
use crossbeam_utils::CachePadded;
use std::mem::MaybeUninit;

/// The number of jobs in a segment, which is a power of two.
const SEGMENT: usize = if cfg!(any(creel_loom, creel_shuttle)) {
    2
} else {
    1024
};
/// The maximum number of segments that [`Lane::take_segments`] returns. A segment of a scope has 32
/// KB.
const KEPT: usize = 128;
/// The maximum number of jobs that a thief takes at once.
pub(super) const BATCH: usize = if cfg!(any(creel_loom, creel_shuttle)) {
    2
} else {
    32
};

/// Memory for jobs.
pub(super) type Segment<T> = Box<[UnsafeCell<MaybeUninit<T>>]>;

pub(super) struct Lane<T> {
    own: CachePadded<Own<T>>,
    steal: CachePadded<Steal>,
}

/// The cache line that the owner writes.
struct Own<T> {
    /// The index after the youngest job. Only the owner writes it. The `Release` store in `push`
    /// synchronizes with a thief's `Acquire` load, so that the thief sees the job.
    bottom: AtomicUsize,
    /// The owner checks for room when `bottom` reaches this index. Only the owner uses it, so
    /// relaxed is enough.
    limit: AtomicUsize,
    /// Segment *n* has [`SEGMENT`] jobs, whose indices begin at *n* times [`SEGMENT`]. It is the
    /// entry *n* modulo the length of the table, which is a power of two. The owner changes the
    /// table under the lock, and thieves read it under the lock. A place in a segment belongs to
    /// the thread that has moved `top` over its index, and otherwise to the owner.
    table: UnsafeCell<Vec<Segment<T>>>,
    /// Segments (memory for jobs) that are not in use. Only the owner of the lane uses them.
    spare: UnsafeCell<Vec<Segment<T>>>,
}

/// The cache line that thieves write.
struct Steal {
    /// The index of the oldest job. A thread that moves it on owns the jobs in between. It is moved
    /// by an `AcqRel` exchange and read with `Acquire`, for two reasons:
    ///
    /// - A thief's exchange synchronizes with the owner's load in `len`. Therefore an owner that
    ///   finds its lane empty sees everything that the thieves did before they took the jobs.
    /// - The thread that moves `top` has read a `bottom` at or above the new value. A thread that
    ///   reads this `top` first and then `bottom` reads the same `bottom` or a newer one.
    ///   Otherwise, `len` could wrap below 0.
    top: AtomicUsize,
    /// The number of times that a thief has taken jobs. It is written under the lock. For threads
    /// without the lock, it is a hint.
    steals: AtomicUsize,
    lock: Mutex<()>,
}

// SAFETY: the places are used as their field says, and `T` may move to other threads.
unsafe impl<T: Send> Sync for Lane<T> {}

/// A batch of jobs that a thief has taken from a lane.
pub(super) struct Batch<T> {
    items: [MaybeUninit<T>; BATCH],
    count: usize,
}

impl<T> Batch<T> {
    /// Calls `f` with each job, from the oldest to the youngest.
    pub(super) fn for_each(self, mut f: impl FnMut(T)) {
        for item in self.items.into_iter().take(self.count) {
            // SAFETY: the first `count` items are there, and each of them is moved out once.
            f(unsafe { item.assume_init() });
        }
    }
}

fn segment<T>() -> Segment<T> {
    (0..SEGMENT)
        .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
        .collect()
}

impl<T> Lane<T> {
    /// Creates an empty lane, which uses this memory.
    pub(super) fn new(spare: Vec<Segment<T>>) -> Self {
        Self {
            own: CachePadded::new(Own {
                bottom: AtomicUsize::new(0),
                limit: AtomicUsize::new(0),
                table: UnsafeCell::new(Vec::new()),
                spare: UnsafeCell::new(spare),
            }),
            steal: CachePadded::new(Steal {
                top: AtomicUsize::new(0),
                steals: AtomicUsize::new(0),
                lock: Mutex::new(()),
            }),
        }
    }

    /// Returns the number of jobs, which may be out of date on other threads than the owner's. If
    /// the owner sees 0, it also sees everything that the thieves did before they took the jobs.
    pub(super) fn len(&self) -> usize {
        let top = self.steal.top.load(Ordering::Acquire);
        self.own.bottom.load(Ordering::Acquire).wrapping_sub(top)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how often thieves have taken jobs.
    pub(super) fn steals(&self) -> usize {
        self.steal.steals.load(Ordering::Relaxed)
    }

    /// Adds a job.
    ///
    /// # Safety
    ///
    /// The calling thread owns the lane.
    #[inline(always)]
    pub(super) unsafe fn push(&self, job: T) {
        let bottom = self.own.bottom.load(Ordering::Relaxed);
        if bottom == self.own.limit.load(Ordering::Relaxed) {
            self.make_room(bottom);
        }
        self.own.table.with(|table| {
            // SAFETY: validity: the table lives as long as the lane. Aliasing: only the owner
            // changes it, and the owner is here.
            let table = unsafe { &*table };
            place(table, bottom).with_mut(|place| {
                // SAFETY: validity: the place is in a segment. Aliasing: the index is below the
                // limit, so all threads are done with this place.
                unsafe { place.write(MaybeUninit::new(job)) };
            });
        });
        self.own
            .bottom
            .store(bottom.wrapping_add(1), Ordering::Release);
    }

    /// Ensures that the next segment is in the table and not in use, and moves the limit behind it.
    #[cold]
    #[inline(never)]
    fn make_room(&self, bottom: usize) {
        let _lock = lock(&self.steal.lock);
        let first = self.steal.top.load(Ordering::Acquire) / SEGMENT;
        let next = bottom / SEGMENT;
        self.own.table.with_mut(|table| {
            // SAFETY: validity: the table lives as long as the lane. Aliasing: this thread is the
            // owner and holds the lock, so no other thread uses the table.
            let table = unsafe { &mut *table };
            // The numbers of segments wrap around together with the indices of jobs.
            let used = next.wrapping_sub(first) & (usize::MAX / SEGMENT);
            let len = table.len();
            if used >= len {
                let mut old = std::mem::take(table);
                table.resize_with(2 * used.next_power_of_two(), || Box::new([]));
                for n in (0..used).map(|n| first.wrapping_add(n)) {
                    let at = n & (table.len() - 1);
                    table[at] = std::mem::take(&mut old[n & (len - 1)]);
                }
            }
            let at = next & (table.len() - 1);
            if table[at].is_empty() {
                let spare = self.own.spare.with_mut(|spare| {
                    // SAFETY: only the owner uses the spare segments.
                    let spare = unsafe { &mut *spare };
                    spare.pop()
                });
                table[at] = spare.unwrap_or_else(segment);
            }
        });
        let limit = bottom.wrapping_add(SEGMENT);
        self.own.limit.store(limit, Ordering::Relaxed);
    }

    /// Takes the memory of a lane that is no longer used.
    pub(super) fn take_segments(&mut self) -> Vec<Segment<T>> {
        let take = |cell: &UnsafeCell<Vec<Segment<T>>>| {
            cell.with_mut(|cell| {
                // SAFETY: the lane is borrowed exclusively, so no other thread uses it.
                let cell = unsafe { &mut *cell };
                std::mem::take(cell)
            })
        };
        let mut segments = take(&self.own.spare);
        let used = take(&self.own.table);
        segments.extend(used.into_iter().filter(|segment| !segment.is_empty()));
        segments.truncate(KEPT);
        segments
    }

    /// Takes the oldest job.
    ///
    /// # Safety
    ///
    /// The calling thread owns the lane.
    #[inline(always)]
    pub(super) unsafe fn pop(&self) -> Option<T> {
        let bottom = self.own.bottom.load(Ordering::Relaxed);
        let mut top = self.steal.top.load(Ordering::Acquire);
        while top != bottom {
            let next = top.wrapping_add(1);
            match self.move_top(top, next) {
                Ok(_) => {
                    return self.own.table.with(|table| {
                        // SAFETY: validity: the table lives as long as the lane. Aliasing: only the
                        // owner changes it, and the owner is here.
                        let table = unsafe { &*table };
                        // SAFETY: this thread has moved `top` over the index, so the job belongs to
                        // it.
                        Some(unsafe { read(table, top) })
                    });
                }
                Err(now) => top = now,
            }
        }
        None
    }

    #[inline(always)]
    fn move_top(&self, from: usize, to: usize) -> Result<usize, usize> {
        let top = &self.steal.top;
        top.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Takes the older half of the jobs, but at most [`BATCH`]. Returns `None` if the lane is
    /// empty.
    pub(super) fn steal(&self) -> Option<Batch<T>> {
        if self.is_empty() {
            return None;
        }
        let _lock = lock(&self.steal.lock);
        let mut top = self.steal.top.load(Ordering::Acquire);
        let count = loop {
            let bottom = self.own.bottom.load(Ordering::Acquire);
            let count = bottom.wrapping_sub(top).div_ceil(2).min(BATCH);
            if count == 0 {
                return None;
            }
            match self.move_top(top, top.wrapping_add(count)) {
                Ok(_) => break count,
                Err(now) => top = now,
            }
        };
        let steals = self.steals().wrapping_add(1);
        self.steal.steals.store(steals, Ordering::Relaxed);
        let mut items = [const { MaybeUninit::uninit() }; BATCH];
        self.own.table.with(|table| {
            // SAFETY: validity: the table lives as long as the lane. Aliasing: the owner changes it
            // under the lock only, which this thread holds.
            let table = unsafe { &*table };
            for (n, item) in items.iter_mut().enumerate().take(count) {
                // SAFETY: this thread has moved `top` over the index, so the job belongs to it.
                item.write(unsafe { read(table, top.wrapping_add(n)) });
            }
        });
        Some(Batch { items, count })
    }
}

/// Returns the place of the job with this index. The table must have a segment for it.
#[inline(always)]
fn place<T>(table: &[Segment<T>], index: usize) -> &UnsafeCell<MaybeUninit<T>> {
    &table[(index / SEGMENT) & (table.len() - 1)][index % SEGMENT]
}

/// Moves the job of an index out of its place.
///
/// # Safety
///
/// The calling thread has moved `top` over the index, and calls this once for it. The table does
/// not change during the call.
#[inline(always)]
unsafe fn read<T>(table: &[Segment<T>], index: usize) -> T {
    let place = place(table, index);
    place.with(|place| {
        // SAFETY: validity: the place is in a segment. Aliasing: it belongs to this thread.
        let job = unsafe { place.read() };
        // SAFETY: the owner has written the job before it moved `bottom` over the index.
        unsafe { job.assume_init() }
    })
}

/// A model for loom. Run it with
/// `cargo test --release --manifest-path crates/models/Cargo.toml --features loom --lib lane`.
#[cfg(all(test, creel_loom))]
mod model {
    use super::*;
    use loom::{model::Builder, thread};
    use std::sync::Arc;

    /// The owner pushes `jobs` jobs, so that the lane grows and reuses places, and takes what is
    /// left. Thieves steal. Each job is taken once.
    fn check(jobs: usize, thieves: usize, preemptions: usize) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let lane = Arc::new(Lane::new(Vec::new()));
            let thieves: Vec<_> = (0..thieves)
                .map(|_| {
                    let lane = Arc::clone(&lane);
                    thread::spawn(move || {
                        let mut taken = Vec::new();
                        let batch = lane.steal();
                        batch
                            .into_iter()
                            .for_each(|b| b.for_each(|job| taken.push(job)));
                        taken
                    })
                })
                .collect();
            let mut taken = Vec::new();
            for job in 0..jobs {
                // SAFETY: this thread owns the lane.
                unsafe { lane.push(Box::new(job)) };
                if job == 1 {
                    // SAFETY: this thread owns the lane.
                    taken.extend(unsafe { lane.pop() });
                }
            }
            // SAFETY: this thread owns the lane.
            taken.extend(std::iter::from_fn(|| unsafe { lane.pop() }));
            assert!(lane.is_empty());
            for thief in thieves {
                taken.extend(thief.join().expect("no panic"));
            }
            let mut taken: Vec<usize> = taken.into_iter().map(|job| *job).collect();
            taken.sort_unstable();
            assert_eq!(
                taken,
                (0..jobs).collect::<Vec<_>>(),
                "each job is taken once"
            );
        });
    }

    #[test]
    fn each_job_of_a_lane_is_taken_once() {
        check(4, 1, 3);
    }

    #[test]
    fn two_thieves_take_different_jobs_of_a_lane() {
        check(3, 2, 2);
    }
}
