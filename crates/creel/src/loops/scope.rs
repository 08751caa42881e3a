//! Closures that borrow, spawned in a scope that waits for them all.
//!
//! The invariant: when [`Loops::scope`] returns, each closure spawned in it has run or (after a
//! panic) been dropped. Jobs wait in the scope's own queue, which is offered to who is idle
//! (`offers.rs`); the one who waits helps to empty it, so a scope gets on even when no worker is
//! free.

use super::protocol::{
    Protocol,
    offers::{Offer, Open},
};
use crate::{
    pool::Loops,
    seat::{
        lend,
        panics::{FirstPanic, discard},
        urgent::Job,
        waiter::Latch,
    },
    sync::{Mutex, lock},
};
use std::{
    collections::VecDeque,
    fmt,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::NonNull,
    sync::Arc,
};

/// Where closures are spawned that may borrow what outlives the scope (`'env`).
/// Made by [`Loops::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    loops: &'scope Protocol,
    core: &'scope Core<'scope>,
    open: &'scope Open<'scope>,
    /// Invariant in both, as in `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// What the scope and its helpers share.
#[repr(C)]
struct Core<'a> {
    offer: Offer,
    loops: &'a Protocol,
    queue: Mutex<VecDeque<Job>>,
    /// Counts the jobs spawned and not yet done, and the scope's closure while it runs.
    latch: Arc<Latch>,
    panic: Arc<FirstPanic>,
}

impl Core<'_> {
    /// Runs the oldest job; says whether there was one.
    ///
    /// # Safety
    ///
    /// It is a `Core` that begins with the offer, and it is alive.
    unsafe fn run(offer: NonNull<Offer>) -> bool {
        // SAFETY: validity: it is a `Core` that begins with the offer, and alive, says the caller.
        // Aliasing: it is only shared; what changes in it is locked or atomic.
        let this = unsafe { offer.cast::<Self>().as_ref() };
        // A job is in the queue before it is counted.
        if !this.loops.offers.claim(&this.offer) {
            return false;
        }
        let job = lock(&this.queue).pop_front();
        // It keeps its panic.
        job.into_iter().for_each(|job| job());
        true
    }
}

impl Loops {
    /// Runs `f`, which may spawn closures that borrow from outside the scope, and returns when
    /// all of them are done. The calling thread helps; a worker that calls this runs only the
    /// scope's jobs, what these share out themselves, and what other workers ask of it meanwhile.
    ///
    /// # Panics
    /// Re-throws the first panic of `f` or a closure, after all have ended.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut left, mut right) = (1, 2);
    /// pool.scope(|s| {
    ///     s.spawn(|| left += 10);
    ///     s.spawn_on(1, || right += 20);
    /// });
    /// assert_eq!((left, right), (11, 22));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn scope<'env, R>(
        &self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> R {
        let loops = &self.shared().loops;
        let core = Core {
            offer: Offer::new(Core::run, false),
            loops,
            queue: Mutex::new(VecDeque::new()),
            latch: Latch::new(1),
            panic: Arc::default(),
        };
        // SAFETY: `core` lives until the end of this function, is not moved, and is `Sync`; `open`
        // is dropped before it.
        let open = unsafe { Open::new(loops, NonNull::from(&core).cast()) };
        let scope = Scope {
            loops,
            core: &core,
            open: &open,
            scope: PhantomData,
            env: PhantomData,
        };
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
        core.latch.done();
        core.latch.wait(|| open.run_one() || open.help_under());
        drop(open);
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
    /// Spawns a closure that any worker or the waiting caller runs.
    ///
    /// To spawn from inside a closure, let it capture the scope: `s.spawn(move || s.spawn(…))`.
    pub fn spawn(&'scope self, f: impl FnOnce() + Send + 'scope) {
        let job = self.job(f);
        lock(&self.core.queue).push_back(job);
        self.open.add(1);
        // The one who waits may sleep.
        self.core.latch.nudge();
    }

    /// Spawns a closure that runs on the thread of the seat `worker`.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn spawn_on(&'scope self, worker: usize, f: impl FnOnce() + Send + 'scope) {
        let seats = &self.loops.seats;
        seats.send(seats.seat_in_use(worker), self.job(f));
    }

    /// The closure as a job that keeps its panic and counts itself done.
    fn job(&self, f: impl FnOnce() + Send + 'scope) -> Job {
        self.core.latch.add();
        let panic = Arc::clone(&self.core.panic);
        let work = move || {
            panic.catch(f);
        };
        // SAFETY: what the closure borrows outlives `'scope`, which `Loops::scope` ends only after
        // the latch is open.
        unsafe { lend::job(work, Arc::clone(&self.core.latch)) }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("pending", &self.core.latch.pending())
            .finish_non_exhaustive()
    }
}
