//! Scopes: you spawn closures that borrow, and the scope waits for all of them.
//!
//! When [`Pool::scope`] returns, each closure that was spawned in it has run. The scope is a shared
//! job (`protocol/shared_jobs.rs`), so that idle workers help. The waiting caller helps as well, so
//! a scope makes progress even if no worker is free. `scope/core.rs` explains where the jobs are.

mod core;
mod job;
mod lane;

use self::{
    core::{Core, Local, Near},
    job::ScopeJob,
};
use super::protocol::{Protocol, shared_jobs::Open};
use crate::{
    pool::Pool,
    sync::now_ns,
    worker::{error::WorkerError, inbox::Job, panics::discard, scoped_job},
};
use std::{
    fmt,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::NonNull,
    sync::Arc,
};

/// A scope, in which you can spawn closures that borrow from outside the scope (`'env`).
/// [`Pool::scope`] creates it.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::Scope;
///
/// /// Counts the nodes of a binary tree, with one job per branch.
/// fn add<'s>(s: &'s Scope<'s, '_>, depth: u32, sum: &'s std::sync::atomic::AtomicU32) {
///     sum.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///     if depth > 0 {
///         s.spawn(move || add(s, depth - 1, sum));
///         s.spawn(move || add(s, depth - 1, sum));
///     }
/// }
/// let sum = 0.into();
/// pool.scope(|s| add(s, 5, &sum));
/// assert_eq!(sum.into_inner(), 63);
/// # Ok::<(), creel::BuildError>(())
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    loops: &'scope Protocol,
    core: &'scope Core<'scope>,
    open: &'scope Open<'scope>,
    /// Makes the type invariant in both lifetimes, as in `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The time that a job waits for the worker that it is meant for, as a multiple of the time that a
/// wake takes.
const LATE_WAKES: u64 = 2;

/// Aborts the process if the wait for the jobs unwinds. The jobs store their panics, so this would
/// be a bug in Creel. Jobs that are still running would use memory that the unwinding frees.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("creel: the wait of a scope has panicked; ending the process");
        std::process::abort();
    }
}

impl Pool {
    /// Runs `f`, which may spawn closures that borrow from outside the scope, and returns when all
    /// of them are done. The calling thread helps, but only with the jobs of this scope and the
    /// work that these jobs share. If the caller is a worker, it also runs closures that other
    /// workers send to it with [`run_on`](Self::run_on).
    ///
    /// # Panics
    /// Resumes the panic of `f`, or otherwise the first panic of a closure, after all closures have
    /// ended.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut left, mut right) = (1, 2);
    /// pool.scope(|s| {
    ///     s.spawn(|| left += 10);
    ///     s.spawn_on(1, || right += 20).unwrap();
    /// });
    /// assert_eq!((left, right), (11, 22));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn scope<'env, R>(
        &self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> R {
        let loops = &self.shared().loops;
        let core = Core::new(loops);
        // SAFETY: `core` lives until the end of this function, is not moved, and is `Sync`. `open`
        // is dropped before it.
        let open = unsafe { Open::new(loops, NonNull::from(&core).cast()) };
        let scope = Scope {
            loops,
            core: &core,
            open: &open,
            scope: PhantomData,
            env: PhantomData,
        };
        let guard = AbortOnUnwind;
        let result = Local::with(&core, |local| {
            let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
            core.wait(&open, local);
            result
        });
        drop(open);
        std::mem::forget(guard);
        let first = core.panic.take();
        match (result, first) {
            (Err(payload), second) => {
                discard(second);
                resume_unwind(payload)
            }
            (Ok(result), Some(payload)) => {
                discard(result);
                resume_unwind(payload)
            }
            (Ok(result), None) => result,
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a closure, which any worker or the waiting caller runs. This does not block.
    ///
    /// To spawn a closure inside another one, let it capture the scope, for example with
    /// `s.spawn(move || s.spawn(…))`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut words = ["one".to_string(), "two".to_string()];
    /// pool.scope(|s| {
    ///     for word in &mut words {
    ///         s.spawn(|| word.make_ascii_uppercase());
    ///     }
    /// });
    /// assert_eq!(words, ["ONE", "TWO"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn spawn(&'scope self, f: impl FnOnce() + Send + 'scope) {
        // SAFETY: what the closure borrows outlives `'scope`, and `Pool::scope` only ends `'scope`
        // after all jobs have run.
        let job = unsafe { ScopeJob::new(f) };
        self.core.spawn(self.open, job);
    }

    /// Spawns a closure that worker `worker` runs if it can. Use it if the closure's data are in
    /// that worker's cache. The worker is woken if it is asleep. It may be busy, or its CPU may be.
    /// If it has not started the closure within about two wake times (tens of microseconds), a free
    /// worker or the waiting caller runs the closure. Therefore, nobody waits for a busy worker.
    ///
    /// If the pool has no such worker, this does the same as [`spawn`](Self::spawn).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut halves = [vec![1; 1000], vec![2; 1000]];
    /// for _frame in 0..3 {
    ///     pool.scope(|s| {
    ///         for (worker, half) in halves.iter_mut().enumerate() {
    ///             s.spawn_near(worker, || half.iter_mut().for_each(|x| *x += 1));
    ///         }
    ///     });
    /// }
    /// assert_eq!((halves[0][0], halves[1][999]), (4, 5));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn spawn_near(&'scope self, worker: usize, f: impl FnOnce() + Send + 'scope) {
        if self.loops.slots.slot_in_use(worker).is_err() {
            return self.spawn(f);
        }
        let until_ns = now_ns() + LATE_WAKES * self.loops.mailbox.wake_ns();
        // SAFETY: what the closure borrows outlives `'scope`, and `Pool::scope` only ends `'scope`
        // after all jobs have run.
        let job = unsafe { ScopeJob::new(f) };
        let near = Near { worker, until_ns };
        self.core.spawn_near(self.open, job, near);
    }

    /// Spawns a closure that runs on the thread of worker `worker`. This does not wait for the
    /// closure.
    ///
    /// # Errors
    /// Returns an error if the pool has no such worker, has ended, or the operating system refuses
    /// the worker's thread. The closure has been dropped in that case.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut name = None;
    /// pool.scope(|s| {
    ///     s.spawn_on(1, || name = std::thread::current().name().map(String::from))
    /// }).unwrap();
    /// assert_eq!(name.as_deref(), Some("creel-1"));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn spawn_on(
        &'scope self,
        worker: usize,
        f: impl FnOnce() + Send + 'scope,
    ) -> Result<(), WorkerError> {
        let slots = &self.loops.slots;
        let slot = slots.slot_in_use(worker)?;
        let sent = slots.send(slot, self.job(f));
        sent.map_err(|error| slots.refused(error))
    }

    /// Returns the closure as a job that stores its panic and counts itself as done.
    fn job(&self, f: impl FnOnce() + Send + 'scope) -> Job {
        self.core.latch.add();
        let panic = Arc::clone(&self.core.panic);
        let work = move || {
            panic.catch(f);
        };
        // SAFETY: What the closure borrows outlives `'scope`, and `Pool::scope` only ends `'scope`
        // after the latch is open.
        unsafe { scoped_job::job(work, Arc::clone(&self.core.latch)) }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("pending", &self.core.pending())
            .finish_non_exhaustive()
    }
}
