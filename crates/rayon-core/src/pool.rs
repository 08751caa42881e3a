//! Pools that a program creates in addition to the global one.

use crate::{
    BroadcastContext, Scope, ScopeFifo, Yield,
    broadcast::{broadcast_in, spawn_broadcast_in},
    registry::Registry,
    scope::{in_place_scope_fifo_in, in_place_scope_in},
    spawn::{spawn_fifo_in, spawn_in},
};
use std::{error::Error, fmt, sync::Arc};

/// A pool of threads, which you create with a [`ThreadPoolBuilder`](crate::ThreadPoolBuilder).
///
/// When you drop the pool, its threads first run the jobs that were already spawned, and then end.
/// The drop itself does not wait for them.
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(3).build()?;
/// assert_eq!(pool.install(rayon_core::current_num_threads), 3);
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
pub struct ThreadPool {
    registry: Arc<Registry>,
}

impl ThreadPool {
    pub(crate) fn new_of(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    /// Creates a pool.
    ///
    /// # Errors
    /// Returns the same errors as [`ThreadPoolBuilder::build`](crate::ThreadPoolBuilder::build).
    #[deprecated(note = "use `ThreadPoolBuilder::build`")]
    #[allow(deprecated)]
    pub fn new(configuration: crate::Configuration) -> Result<ThreadPool, Box<dyn Error>> {
        configuration.build()
    }

    /// Returns the Creel pool that this pool runs on, as a [handle](creel::Pool::handle). rayon has
    /// no such method. See [`pool`](crate::pool()).
    pub fn creel(&self) -> creel::Pool {
        self.registry.pool.clone()
    }

    /// Calls `op` on a thread of this pool, and returns its result. Everything in `op` that uses
    /// the current pool then uses this one.
    ///
    /// # Panics
    /// If `op` panics, the method resumes the panic on the calling thread.
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        self.registry.run(|_, _| op())
    }

    /// Does the same as [`broadcast`](crate::broadcast()) in this pool.
    ///
    /// # Panics
    /// Resumes a panic of `op` after all calls have ended.
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        broadcast_in(&self.registry, &op)
    }

    /// Returns the number of threads of this pool.
    #[inline]
    pub fn current_num_threads(&self) -> usize {
        self.registry.threads()
    }

    /// Returns the index of the calling thread, if it belongs to this pool.
    #[inline]
    pub fn current_thread_index(&self) -> Option<usize> {
        self.registry.worker().map(|worker| worker.index)
    }

    /// Returns whether the deque of the calling thread has jobs, if the thread belongs to this
    /// pool.
    #[inline]
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        self.registry.worker().map(|worker| worker.has_jobs())
    }

    /// Does the same as [`join`](crate::join()) in this pool.
    ///
    /// # Panics
    /// Panics in the same cases as [`join`](crate::join()).
    pub fn join<A, B, RA, RB>(&self, oper_a: A, oper_b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.registry
            .run(|worker, injected| worker.join(|_| oper_a(), |_| oper_b(), injected))
    }

    /// Does the same as [`scope`](crate::scope()) in this pool.
    ///
    /// # Panics
    /// Panics in the same cases as [`scope`](crate::scope()).
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.registry
            .run(|worker, _| in_place_scope_in(&worker.registry, op))
    }

    /// Does the same as [`scope_fifo`](crate::scope_fifo()) in this pool.
    ///
    /// # Panics
    /// Panics in the same cases as [`scope`](crate::scope()).
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.registry
            .run(|worker, _| in_place_scope_fifo_in(&worker.registry, op))
    }

    /// Calls `op` on the calling thread, with a scope whose jobs run in this pool.
    ///
    /// # Panics
    /// Panics in the same cases as [`scope`](crate::scope()).
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        in_place_scope_in(&self.registry, op)
    }

    /// Calls `op` on the calling thread, with a scope whose jobs run in this pool, in the
    /// order in which they were spawned.
    ///
    /// # Panics
    /// Panics in the same cases as [`scope`](crate::scope()).
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        in_place_scope_fifo_in(&self.registry, op)
    }

    /// Does the same as [`spawn`](crate::spawn()) in this pool.
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        spawn_in(&self.registry, op);
    }

    /// Does the same as [`spawn_fifo`](crate::spawn_fifo()) in this pool.
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        spawn_fifo_in(&self.registry, op);
    }

    /// Does the same as [`spawn_broadcast`](crate::spawn_broadcast()) in this pool.
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        spawn_broadcast_in(&self.registry, op);
    }

    /// Does the same as [`yield_now`](crate::yield_now()), if the calling thread belongs to this
    /// pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.registry
            .worker()
            .map(|worker| Yield::new(worker.run_any()))
    }

    /// Does the same as [`yield_local`](crate::yield_local()), if the calling thread belongs to
    /// this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.registry
            .worker()
            .map(|worker| Yield::new(worker.run_own()))
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.registry.leave();
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("num_threads", &self.current_num_threads())
            .finish_non_exhaustive()
    }
}
