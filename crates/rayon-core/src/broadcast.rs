//! Runs the same closure once on every thread of a pool. Programs use it for work that each thread
//! has to do itself, for example to set a thread-local variable.

use crate::{
    latch::Latch,
    registry::{Registry, WorkerThread},
    unwind::catch,
};
use std::{
    fmt,
    marker::PhantomData,
    panic::resume_unwind,
    sync::{Arc, Mutex},
    thread,
};

/// The context that [`broadcast`] passes to its closure. It has the index of the thread that runs
/// the closure, and the number of threads.
pub struct BroadcastContext<'a> {
    worker: &'a WorkerThread,
    /// The raw pointer makes the type neither `Send` nor `Sync`, because the context belongs to one
    /// thread.
    thread: PhantomData<*mut ()>,
}

impl<'a> BroadcastContext<'a> {
    /// Calls `f` with the context of the calling thread. The thread must belong to a pool.
    pub(crate) fn with<R>(f: impl FnOnce(BroadcastContext<'_>) -> R) -> R {
        let Some(worker) = WorkerThread::current() else {
            unreachable!("a broadcast runs on threads of a pool");
        };
        f(BroadcastContext {
            worker,
            thread: PhantomData,
        })
    }

    /// Returns the index of the thread, from 0 on.
    #[inline]
    pub fn index(&self) -> usize {
        self.worker.index
    }

    /// Returns the number of threads that run the closure.
    #[inline]
    pub fn num_threads(&self) -> usize {
        self.worker.registry.threads()
    }
}

impl fmt::Debug for BroadcastContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastContext")
            .field("index", &self.index())
            .field("num_threads", &self.num_threads())
            .finish_non_exhaustive()
    }
}

/// Calls `op` once on each thread of the current pool, and returns the results in the order of the
/// threads.
///
/// # Panics
/// Resumes a panic of `op` after all calls have ended.
///
/// ```
/// let squares = rayon_core::broadcast(|thread| thread.index() * thread.index());
/// assert_eq!(squares.len(), rayon_core::current_num_threads());
/// ```
pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    broadcast_in(&Registry::current(), &op)
}

/// Spawns one call of `op` on each thread of the current pool, and returns at once. A thread that
/// is running a job finishes the job first.
///
/// A panic of `op` is passed to the pool's panic handler. If the pool has no panic handler, it
/// aborts the process.
pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    spawn_broadcast_in(&Registry::current(), op);
}

/// The data that the threads of a [`broadcast`] share, on the stack of its caller.
struct Shared<'a, OP, R> {
    latch: Latch,
    op: &'a OP,
    results: Vec<Mutex<Option<thread::Result<R>>>>,
}

impl<OP: Fn(BroadcastContext<'_>) -> R + Sync, R: Send> Shared<'_, OP, R> {
    fn call(&self, index: usize) {
        let result = catch(|| BroadcastContext::with(self.op));
        *crate::registry::lock(&self.results[index]) = Some(result);
    }
}

/// A pointer that we send to another thread. Raw pointers are not `Send`, so this type takes the
/// responsibility.
struct Sent(*const ());

// SAFETY: `broadcast_in` keeps the target alive until all receivers are done, and nobody creates a
// mutable reference to it.
unsafe impl Send for Sent {}

impl Sent {
    fn get(&self) -> *const () {
        self.0
    }
}

pub(crate) fn broadcast_in<OP, R>(registry: &Arc<Registry>, op: &OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    unsafe fn run<OP: Fn(BroadcastContext<'_>) -> R + Sync, R: Send>(
        shared: *const (),
        index: usize,
    ) {
        let shared = shared.cast::<Shared<'_, OP, R>>();
        // SAFETY: validity: `broadcast_in` keeps `shared` alive until its latch is open, and the
        // latch still counts this call. Aliasing: there are only shared references to `shared`.
        unsafe { &*shared }.call(index);
        // SAFETY: `shared` is still alive, and this only computes an address.
        let latch = unsafe { &raw const (*shared).latch };
        // SAFETY: the latch was created with a count that includes this call.
        unsafe { Latch::done(latch) };
    }
    let own = registry.worker().map(|worker| worker.index);
    let threads = registry.threads();
    let shared = Shared {
        latch: Latch::new(threads - usize::from(own.is_some())),
        op,
        results: (0..threads).map(|_| Mutex::new(None)).collect(),
    };
    let run: unsafe fn(*const (), usize) = run::<OP, R>;
    for index in (0..threads).filter(|index| Some(*index) != own) {
        let sent = Sent((&raw const shared).cast());
        registry.send(index, move || {
            // SAFETY: the caller waits for the latch before `shared` ends. `send` does not unwind,
            // so the caller reaches the wait.
            unsafe { run(sent.get(), index) };
        });
    }
    if let Some(index) = own {
        shared.call(index);
    }
    shared.latch.wait();
    let results = shared.results.into_iter();
    let results = results.map(|result| result.into_inner().unwrap_or_else(|e| e.into_inner()));
    let mut thrown = None;
    let mut all = Vec::with_capacity(threads);
    for result in results {
        match result {
            Some(Ok(result)) => all.push(result),
            Some(Err(payload)) if thrown.is_none() => thrown = Some(payload),
            Some(Err(_)) => {}
            None => unreachable!("each thread stores its result before it opens the latch"),
        }
    }
    match thrown {
        Some(payload) => resume_unwind(payload),
        None => all,
    }
}

pub(crate) fn spawn_broadcast_in<OP>(registry: &Arc<Registry>, op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    let op = Arc::new(op);
    for index in 0..registry.threads() {
        let (op, registry_of_job) = (Arc::clone(&op), Arc::clone(registry));
        registry.enter();
        registry.send(index, move || {
            registry_of_job.catch(|| {
                BroadcastContext::with(&*op);
                drop(op);
            });
            registry_of_job.leave();
        });
    }
}
