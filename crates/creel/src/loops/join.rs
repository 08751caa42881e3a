//! Two closures at the same time.

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

/// The second closure, offered by who runs the first.
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
    /// It is a `Second<B, R>` that begins with the offer, and it is alive.
    unsafe fn run(shared_job: NonNull<SharedJob>) -> bool {
        // SAFETY: validity: it is a `Second<B, R>` that begins with the offer, and alive, says the
        // caller. Aliasing: it is only shared; its cells are guarded by the claim below.
        let this = unsafe { shared_job.cast::<Self>().as_ref() };
        if !this.loops.shared_jobs.claim(&this.shared_job) {
            return false;
        }
        // SAFETY: who takes it has it alone; the owner looks when nobody is inside.
        let work = this.work.with_mut(|work| unsafe { (*work).take() });
        let result = work.map(|work| catch_unwind(AssertUnwindSafe(work)));
        // SAFETY: validity: a cell of this join, alive. Aliasing: the claim above was the only one
        // there is, and the owner looks when nobody is inside.
        this.result.with_mut(|place| unsafe { *place = result });
        true
    }
}

impl Pool {
    /// Runs `a` and `b`, at the same time if another worker is free, and gives both results.
    /// The calling thread runs `a`, and `b` too unless somebody has begun it by then. Blocks until
    /// both are done; meanwhile it helps with what `b` has itself shared out, and with nothing else.
    ///
    /// # Panics
    /// Re-throws the panic of either, after both have ended.
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
            // SAFETY: it lives until the end of this function, is not moved, and `open` is dropped
            // before. What others use of it: the closure and its result are `Send` and used by who
            // takes it only; the rest is atomic.
            let open = unsafe { Open::new(loops, NonNull::from(&second).cast()) };
            open.add(1);
            let first = catch_unwind(AssertUnwindSafe(a));
            open.run_one();
            first
        };
        // SAFETY: nobody is inside any more.
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
