//! How a thread waits for jobs of a pool.

use crate::registry::{Registry, WorkerThread};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, Thread},
};

/// A thread that waits, or is about to.
#[derive(Clone)]
pub(crate) enum Waiter {
    /// A thread that belongs to no pool. It sleeps.
    Outside(Thread),
    /// A worker, which runs other jobs of its pool in the meantime.
    Worker(Arc<Registry>, usize),
}

impl Waiter {
    pub(crate) fn current() -> Self {
        match WorkerThread::current() {
            Some(worker) => Self::Worker(Arc::clone(&worker.registry), worker.index),
            None => Self::Outside(thread::current()),
        }
    }

    /// Makes the thread check its condition again.
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
    /// The number of jobs that are not done. It is `SeqCst`, because a waiter checks it before it
    /// sleeps.
    pending: AtomicUsize,
    waiter: Waiter,
}

impl Latch {
    /// Creates a latch for the calling thread.
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

    /// Records that a job is done. The latch may be gone when this returns.
    ///
    /// # Safety
    ///
    /// `this` points to a latch that counts this job.
    pub(crate) unsafe fn done(this: *const Self) {
        // SAFETY: the latch is alive, because it still counts this job. It is only shared.
        let latch = unsafe { &*this };
        let mut pending = latch.pending.load(Ordering::Relaxed);
        loop {
            // After the last step the latch may be gone, so we need the waiter before it.
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
