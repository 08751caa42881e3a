//! Closures that borrow, spawned in a scope that waits for them all.
//!
//! The invariant: when [`Loops::scope`] returns, each closure spawned in it has run or (after a
//! panic) been dropped. Jobs wait in the scope's own queue; whoever is idle helps to empty it,
//! the one who waits too, so a scope gets on even when no worker is free.

use super::Loops;
use crate::{
    pool::{current, panics::FirstPanic, seat::Job, shared::Shared},
    sync::{AtomicUsize, Mutex, Ordering, WaitWord, lock},
};
use std::{
    collections::VecDeque,
    fmt,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

/// Where closures are spawned that may borrow what outlives the scope (`'env`).
/// Made by [`Loops::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    shared: Arc<Shared>,
    core: Arc<Core>,
    /// The seat that the next spawned job's helper is asked of.
    next: AtomicUsize,
    /// Invariant in both, as in `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// What the scope and its helpers share.
struct Core {
    queue: Mutex<VecDeque<Job>>,
    /// Jobs spawned and not yet done, and 1 for the scope's closure while it runs.
    pending: AtomicUsize,
    panic: FirstPanic,
    /// Told that something changed: a job was spawned or the last one is done.
    waiter: Waiter,
}

enum Waiter {
    Thread(WaitWord),
    Worker(Arc<Shared>, usize),
}

impl Waiter {
    fn tell(&self) {
        match self {
            Waiter::Thread(word) => {
                word.fetch_add(1, Ordering::AcqRel);
                word.wake_one();
            }
            Waiter::Worker(shared, index) => shared.seats.seat(*index).notify(),
        }
    }
}

impl Core {
    /// Runs the oldest job; says whether there was one.
    fn help(&self) -> bool {
        let job = lock(&self.queue).pop_front();
        let found = job.is_some();
        if let Some(job) = job {
            job();
        }
        found
    }

    fn done(&self) {
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.tell();
        }
    }

    /// Blocks until nothing is pending; runs jobs meanwhile.
    fn wait(&self) {
        loop {
            while self.help() {}
            match &self.waiter {
                Waiter::Thread(word) => {
                    let seen = word.load(Ordering::Acquire);
                    if self.pending.load(Ordering::Acquire) == 0 {
                        return;
                    }
                    if lock(&self.queue).is_empty() {
                        word.wait(seen, None);
                    }
                }
                Waiter::Worker(shared, index) => {
                    let seat = shared.seats.seat(*index);
                    seat.begin_turn();
                    if self.pending.load(Ordering::Acquire) == 0 {
                        // A wake that was used up here may have been meant for other work.
                        return seat.notify();
                    }
                    if !self.help() && !seat.run_urgent() {
                        seat.park(None, || self.pending.load(Ordering::Acquire) == 0);
                    }
                }
            }
        }
    }
}

/// A closure and the count it is in, which is told last, also when the packet is dropped unrun
/// (fields drop in this order).
struct Packet<F> {
    work: F,
    done: DoneOnDrop,
}

impl<F: FnOnce()> Packet<F> {
    fn run(self) {
        let Packet { work, done } = self;
        done.0.panic.catch(work);
    }
}

/// Counts a job as done when it has run or was dropped.
struct DoneOnDrop(Arc<Core>);

impl Drop for DoneOnDrop {
    fn drop(&mut self) {
        self.0.done();
    }
}

impl Loops {
    /// Runs `f`, which may spawn closures that borrow from outside the scope, and returns when
    /// all of them are done. The calling thread helps; a worker that calls this runs only the
    /// scope's jobs and its own urgent ones meanwhile.
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
        let waiter = match current::worker() {
            Some((shared, index)) => Waiter::Worker(shared, index),
            None => Waiter::Thread(WaitWord::new(0)),
        };
        let core = Arc::new(Core {
            queue: Mutex::new(VecDeque::new()),
            pending: AtomicUsize::new(1),
            panic: FirstPanic::default(),
            waiter,
        });
        let scope = Scope {
            shared: Arc::clone(self.shared()),
            core: Arc::clone(&core),
            next: AtomicUsize::new(1),
            scope: PhantomData,
            env: PhantomData,
        };
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
        core.done();
        core.wait();
        let first = core.panic.take();
        match (result, first) {
            (Err(payload), _) | (_, Some(payload)) => resume_unwind(payload),
            (Ok(result), None) => result,
        }
    }

    /// Runs `a` and `b`, at the same time if another worker is free, and gives both results.
    /// The calling thread runs `a`. Blocks until both are done.
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
        let mut second = None;
        let first = self.scope(|s| {
            s.spawn(|| second = Some(b()));
            a()
        });
        let second = second.expect("a scope that returns has run its jobs");
        (first, second)
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a closure that any worker or the waiting caller runs.
    ///
    /// To spawn from inside a closure, let it capture the scope: `s.spawn(move || s.spawn(…))`.
    pub fn spawn(&'scope self, f: impl FnOnce() + Send + 'scope) {
        lock(&self.core.queue).push_back(self.job(f));
        self.core.waiter.tell();
        let seats = self.shared.workers();
        if seats > 1 {
            let index = self.next.fetch_add(1, Ordering::Relaxed) % seats;
            let core = Arc::clone(&self.core);
            let helper: Job = Box::new(move || while core.help() {});
            self.shared.send(self.shared.seats.seat(index), helper);
        }
    }

    /// Spawns a closure that runs on the thread of the seat `worker`.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn spawn_on(&'scope self, worker: usize, f: impl FnOnce() + Send + 'scope) {
        let seat = self.shared.seat_in_use(worker);
        self.shared.send(seat, self.job(f));
    }

    /// The closure as a job that keeps its panic and counts itself done.
    fn job(&self, f: impl FnOnce() + Send + 'scope) -> Job {
        self.core.pending.fetch_add(1, Ordering::Relaxed);
        let done = DoneOnDrop(Arc::clone(&self.core));
        let packet = Packet { work: f, done };
        let job: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || packet.run());
        // SAFETY: the same fat pointer with its lifetime forgotten. What the closure borrows
        // outlives `'scope`, and `Loops::scope` ends `'scope` only after `pending` is 0, which
        // needs `done` to be dropped; a packet drops it after the closure has run or has been
        // dropped itself.
        unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + 'scope>, Job>(job) }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("pending", &self.core.pending.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}
