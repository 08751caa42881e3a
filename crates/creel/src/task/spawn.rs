//! How tasks are made: on a pool, from any thread; bound to a seat or not.

use super::block_on::inside;
use super::cell::Schedule;
use super::cell::{Task, fits, output_fits};
use super::desk::{self, Counters, Held};
use super::join::JoinHandle;
use super::slab::Heap;
use super::state::State;
use crate::pool::shared::{Shared, When};
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

/// Makes a task on the pool whose task, worker or `block_on` calls this, of several the innermost:
/// children inherit their pool.
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
    // A `block_on` on a worker of another pool is the innermost.
    if let Some(pool) = inside() {
        return match desk::here_in(pool) {
            Some(held) => stealable_here(held, future),
            None => stealable(&pool.counted(), future),
        };
    }
    if let Some(held) = desk::here() {
        return stealable_here(held, future);
    }
    match current::worker() {
        Some((pool, _)) => stealable(&pool, future),
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
    // The pool does not end under this, nor is a thread started after it has.
    if !pool.life.enter() {
        return JoinHandle::refused(None);
    }
    let task = make(None, pool, State::new_word(None, false), future);
    pool.tasks.outside.push(task);
    let mut handle = JoinHandle::new(task);
    if let Err(error) = pool.call(0, When::Now)
        && pool.tasks.outside.remove(task)
    {
        drop_refused(pool, task);
        handle = refused(pool, error);
    }
    pool.leave();
    handle
}

/// The handle of a task for which there was no thread to be had, unless because the pool is being
/// dropped.
fn refused<T>(pool: &Shared, error: std::io::Error) -> JoinHandle<T> {
    JoinHandle::refused((!pool.is_closing()).then_some(error))
}

/// Drops a task that was just made, for which there will be no thread.
#[cold]
fn drop_refused(pool: &Shared, task: Task) {
    let claim = task.state().claim_queued().or_cancel(true);
    let counters = Counters::default();
    // SAFETY: it was taken out of the queue that held it alone, and claimed.
    unsafe { task.run(claim, &counters) };
    pool.tasks.refused.fetch_add(1, Ordering::Relaxed);
}

/// The same on a thread that holds a desk.
#[inline]
fn stealable_here<F: Future>(held: Held<'_>, future: F) -> JoinHandle<F::Output> {
    let pool = held.pool;
    if pool.is_closing() {
        return JoinHandle::refused(None);
    }
    let task = make(Some(held), pool, State::new_word(None, true), future);
    held.push_back(task);
    JoinHandle::new(task)
}

/// Makes a task that only this seat's thread may run, and queues it.
fn bound<F: Future>(pool: &Arc<Shared>, index: usize, future: F) -> JoinHandle<F::Output> {
    if !pool.life.enter() {
        return JoinHandle::refused(None);
    }
    let seat = pool.seats.at(index);
    let alive = &seat.desk.bound_alive;
    // Before the thread is asked for, so that it does not end meanwhile.
    alive.fetch_add(1, Ordering::SeqCst);
    let handle = match pool.ensure_started(seat) {
        Ok(()) => {
            let word = State::new_word(Some(index as u16), false);
            let task = make(desk::here_in(pool), pool, word, future);
            let handle = JoinHandle::new(task);
            Arc::clone(pool).schedule(task);
            // Unlike a wake, a spawn does not wait for a throttle's quantum.
            seat.notify();
            handle
        }
        Err(error) => {
            alive.fetch_sub(1, Ordering::SeqCst);
            refused(pool, error)
        }
    };
    pool.leave();
    handle
}

/// Makes a cell, with the future in it or, if that is too large, in a box. The pool does not end
/// meanwhile.
#[inline]
fn make<F: Future>(held: Option<Held<'_>>, pool: &Shared, word: u64, future: F) -> Task {
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
fn make_cell<F: Future>(held: Option<Held<'_>>, pool: &Shared, word: u64, future: F) -> Task {
    match held {
        Some(held) => held.make(word, future),
        None => make_outside(pool, word, future),
    }
}

/// Makes a cell on a thread without a desk.
fn make_outside<F: Future>(pool: &Shared, word: u64, future: F) -> Task {
    let mut heap = lock(&pool.tasks.outside_heap);
    let heap = *heap.0.get_or_insert_with(|| Heap::new(pool.counted()));
    pool.tasks.spawned.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the heap lives until the pool ends, which the caller is in the way of.
    let heap = unsafe { heap.as_ref() };
    // SAFETY: who holds the lock owns the heap; the callers box what does not fit.
    unsafe { Task::new(heap, word, future) }
}
