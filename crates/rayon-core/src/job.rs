//! Jobs in the form in which the queues of a pool store them: a pointer to data, and a function
//! that runs the job. Because every job has the same form, one queue can hold closures of any type.

use crossbeam_deque::{Injector, Steal};

/// A job in a queue. The code that takes it out of the queue must run it exactly once. Dropping a
/// `JobRef` neither runs the job nor frees its memory.
#[derive(Clone, Copy)]
pub(crate) struct JobRef {
    data: *const (),
    run: unsafe fn(*const ()),
}

// SAFETY: the functions that create a job require from their callers that it may run on any thread.
unsafe impl Send for JobRef {}

impl JobRef {
    /// Creates a job that calls `run` with `data`.
    ///
    /// # Safety
    ///
    /// `run(data)` must be sound on any thread of the pool, once, and must not unwind. `data` must
    /// stay valid until then.
    pub(crate) unsafe fn new<T>(data: *const T, run: unsafe fn(*const ())) -> Self {
        let data = data.cast();
        Self { data, run }
    }

    /// Creates a job from a closure, which is moved to the heap.
    ///
    /// # Safety
    ///
    /// Everything that the closure borrows must outlive its call, and the closure must not unwind.
    pub(crate) unsafe fn boxed<F: FnOnce() + Send>(f: F) -> Self {
        unsafe fn run<F: FnOnce()>(data: *const ()) {
            // SAFETY: the pointer comes from `Box::into_raw` below, and the job runs once.
            let f = unsafe { Box::from_raw(data.cast::<F>().cast_mut()) };
            f();
        }
        Self {
            data: Box::into_raw(Box::new(f)).cast_const().cast(),
            run: run::<F>,
        }
    }

    /// Runs the job.
    ///
    /// # Safety
    ///
    /// You must call this only once per job. The compiler does not check this, because `JobRef` is
    /// `Copy`.
    pub(crate) unsafe fn run(self) {
        // SAFETY: the code that created the job guarantees that the call is sound, and our caller
        // guarantees that it happens only once.
        unsafe { (self.run)(self.data) };
    }
}

/// A queue whose jobs run in the order in which they were pushed. We need it because the deque of a
/// worker returns the youngest job first. For each job in this queue, the deque gets a *ticket*,
/// which is a job that runs the oldest job of this queue.
#[derive(Default)]
pub(crate) struct Fifo {
    jobs: Injector<JobRef>,
}

impl Fifo {
    /// Adds a job and returns its ticket.
    ///
    /// # Safety
    ///
    /// The queue must stay alive and must not move until the last ticket has taken its job.
    pub(crate) unsafe fn push(&self, job: JobRef) -> JobRef {
        unsafe fn run(fifo: *const ()) {
            // SAFETY: validity: the queue is alive, because this ticket has not taken its job yet.
            // Aliasing: there are only shared references to the queue.
            let fifo = unsafe { &*fifo.cast::<Fifo>() };
            match steal(&fifo.jobs) {
                // SAFETY: the queue returns each job once, and only this ticket runs the job that
                // it takes.
                Some(job) => unsafe { job.run() },
                None => unreachable!("there is a job for each ticket"),
            }
        }
        self.jobs.push(job);
        JobRef {
            data: std::ptr::from_ref(self).cast(),
            run,
        }
    }
}

/// Takes the oldest job of a shared queue, or returns `None` if the queue is empty.
pub(crate) fn steal(queue: &Injector<JobRef>) -> Option<JobRef> {
    loop {
        match queue.steal() {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}
