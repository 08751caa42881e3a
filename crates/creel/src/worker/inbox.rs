//! The inbox of a worker. It contains jobs from other threads, for example those of `run_on`.
//!
//! In a turn, the worker's thread runs the oldest job, after its share of a loop and before
//! everything else. A worker that waits in the middle of user code runs only jobs that other
//! workers have sent, because these may wait for them (`waiter.rs`).

use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use std::collections::VecDeque;

/// An inbox job. A worker's thread runs these in the order in which they arrived.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A job, with information about its sender.
struct Call {
    job: Job,
    /// Whether a worker has sent the job. That worker may wait for the job, and other threads may
    /// wait for that worker in turn.
    nested: bool,
    /// The id returned to the sender. It can be used to cancel the job.
    number: u64,
}

#[derive(Default)]
struct Queue {
    calls: VecDeque<Call>,
    /// The number of nested jobs in the queue, which are those that a worker has sent.
    nested: usize,
    numbers: u64,
}

/// The inbox of a worker.
#[derive(Default)]
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    /// The length of the queue, so that the worker need not take the lock if the queue is empty. It
    /// is `SeqCst`, because a worker that retires must not miss a job (see `life.rs`).
    len: AtomicUsize,
}

impl Inbox {
    /// Returns whether there is a job.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.len.load(Ordering::SeqCst) > 0
    }

    /// Appends a job and returns its id. `nested` says whether a worker sends the job. The caller
    /// must unpark the worker of this inbox afterwards.
    pub(crate) fn push(&self, job: Job, nested: bool) -> u64 {
        let mut queue = lock(&self.queue);
        queue.numbers += 1;
        let number = queue.numbers;
        queue.nested += usize::from(nested);
        queue.calls.push_back(Call {
            job,
            nested,
            number,
        });
        self.len.store(queue.calls.len(), Ordering::SeqCst);
        number
    }

    /// Takes the oldest job.
    pub(crate) fn take(&self) -> Option<Job> {
        self.take_first(|_| true)
    }

    /// Takes the oldest job that a worker has sent.
    pub(crate) fn take_nested(&self) -> Option<Job> {
        if !self.any() || lock(&self.queue).nested == 0 {
            return None;
        }
        self.take_first(|call| call.nested)
    }

    /// Takes a job back, unless it has begun.
    pub(crate) fn take_back(&self, number: u64) -> Option<Job> {
        self.take_first(|call| call.number == number)
    }

    fn take_first(&self, fits: impl Fn(&Call) -> bool) -> Option<Job> {
        if !self.any() {
            return None;
        }
        let mut queue = lock(&self.queue);
        let at = queue.calls.iter().position(fits)?;
        let call = queue.calls.remove(at)?;
        queue.nested -= usize::from(call.nested);
        self.len.store(queue.calls.len(), Ordering::SeqCst);
        Some(call.job)
    }
}
