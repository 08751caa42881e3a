//! Scopes. The jobs of a scope may borrow from outside the scope, because the scope waits for all
//! of its jobs before it returns.

use crate::{
    broadcast::BroadcastContext,
    job::{Fifo, JobRef},
    latch::Latch,
    registry::{Registry, WorkerThread, lock},
    unwind::{Payload, catch},
};
use std::{
    fmt,
    marker::PhantomData,
    panic::resume_unwind,
    ptr,
    sync::{Arc, Mutex},
};

/// A scope, in which you can spawn closures that borrow from outside the scope.
pub struct Scope<'scope> {
    base: Base<'scope>,
}

/// A scope in which each thread runs its own jobs in the order in which it has spawned them.
pub struct ScopeFifo<'scope> {
    base: Base<'scope>,
    /// For each thread of the pool, the jobs that it has spawned into this scope and that have not
    /// run.
    fifos: Vec<Fifo>,
}

type Jobs<'scope> = dyn FnOnce(&Scope<'scope>) + Send + Sync + 'scope;

struct Base<'scope> {
    registry: Arc<Registry>,
    /// Counts the jobs that are not done, and the scope's own closure.
    latch: Latch,
    /// The payload of the first panic, which the scope resumes at its end.
    panic: Mutex<Option<Payload>>,
    /// Makes the type invariant in `'scope`, so that the compiler cannot shorten or extend the
    /// lifetime of the borrows.
    jobs: PhantomData<Box<Jobs<'scope>>>,
}

/// A pointer to a scope, which the jobs of the scope share.
struct Shared<T>(*const T);

// SAFETY: scopes are `Sync`, and each job is done with its scope before the scope ends.
unsafe impl<T: Sync> Send for Shared<T> {}
// SAFETY: scopes are `Sync`, and each job is done with its scope before the scope ends.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn new(scope: &T) -> Self {
        Self(ptr::from_ref(scope))
    }

    fn get(&self) -> *const T {
        self.0
    }
}

impl<'scope> Base<'scope> {
    fn new(registry: &Arc<Registry>) -> Self {
        Self {
            registry: Arc::clone(registry),
            latch: Latch::new(1),
            panic: Mutex::new(None),
            jobs: PhantomData,
        }
    }

    /// Calls `f`, and catches its panic. Keeps the payload of the first panic for the end of the
    /// scope.
    fn catch<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        match catch(f) {
            Ok(result) => Some(result),
            Err(payload) => {
                lock(&self.panic).get_or_insert(payload);
                None
            }
        }
    }

    /// Runs a job of this scope. The scope may be gone when this returns, so the function takes a
    /// raw pointer.
    ///
    /// # Safety
    ///
    /// The scope must be alive, and its latch must count the job.
    unsafe fn run(this: *const Self, f: impl FnOnce()) {
        // SAFETY: validity: the caller guarantees that the scope is alive. Aliasing: there are only
        // shared references to the scope.
        let base = unsafe { &*this };
        base.catch(f);
        // SAFETY: the scope is still alive, because its latch counts this job. This only computes
        // an address.
        let latch = unsafe { &raw const (*this).latch };
        // SAFETY: the caller guarantees that the latch counts this job.
        unsafe { Latch::done(latch) };
    }

    /// Runs the scope's own closure, and waits for the jobs.
    fn complete<R>(&self, f: impl FnOnce() -> R) -> R {
        let result = self.catch(f);
        // SAFETY: the latch counts the scope's own closure.
        unsafe { Latch::done(&raw const self.latch) };
        self.latch.wait();
        let thrown = lock(&self.panic).take();
        match (result, thrown) {
            (_, Some(payload)) => resume_unwind(payload),
            (Some(result), None) => result,
            (None, None) => unreachable!("the closure has panicked, so there is a payload"),
        }
    }

    /// Turns a closure into a job of this scope, and adds it to the latch.
    fn job(&self, f: impl FnOnce() + Send + 'scope) -> JobRef {
        self.latch.add(1);
        let this = Shared::new(self);
        let run = move || {
            // SAFETY: the latch counts the job, so the scope is alive.
            unsafe { Base::run(this.get(), f) };
        };
        // SAFETY: everything that the closure borrows outlives `'scope`, and `'scope` ends only
        // after the latch is open. The job does not unwind, because `Base::run` catches panics.
        unsafe { JobRef::boxed(run) }
    }

    /// Sends a job of this scope to each thread.
    fn send_to_all<F: Fn(BroadcastContext<'_>) + Send + Sync + 'scope>(&self, f: F) {
        struct Job<F> {
            f: F,
            scope: Shared<()>,
        }
        unsafe fn run<F: Fn(BroadcastContext<'_>)>(job: *const ()) {
            // SAFETY: the pointer comes from `Arc::into_raw`, and this call owns one count.
            let job = unsafe { Arc::from_raw(job.cast::<Job<F>>()) };
            let scope = job.scope.get().cast::<Base<'_>>();
            let f = || {
                BroadcastContext::with(&job.f);
                drop(job);
            };
            // SAFETY: the latch counts this call, so the scope is alive.
            unsafe { Base::run(scope, f) };
        }
        let threads = self.registry.threads();
        self.latch.add(threads);
        let scope = Shared(ptr::from_ref(self).cast());
        let job = Arc::new(Job { f, scope });
        for index in 0..threads {
            let data = Arc::into_raw(Arc::clone(&job));
            // SAFETY: the closure is `Send` and `Sync`. Everything that it borrows outlives
            // `'scope`, and `'scope` ends only after the latch is open. The job does not unwind,
            // because `Base::run` catches panics.
            let job = unsafe { JobRef::new(data, run::<F>) };
            // SAFETY: each thread runs its job only once.
            self.registry.send(index, move || unsafe { job.run() });
        }
    }
}

