//! Work that borrows: run by workers while its caller waits.
//!
//! The invariant: a lent job has run or been dropped before [`lend`] returns, also when
//! something panics. No guard is involved whose leak would break it.

use super::{current, seat::Job, shared::Shared};
use crate::sync::{AtomicUsize, Ordering, WaitWord};
use std::{
    mem::{ManuallyDrop, MaybeUninit},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

/// Opens when a number of jobs are done; the thread that made it waits for that.
struct Latch {
    /// Jobs not yet done. The last decrement acquires what the others released and is itself
    /// acquired by the waiter.
    pending: AtomicUsize,
    waiter: Waiter,
}

/// Who waits: a thread from outside, or a worker, which runs its urgent jobs meanwhile, so that
/// two workers may wait for each other.
enum Waiter {
    Thread(WaitWord),
    Worker(Arc<Shared>, usize),
}

const CLOSED: u32 = 0;
const OPEN: u32 = 1;

impl Latch {
    fn new(pending: usize) -> Arc<Self> {
        let waiter = match current::worker() {
            Some((shared, index)) => Waiter::Worker(shared, index),
            None => Waiter::Thread(WaitWord::new(CLOSED)),
        };
        Arc::new(Self {
            pending: AtomicUsize::new(pending),
            waiter,
        })
    }

    fn job_done(&self) {
        if self.pending.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        match &self.waiter {
            Waiter::Thread(word) => {
                word.store(OPEN, Ordering::Release);
                word.wake_one();
            }
            Waiter::Worker(shared, index) => shared.seats.seat(*index).notify(),
        }
    }

    fn is_open(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0
    }

    /// Blocks until every job is done.
    fn wait(&self) {
        match &self.waiter {
            Waiter::Thread(word) => {
                while !self.is_open() {
                    word.wait(CLOSED, None);
                }
            }
            Waiter::Worker(shared, index) => {
                let seat = shared.seats.seat(*index);
                while !self.is_open() {
                    seat.begin_turn();
                    if !seat.run_urgent() {
                        seat.park(None, || self.is_open());
                    }
                }
                // This wait may have used up a wake that was meant for the worker's other work.
                seat.notify();
            }
        }
    }
}

/// Tells the latch when a job has run, or was dropped instead.
struct DoneOnDrop(Arc<Latch>);

impl Drop for DoneOnDrop {
    fn drop(&mut self) {
        self.0.job_done();
    }
}

/// Waits for the latch on every way out.
struct WaitOnDrop(Arc<Latch>);

impl Drop for WaitOnDrop {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// A closure, the place for its outcome and the latch; the latch is told last, also when the
/// packet is dropped unrun (fields drop in this order).
struct Packet<'a, F, R> {
    work: F,
    outcome: &'a mut Option<std::thread::Result<R>>,
    done: DoneOnDrop,
}

/// Hides what a job borrows from the rule that a function's arguments are borrowed until it
/// returns: the job tells the latch, and thereby ends its borrows, a moment before.
struct Hidden<T>(MaybeUninit<T>);

impl<T> Hidden<T> {
    fn open(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: made with a value, which is read once, as `self` is not dropped.
        unsafe { this.0.assume_init_read() }
    }
}

impl<T> Drop for Hidden<T> {
    fn drop(&mut self) {
        // SAFETY: made with a value, not opened.
        unsafe { self.0.assume_init_drop() };
    }
}

/// Runs `works` as jobs handed out by `send` (called with 0, 1, 2 … and the job), waits for
/// all, and gives their results in order.
///
/// # Panics
/// Re-throws the first panic in that order, after all jobs have ended.
pub(crate) fn lend<'a, F, R>(works: Vec<F>, mut send: impl FnMut(usize, Job)) -> Vec<R>
where
    F: FnOnce() -> R + Send + 'a,
    R: Send + 'a,
{
    let mut outcomes: Vec<_> = works.iter().map(|_| None).collect();
    let latch = Latch::new(works.len());
    {
        let _all_done = WaitOnDrop(Arc::clone(&latch));
        let packets = works.into_iter().zip(&mut outcomes);
        let jobs: Vec<Job> = packets
            .map(|(work, outcome)| {
                let done = DoneOnDrop(Arc::clone(&latch));
                let packet = Hidden(MaybeUninit::new(Packet {
                    work,
                    outcome,
                    done,
                }));
                let job: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
                    let Packet {
                        work,
                        outcome,
                        done,
                    } = packet.open();
                    *outcome = Some(catch_unwind(AssertUnwindSafe(work)));
                    drop(done);
                });
                // SAFETY: the same fat pointer with its lifetime forgotten. What it borrows
                // (from `'a`, and `outcomes`) outlives it: each job tells the latch only after
                // it has run or been dropped, and `_all_done`, dropped after `jobs` on every
                // way out of this block, waits until all have. `outcome` is a unique borrow.
                unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Job>(job) }
            })
            .collect();
        jobs.into_iter()
            .enumerate()
            .for_each(|(i, job)| send(i, job));
    }
    let results = outcomes.into_iter().map(|outcome| match outcome {
        Some(Ok(result)) => result,
        Some(Err(payload)) => resume_unwind(payload),
        None => panic!("a job was dropped before it ran"),
    });
    results.collect()
}
