//! Runs two closures at the same time.

use super::protocol::{
    Protocol,
    shared_jobs::{Open, SharedJob},
};
use crate::{pool::Pool, sync::UnsafeCell, worker::panics::discard};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::NonNull,
    thread,
};

/// The second closure, which the thread that runs the first one publishes as a shared job.
#[repr(C)]
struct Second<'a, B, R> {
    shared_job: SharedJob,
    loops: &'a Protocol,
    work: UnsafeCell<Option<B>>,
    result: UnsafeCell<Option<thread::Result<R>>>,
}

impl<B: FnOnce() -> R + Send, R: Send> Second<'_, B, R> {
    /// # Safety
    ///
    /// It is a `Second<B, R>` that begins with the shared job, and it is alive.
    unsafe fn run(shared_job: NonNull<SharedJob>) -> bool {
        // SAFETY: Validity: the caller promises that this is a `Second<B, R>` that begins with the
        // shared job, and that it is alive. Aliasing: it is only shared. The claim below guards its
        // cells.
        let this = unsafe { shared_job.cast::<Self>().as_ref() };
        if !this.loops.shared_jobs.claim(&this.shared_job) {
            return false;
        }
        // SAFETY: Only the thread with the claim uses the cell. The owner reads it when no helper
        // is inside.
        let work = this.work.with_mut(|work| unsafe { (*work).take() });
        let result = work.map(|work| catch_unwind(AssertUnwindSafe(work)));
        // SAFETY: Validity: the cell belongs to this join, which is alive. Aliasing: there is only
        // one claim, which is the one above, and the owner reads the cell when no helper is inside.
        this.result.with_mut(|place| unsafe { *place = result });
        true
    }
}

impl Pool {
    /// Runs `a` and `b`, at the same time if another worker is free, and returns both results. The
    /// calling thread runs `a`. It then also runs `b`, unless another worker has started it. Blocks
    /// until both are done. While the caller waits, it only helps with work that `b` has shared.
    ///
    /// # Panics
    /// Resumes the panic of `a` or otherwise that of `b`, after both have ended.
    ///
    /// ```
    /// fn fibonacci(pool: &creel::Pool, n: u64) -> u64 {
    ///     if n < 2 {
    ///         return n;
    ///     }
    ///     let (a, b) = pool.join(|| fibonacci(pool, n - 1), || fibonacci(pool, n - 2));
    ///     a + b
    /// }
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert_eq!(fibonacci(&pool, 10), 55);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn join<A, B: Send>(&self, a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B) {
        fn second<'a, F: FnOnce() -> R + Send, R: Send>(
            loops: &'a Protocol,
            work: F,
        ) -> Second<'a, F, R> {
            Second {
                shared_job: SharedJob::new(Second::<F, R>::run, false),
                loops,
                work: UnsafeCell::new(Some(work)),
                result: UnsafeCell::new(None),
            }
        }
        let loops = &self.shared().loops;
        let second = second(loops, b);
        let first = {
            // SAFETY: `second` lives until the end of this function, is not moved, and `open` is
            // dropped before it. Other threads use the closure and its result, which are `Send` and
            // used only by the thread with the claim. The rest is atomic.
            let open = unsafe { Open::new(loops, NonNull::from(&second).cast()) };
            open.add(1);
            let first = catch_unwind(AssertUnwindSafe(a));
            open.run_one();
            first
        };
        // SAFETY: No helper is inside any more.
        let result = second.result.with_mut(|place| unsafe { (*place).take() });
        match (first, result) {
            (Ok(a), Some(Ok(b))) => (a, b),
            (Err(payload), other) => {
                discard(other);
                resume_unwind(payload)
            }
            (Ok(a), Some(Err(payload))) => {
                discard(a);
                resume_unwind(payload)
            }
            (Ok(_), None) => unreachable!("the second was taken and run"),
        }
    }
}
