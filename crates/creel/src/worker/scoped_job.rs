//! Work that borrows: run by other threads while its lender waits.
//!
//! The invariant: what a job borrows is not used any more when the job's latch is told. This is
//! the one place where a lifetime is forgotten.

use super::{inbox::Job, panics::discard, waiter::Latch};
use std::{
    mem::{ManuallyDrop, MaybeUninit},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    thread,
};

/// Tells the latch when a job has run, or was dropped instead.
struct DoneOnDrop(Arc<Latch>);

impl Drop for DoneOnDrop {
    fn drop(&mut self) {
        self.0.done();
    }
}

/// What a job does, and the latch, which is told last, also when the packet is dropped unrun
/// (fields drop in this order).
struct Packet<F> {
    work: F,
    done: DoneOnDrop,
}

/// Hides what a packet borrows from the rule that a function's arguments are borrowed until it
/// returns: a job tells the latch, and thereby ends its borrows, a moment before.
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

/// A job that does `work` and then tells the latch, which counts it already. If `work` panics, it
/// is the job that does.
///
/// # Safety
///
/// The caller does not let `'a` end before the latch is open.
pub(crate) unsafe fn job<'a>(work: impl FnOnce() + Send + 'a, latch: Arc<Latch>) -> Job {
    let done = DoneOnDrop(latch);
    let packet = Hidden(MaybeUninit::new(Packet { work, done }));
    let job: Box<dyn FnOnce() + Send + 'a> = Box::new(move || {
        let Packet { work, done } = packet.open();
        work();
        drop(done);
    });
    // SAFETY: the same fat pointer with its lifetime forgotten. The job drops what it borrows, by
    // running or by being dropped, before it tells the latch, and until then `'a` lasts.
    unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + 'a>, Job>(job) }
}

/// Waits for the latch on every way out.
struct WaitOnDrop(Arc<Latch>);

impl Drop for WaitOnDrop {
    fn drop(&mut self) {
        self.0.wait(|| false);
    }
}

/// Runs `works` as jobs handed out by `send` (called with 0, 1, 2 … and the job), waits for
/// all, and gives their results in order.
///
/// # Panics
/// Re-throws the first panic in that order, or else that of `send`, after all jobs have ended.
pub(crate) fn lend<'a, F, R>(works: Vec<F>, mut send: impl FnMut(usize, Job)) -> Vec<R>
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
                // SAFETY: what it borrows (from `'a`, and a place of `outcomes` of its own)
                // outlives this block, and `_all_done`, dropped after `jobs` on every way out of
                // it, waits for the latch.
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
