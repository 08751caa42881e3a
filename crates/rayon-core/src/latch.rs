//! Latches, with which a thread waits until a number of jobs are done. A thread of a pool does not
//! sleep while there is work, but runs other jobs until then.

use crate::registry::{Registry, WorkerThread};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, Thread},
};

/// The thread that waits for a latch, or will wait for it.
#[derive(Clone)]
pub(crate) enum Waiter {
    /// A thread that belongs to no pool. It sleeps until it is unparked.
    Outside(Thread),
    /// A thread of a pool, with its index. It runs other jobs of its pool while it waits.
    Worker(Arc<Registry>, usize),
}

impl Waiter {
    pub(crate) fn current() -> Self {
        match WorkerThread::current() {
            Some(worker) => Self::Worker(Arc::clone(&worker.registry), worker.index),
            None => Self::Outside(thread::current()),
        }
    }

    /// Makes the waiting thread check its condition again.
    fn wake(&self) {
        match self {
            Self::Outside(thread) => thread.unpark(),
            Self::Worker(registry, index) => registry.wake(*index),
        }
    }
}

/// A latch that opens when a number of jobs are done. Only the thread that has created it waits for
/// it.
pub(crate) struct Latch {
    /// The number of jobs that are not done. The accesses that open and check the latch are
    /// `SeqCst`, because the waiter checks the number before it sleeps, and must not miss the last
    /// job.
    pending: AtomicUsize,
    waiter: Waiter,
}

impl Latch {
    /// Creates a latch for `pending` jobs. The calling thread must be the thread that waits for it
    /// later.
    pub(crate) fn new(pending: usize) -> Self {
        Self {
            pending: AtomicUsize::new(pending),
            waiter: Waiter::current(),
        }
    }

    /// Adds jobs. The latch must not be open yet.
    pub(crate) fn add(&self, jobs: usize) {
        self.pending.fetch_add(jobs, Ordering::Relaxed);
    }

    /// Records that a job is done. The waiting thread may free the latch before this function
    /// returns, so it takes a raw pointer.
    ///
    /// # Safety
    ///
    /// `this` must point to a latch that is alive and counts this job.
    pub(crate) unsafe fn done(this: *const Self) {
        // SAFETY: validity: the latch is alive, because it still counts this job. Aliasing: there
        // are only shared references to the latch.
        let latch = unsafe { &*this };
        let mut pending = latch.pending.load(Ordering::Relaxed);
        loop {
            // We clone the waiter before the exchange, because the latch may be gone after it.
            let waiter = (pending == 1).then(|| latch.waiter.clone());
            let less = latch.pending.compare_exchange_weak(
                pending,
                pending - 1,
                Ordering::SeqCst,
                Ordering::Relaxed,
            );
            match less {
                Ok(_) => {
                    if let Some(waiter) = waiter {
                        waiter.wake();
                    }
                    return;
                }
                Err(now) => pending = now,
            }
        }
    }

    fn is_open(&self) -> bool {
        self.pending.load(Ordering::SeqCst) == 0
    }

    /// Blocks the thread that has created the latch until all jobs are done.
    pub(crate) fn wait(&self) {
        match WorkerThread::current() {
            Some(worker) => worker.work_until(|| self.is_open()),
            None => {
                while !self.is_open() {
                    thread::park();
                }
            }
        }
    }
}
