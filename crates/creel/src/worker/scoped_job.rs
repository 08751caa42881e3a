//! Jobs that borrow, which other threads run while the owner of the borrowed values waits.
//!
//! Invariant: a job has stopped using everything that it borrows before it signals its latch. This
//! is the only module that erases the lifetime of an inbox job. docs/design/pool.md lists the other
//! modules that erase lifetimes.

use super::{inbox::Job, panics::discard, waiter::Latch};
use std::{
    mem::{ManuallyDrop, MaybeUninit},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    thread,
};

/// A guard that signals the latch when a job has run, or was dropped without running.
struct DoneOnDrop(Arc<Latch>);

impl Drop for DoneOnDrop {
    fn drop(&mut self) {
        self.0.done();
    }
}

/// The work of a job, and its latch. The latch is signalled last, even if the packet is dropped
/// without running, because fields are dropped in this order.
struct Packet<F> {
    work: F,
    done: DoneOnDrop,
}

/// A wrapper that hides the borrows of a packet from a rule of the language. A function's arguments
/// count as borrowed until the function returns. However, a job signals its latch, and so ends its
/// borrows, just before it returns.
struct Hidden<T>(MaybeUninit<T>);

impl<T> Hidden<T> {
    fn open(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: it was created with a value, which is read once because `self` is not dropped.
        unsafe { this.0.assume_init_read() }
    }
}

impl<T> Drop for Hidden<T> {
    fn drop(&mut self) {
        // SAFETY: it was created with a value and has not been opened.
        unsafe { self.0.assume_init_drop() };
    }
}

/// Creates a job that does `work` and then signals the latch, which must already count the job. If
/// `work` panics, the job panics.
///
/// # Safety
///
/// The caller must not let `'a` end before the latch is open.
pub(crate) unsafe fn job<'a>(work: impl FnOnce() + Send + 'a, latch: Arc<Latch>) -> Job {
    let done = DoneOnDrop(latch);
    let packet = Hidden(MaybeUninit::new(Packet { work, done }));
    let job: Box<dyn FnOnce() + Send + 'a> = Box::new(move || {
        let Packet { work, done } = packet.open();
        work();
        drop(done);
    });
    // SAFETY: this is the same fat pointer with its lifetime erased. The job drops its borrows, by
    // running or by being dropped, before it signals the latch, and `'a` lasts until then.
    unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + 'a>, Job>(job) }
}

/// A guard that waits for the latch when it is dropped, also if a panic unwinds.
struct WaitOnDrop(Arc<Latch>);

impl Drop for WaitOnDrop {
    fn drop(&mut self) {
        self.0.wait(|| false);
    }
}

/// Runs `works` as jobs, waits for all of them, and returns their results in order. It passes each
/// job to `send`, together with its index 0, 1, 2 and so on.
///
/// # Panics
///
/// Resumes the first panic of the jobs in that order, or otherwise that of `send`, after all jobs
/// have ended.
pub(crate) fn run<'a, F, R>(works: Vec<F>, mut send: impl FnMut(usize, Job)) -> Vec<R>
where
    F: FnOnce() -> R + Send + 'a,
    R: Send + 'a,
{
    let mut outcomes: Vec<Option<thread::Result<R>>> = works.iter().map(|_| None).collect();
    let latch = Latch::new(works.len());
    let sent = catch_unwind(AssertUnwindSafe(|| {
        let _all_done = WaitOnDrop(Arc::clone(&latch));
        let pairs = works.into_iter().zip(&mut outcomes);
        let jobs: Vec<Job> = pairs
            .map(|(work, outcome)| {
                let work = move || *outcome = Some(catch_unwind(AssertUnwindSafe(work)));
                // SAFETY: the job borrows from `'a`, and from its own element of `outcomes`. Both
                // outlive this block. `_all_done` waits for the latch, and is dropped after `jobs`,
                // however the block is left.
                unsafe { job(work, Arc::clone(&latch)) }
            })
            .collect();
        jobs.into_iter()
            .enumerate()
            .for_each(|(i, job)| send(i, job));
    }));
    let mut thrown = None;
    let mut results = Vec::with_capacity(outcomes.len());
    for outcome in outcomes {
        match outcome {
            Some(Ok(result)) => results.push(result),
            Some(Err(payload)) if thrown.is_none() => thrown = Some(payload),
            Some(Err(payload)) => discard(payload),
            None => {}
        }
    }
    match thrown.map_or(sent, Err) {
        Ok(()) => results,
        Err(payload) => {
            results.into_iter().for_each(discard);
            resume_unwind(payload)
        }
    }
}
