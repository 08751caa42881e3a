//! The verbs of tasks.

use super::Pool;
use crate::task::{JoinError, JoinHandle};
use std::future::Future;

impl Pool {
    /// Makes a task of `future`; any worker of this pool may run it.
    ///
    /// Returns at once. From one of the pool's own tasks it wakes nobody; from elsewhere it
    /// wakes one worker, if one sleeps. Once the pool is dropped (a [handle](crate::Pool::handle) may
    /// outlive it) the future is dropped at once, and awaiting the task gives
    /// [`JoinError::Refused`](crate::JoinError::Refused).
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
    /// the future is dropped and the handle returns [`JoinError::Worker`].
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
            Err(error) => JoinHandle::not_spawned(JoinError::Worker(error)),
        }
    }

    /// Makes a task that worker `worker` begins, if it has nothing to do: it is woken for it, in the
    /// place of any other. If it is busy, whoever is free takes the task, as one of
    /// [`spawn`](Self::spawn). For what lies in that worker's cache.
    ///
    /// Only a hint, and only for the beginning: a task goes on where it is woken. What must stay on
    /// one thread is [`spawn_on`](Self::spawn_on)'s.
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

    /// Runs a blocking or long closure as a task of this pool: of one that the program has made
    /// for such work, since a worker that blocks serves nobody else.
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