impl<'scope> Scope<'scope> {
    /// Spawns a closure into the scope. Returns at once. Of the closures that a thread has spawned,
    /// it runs the newest one first.
    pub fn spawn<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let this = Shared::new(self);
        // SAFETY: the latch counts the job, so the scope is alive.
        let job = self.base.job(move || body(unsafe { &*this.get() }));
        self.base.registry.push(job);
    }

    /// Spawns a call of `body` on each thread of the scope's pool.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let this = Shared::new(self);
        // SAFETY: the latch counts the job, so the scope is alive.
        self.base
            .send_to_all(move |context| body(unsafe { &*this.get() }, context));
    }
}

impl<'scope> ScopeFifo<'scope> {
    fn new(registry: &Arc<Registry>) -> Self {
        Self {
            base: Base::new(registry),
            fifos: (0..registry.threads()).map(|_| Fifo::default()).collect(),
        }
    }

    /// Spawns a closure into the scope. Returns at once. A thread runs the closures that it has
    /// spawned in the order in which they were spawned.
    pub fn spawn_fifo<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        let this = Shared::new(self);
        // SAFETY: the latch counts the job, so the scope is alive.
        let job = self.base.job(move || body(unsafe { &*this.get() }));
        match self.base.registry.worker() {
            // SAFETY: a ticket takes its job before that job is done, and the scope is alive until
            // all jobs are done.
            Some(worker) => worker.push(unsafe { self.fifos[worker.index].push(job) }),
            None => self.base.registry.inject(job),
        }
    }

    /// Spawns a call of `body` on each thread of the scope's pool.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&ScopeFifo<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let this = Shared::new(self);
        // SAFETY: the latch counts the job, so the scope is alive.
        self.base
            .send_to_all(move |context| body(unsafe { &*this.get() }, context));
    }
}

/// Calls `op` on a thread of the current pool. `op` may spawn closures that borrow from outside the
/// scope. Returns when all of them are done.
///
/// # Panics
/// Resumes the first panic of `op` and the closures, after all of them have ended.
///
/// ```
/// let mut words = ["one".to_string(), "two".to_string()];
/// rayon_core::scope(|s| {
///     for word in &mut words {
///         s.spawn(|_| word.make_ascii_uppercase());
///     }
/// });
/// assert_eq!(words, ["ONE", "TWO"]);
/// ```
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    match WorkerThread::current() {
        Some(worker) => in_place_scope_in(&worker.registry, op),
        None => Registry::global().run(|worker, _| in_place_scope_in(&worker.registry, op)),
    }
}

/// Does the same as [`scope`], but each thread runs the closures that it has spawned in the
/// order in which they were spawned.
///
/// # Panics
/// See [`scope`].
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    match WorkerThread::current() {
        Some(worker) => in_place_scope_fifo_in(&worker.registry, op),
        None => Registry::global().run(|worker, _| in_place_scope_fifo_in(&worker.registry, op)),
    }
}

/// Does the same as [`scope`], but calls `op` on the calling thread.
///
/// # Panics
/// See [`scope`].
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    in_place_scope_in(&Registry::current(), op)
}

/// Does the same as [`scope_fifo`], but calls `op` on the calling thread.
///
/// # Panics
/// See [`scope`].
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    in_place_scope_fifo_in(&Registry::current(), op)
}

pub(crate) fn in_place_scope_in<'scope, R>(
    registry: &Arc<Registry>,
    op: impl FnOnce(&Scope<'scope>) -> R,
) -> R {
    let scope = Scope {
        base: Base::new(registry),
    };
    scope.base.complete(|| op(&scope))
}

pub(crate) fn in_place_scope_fifo_in<'scope, R>(
    registry: &Arc<Registry>,
    op: impl FnOnce(&ScopeFifo<'scope>) -> R,
) -> R {
    let scope = ScopeFifo::new(registry);
    scope.base.complete(|| op(&scope))
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl fmt::Debug for ScopeFifo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeFifo").finish_non_exhaustive()
    }
}
