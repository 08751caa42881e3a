//! How tasks are made: on a pool, from any thread; bound to a seat or not.

use super::block_on::inside;
use super::cell::{Task, fits, output_fits};
use super::desk::{self, Held};
use super::join::JoinHandle;
use super::slab::Heap;
use super::state::State;
use super::{cell::Schedule, crew};
use crate::pool::shared::Shared;
use crate::pool::{Handle, Pool, current};
use crate::sync::{Ordering, lock};
use std::future::Future;
use std::sync::Arc;

impl Pool {
    /// Makes a task of `future`; any worker of this pool may run it.
    ///
    /// Returns at once. From one of the pool's own tasks it wakes nobody; from elsewhere it
    /// wakes one worker, if one sleeps.
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
        stealable(&self.shared, future)
    }

    /// Makes a task that only the thread of seat `worker` runs.
    ///
    /// # Panics
    ///
    /// If the pool has no such worker.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).name("pair").build()?;
    /// let name = pool.spawn_on(1, async { std::thread::current().name().map(String::from) });
    /// assert_eq!(pool.block_on(name).unwrap().as_deref(), Some("pair-1"));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn spawn_on<F>(&self, worker: usize, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        bound(&self.shared, self.shared.seat_in_use(worker).index, future)
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

impl Handle {
    /// As [`Pool::spawn`]. Once the pool is dropped, the future is dropped at once and the handle
    /// gives [`JoinError::Refused`](super::JoinError::Refused).
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        stealable(&self.shared, future)
    }

    /// As [`Pool::spawn_on`], refused as [`spawn`](Self::spawn) is.
    ///
    /// # Panics
    ///
    /// If the pool has no such worker.
    pub fn spawn_on<F>(&self, worker: usize, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        bound(&self.shared, self.shared.seat_in_use(worker).index, future)
    }

    /// As [`Pool::spawn_fn`], refused as [`spawn`](Self::spawn) is.
    pub fn spawn_fn<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        self.spawn(async move { work() })
    }
}

/// Makes a task on the pool whose task or worker calls this: children inherit their pool.
///
/// # Panics
///
/// Outside of a pool.
///
/// ```
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let grandchild = pool.spawn(async { creel::task::spawn(async { 3 }).await.unwrap() });
/// assert_eq!(pool.block_on(grandchild).unwrap(), 3);
/// # Ok::<(), creel::BuildError>(())
/// ```
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    if let Some(held) = desk::here() {
        return stealable_here(held, future);
    }
    match inside().or_else(|| current::worker().map(|(pool, _)| pool)) {
        Some(pool) => stealable(&pool, future),
        None => panic!("task::spawn outside of a pool: use Pool::spawn or Handle::spawn"),
    }
}

/// Makes a task that stays on this worker's thread, so that it need not be `Send`.
///
/// # Panics
///
/// On a thread that is no pool's worker (a caller of `block_on` is none).
///
/// ```
/// use std::rc::Rc;
///
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let sum = pool.run_on(1, || {
///     let numbers = Rc::new([1, 2, 3]);
///     creel::task::spawn_local(async move { numbers.iter().sum::<i32>() })
/// });
/// assert_eq!(pool.block_on(sum).unwrap(), 6);
/// # Ok::<(), creel::BuildError>(())
/// ```
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    match current::worker() {
        Some((pool, index)) => bound(&pool, index, future),
        None => panic!("task::spawn_local on a thread that is no pool's worker"),
    }
}

/// Makes a task that any worker may run, and queues it.
///
/// The caller sees to it that the future may be sent.
fn stealable<F: Future>(pool: &Arc<Shared>, future: F) -> JoinHandle<F::Output> {
    if let Some(held) = desk::here_in(pool) {
        return stealable_here(held, future);
    }
    if pool.is_closing() {
        return JoinHandle::refused();
    }
    match make(None, pool, State::new_word(None, false), future) {
        Some(task) => {
            pool.tasks.outside.push(task);
            crew::call_for_outside(pool);
            JoinHandle::new(task)
        }
        None => JoinHandle::refused(),
    }
}

/// The same on a thread that holds a desk.
#[inline]
fn stealable_here<F: Future>(held: Held<'_>, future: F) -> JoinHandle<F::Output> {
    let pool = held.pool;
    if pool.is_closing() {
        return JoinHandle::refused();
    }
    match make(Some(held), pool, State::new_word(None, true), future) {
        Some(task) => {
            held.push_back(task);
            JoinHandle::new(task)
        }
        None => JoinHandle::refused(),
    }
}

/// Makes a task that only this seat's thread may run, and queues it.
fn bound<F: Future>(pool: &Arc<Shared>, index: usize, future: F) -> JoinHandle<F::Output> {
    if pool.is_closing() {
        return JoinHandle::refused();
    }
    let alive = &pool.seats.seat(index).desk.bound_alive;
    // Before the task exists, so that the seat does not retire under it.
    alive.fetch_add(1, Ordering::SeqCst);
    let word = State::new_word(Some(index as u16), false);
    match make(desk::here_in(pool), pool, word, future) {
        Some(task) => {
            Arc::clone(pool).schedule(task);
            // Unlike a wake, a spawn does not wait for a throttle's quantum.
            pool.seats.seat(index).notify();
            JoinHandle::new(task)
        }
        None => {
            alive.fetch_sub(1, Ordering::SeqCst);
            JoinHandle::refused()
        }
    }
}

/// Makes a cell, with the future in it or, if that is too large, in a box. `None`: the pool has
/// ended.
#[inline]
fn make<F: Future>(held: Option<Held<'_>>, pool: &Shared, word: u64, future: F) -> Option<Task> {
    const {
        assert!(
            output_fits::<F::Output>(),
            "a task's output is at most 16 KiB, aligned to 16: box it"
        )
    };
    if const { fits::<F>() } {
        make_cell(held, pool, word, future)
    } else {
        make_cell(held, pool, word, Box::pin(future))
    }
}

#[inline]
fn make_cell<F: Future>(
    held: Option<Held<'_>>,
    pool: &Shared,
    word: u64,
    future: F,
) -> Option<Task> {
    match held {
        Some(held) => Some(held.make(word, future)),
        None => make_guest(pool, word, future),
    }
}

/// Makes a cell on a thread without a desk. `None`: the pool has ended.
fn make_guest<F: Future>(pool: &Shared, word: u64, future: F) -> Option<Task> {
    let mut guests = lock(&pool.tasks.guests);
    if guests.ended {
        return None;
    }
    let heap = *guests.heap.get_or_insert_with(|| Heap::new(pool.counted()));
    pool.tasks.spawned.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the heap lives until `ended` is set under this lock.
    let heap = unsafe { heap.as_ref() };
    // SAFETY: who holds the lock owns the heap; the callers box what does not fit.
    Some(unsafe { Task::new(heap, word, future) })
}
