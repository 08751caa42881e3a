//! What others want of one worker's thread: jobs that it runs before all else.

use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use std::collections::VecDeque;

/// Work that a worker's thread runs before all else, in the order it came.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A job, and what there is to know of who asks for it.
struct Call {
    job: Job,
    /// Who waits for it may itself be waited for: it is a worker.
    nested: bool,
    /// Told to who asked, to take it back by.
    number: u64,
}

#[derive(Default)]
struct Queue {
    calls: VecDeque<Call>,
    /// How many of them are nested.
    nested: usize,
    numbers: u64,
}

/// The urgent jobs of a worker.
#[derive(Default)]
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    /// The length of the queue; lets the worker pass by without the lock. `SeqCst`, against its
    /// retirement.
    len: AtomicUsize,
}

impl Inbox {
    /// Whether one waits.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.len.load(Ordering::SeqCst) > 0
    }

    /// Appends a job, and gives its number; `nested` says whether a worker waits for it. The caller
    /// notifies after.
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

    /// Takes the oldest.
    pub(crate) fn take(&self) -> Option<Job> {
        self.take_first(|_| true)
    }

    /// The same, of those that a worker waits for.
    pub(crate) fn take_nested(&self) -> Option<Job> {
        if !self.any() || lock(&self.queue).nested == 0 {
            return None;
        }
        self.take_first(|call| call.nested)
    }

    /// Takes one back, unless it has begun.
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
