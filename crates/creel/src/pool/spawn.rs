//! The methods of a [`Pool`] that spawn tasks. They differ in which worker may run the task: any
//! worker, preferably one of them, or only one. `task/spawn.rs` creates the task.

use super::Pool;
use crate::task::JoinHandle;
use std::future::Future;

impl Pool {
    /// Spawns a task that any worker of this pool may run, and returns its handle.
    ///
    /// This does not block. If you call it in one of the pool's own tasks, it wakes no worker to
    /// run the new task. If you call it elsewhere, it wakes an idle worker, unless another one is
    /// already on its way to look for work. If the pool has been dropped (a
    /// [handle](crate::Pool::handle) may outlive it), the future is dropped at once, and awaiting
    /// the task returns [`JoinError::Spawn`](crate::JoinError::Spawn).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let task = pool.spawn(async { 6 * 7 });
    /// assert_eq!(pool.block_on(task).unwrap(), 42);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.shared.tasks.spawn(future)
    }

    /// Spawns a task that only the thread of worker `worker` runs. If the pool has no such worker,
    /// the future is dropped and the handle returns [`JoinError::Spawn`](crate::JoinError::Spawn).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).name("pair").build()?;
    /// let name = pool.spawn_on(1, async { std::thread::current().name().map(String::from) });
    /// assert_eq!(pool.block_on(name).unwrap().as_deref(), Some("pair-1"));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn spawn_on<F>(&self, worker: usize, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match self.shared.slots.slot_in_use(worker) {
            Ok(slot) => self.shared.tasks.spawn_bound(slot.index, future),
            Err(error) => JoinHandle::not_spawned(error),
        }
    }

    /// Spawns a task that worker `worker` should start. Use it if the task's data are in that
    /// worker's cache. If the worker is idle, this wakes it and no other worker. If it is busy, any
    /// free worker takes the task, as with [`spawn`](Self::spawn).
    ///
    /// This is only a hint, and only for the start. Later, the task usually continues on the worker
    /// that wakes it. If a task must stay on one thread, use [`spawn_on`](Self::spawn_on).
    ///
    /// If the pool has no such worker, this does the same as [`spawn`](Self::spawn).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let halves = [0..500_u64, 500..1000];
    /// let tasks = halves.into_iter().enumerate();
    /// let tasks = tasks.map(|(worker, half)| pool.spawn_near(worker, async { half.sum::<u64>() }));
    /// let sums = tasks.map(|sum| pool.block_on(sum).unwrap());
    /// assert_eq!(sums.sum::<u64>(), 499_500);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn spawn_near<F>(&self, worker: usize, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match self.shared.slots.slot_in_use(worker) {
            Ok(slot) => self.shared.tasks.spawn_near(slot.index, future),
            Err(_) => self.spawn(future),
        }
    }

    /// Runs a closure that blocks or takes long as a task of this pool, and returns its handle. A
    /// worker that blocks cannot run anything else. Therefore, call this on a pool that you have
    /// created for such work, and not on the pool that runs your other tasks.
    ///
    /// ```
    /// let disk = creel::Pool::builder().workers(1).name("disk").build()?;
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let lines = disk.spawn_fn(|| "read slowly".split(' ').count());
    /// assert_eq!(pool.block_on(lines).unwrap(), 2);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn spawn_fn<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        self.spawn(async move { work() })
    }
}
