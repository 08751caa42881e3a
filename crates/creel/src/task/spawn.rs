//! How tasks are made: on a pool, from any thread; bound to a worker or not.

use super::cell::{Apart, Keep, Outcome, Task, fits, outcome_fits};
use super::context;
use super::join::JoinHandle;
use super::local::{self, Counters, LocalContext};
use super::seeded;
use super::slab::Heap;
use super::state::State;
use super::tasks::Tasks;
use crate::sync::{Ordering, lock};
use crate::worker::{current, slots::When};
use std::future::Future;

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
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // A `block_on` on a worker of another pool is the innermost.
    if let Some(tasks) = context::innermost() {
        return match local::current_in(tasks).or_else(|| context::attach(tasks)) {
            Some(context) => spawn_here(context, future),
            None => tasks.spawn(future),
        };
    }
    if let Some(context) = local::here() {
        return spawn_here(context, future);
    }
    match context::worker() {
        Some((tasks, _)) => tasks.spawn(future),
        None => panic!("task::spawn outside of a pool: use Pool::spawn"),
    }
}

/// Makes a task that stays on this worker's thread, so that it need not be `Send`.
///
/// # Panics
///
/// On a thread that is no pool's worker (a caller of `block_on` is none, except in a pool of
/// [`Pool::seeded`](crate::Pool::seeded), which has no threads: there the task stays on the caller's
/// thread).
///
/// ```
/// use std::rc::Rc;
///
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let sum = pool.run_on(1, || {
///     let numbers = Rc::new([1, 2, 3]);
///     creel::task::spawn_local(async move { numbers.iter().sum::<i32>() })
/// }).unwrap();
/// assert_eq!(pool.block_on(sum).unwrap(), 6);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    if let Some(tasks) = context::innermost().filter(|tasks| tasks.seeded.is_some()) {
        return tasks.spawn_bound(0, seeded::Local::new(future));
    }
    match context::worker() {
        Some((tasks, index)) => tasks.spawn_bound(index, future),
        None => panic!("task::spawn_local on a thread that is no pool's worker"),
    }
}

impl Tasks {
    /// Makes a task that any worker may run, and queues it.
    ///
    /// The caller sees to it that the future may be sent.
    pub(crate) fn spawn<F: Future>(&self, future: F) -> JoinHandle<F::Output> {
        if let Some(context) = local::current_in(self).or_else(|| context::attach(self)) {
            return spawn_here(context, future);
        }
        self.spawn_outside(future, || self.slots.notify_one(0, When::Now))
    }

    /// The same for one that this worker's worker shall begin, if it has nothing to do: it is woken in
    /// the place of any other.
    pub(crate) fn spawn_near<F: Future>(&self, index: usize, future: F) -> JoinHandle<F::Output> {
        self.spawn_outside(future, || {
            let slot = self.slots.at(index);
            let comes = slot.is_idle() && slot.thread.is_running();
            if !comes || !self.slots.idle.may_run_tasks(index) {
                return self.slots.notify_one(0, When::Now);
            }
            // It looks at what came from outside before it sleeps again. If it has found something
            // else to do meanwhile, the watchdog finds this.
            slot.notify();
            self.slots.ensure_watchdog();
            Ok(())
        })
    }

    /// Makes a task that any worker may run, queues it for all, and has somebody come by `call`.
    fn spawn_outside<F: Future>(
        &self,
        future: F,
        call: impl FnOnce() -> std::io::Result<()>,
    ) -> JoinHandle<F::Output> {
        // The pool does not end under this, nor is a thread started after it has.
        if !self.slots.life.enter() {
            return JoinHandle::refused(None);
        }
        let task = make(
            local::current_in(self),
            self,
            State::new_word(None, false),
            future,
        );
        self.outside.push(task);
        let mut handle = JoinHandle::new(task);
        if let Err(error) = call()
            && self.outside.remove(task)
        {
            self.drop_refused(task);
            handle = self.refused(error);
        }
        self.slots.leave();
        handle
    }

    /// Makes a task that only this worker's thread may run, and queues it.
    pub(crate) fn spawn_bound<F: Future>(&self, index: usize, future: F) -> JoinHandle<F::Output> {
        if !self.slots.life.enter() {
            return JoinHandle::refused(None);
        }
        let slot = self.slots.at(index);
        let alive = &self.schedulers.at(index).bound_alive;
        // Before the thread is asked for, so that it does not end meanwhile.
        alive.fetch_add(1, Ordering::SeqCst);
        let handle = match self.slots.ensure_started(slot) {
            Ok(()) => {
                let word = State::new_word(Some(index as u16), false);
                let task = make(local::current_in(self), self, word, future);
                let handle = JoinHandle::new(task);
                self.queue(task);
                // Unlike a wake, a spawn does not wait for a throttle's quantum.
                slot.notify();
                handle
            }
            Err(error) => {
                alive.fetch_sub(1, Ordering::SeqCst);
                self.refused(error)
            }
        };
        self.slots.leave();
        handle
    }

    /// The handle of a task for which there was no thread to be had, unless because the pool is
    /// being dropped.
    fn refused<T>(&self, error: std::io::Error) -> JoinHandle<T> {
        JoinHandle::refused((!self.slots.is_closing()).then_some(error))
    }

    /// Drops a task that was just made, for which there will be no thread.
    #[cold]
    fn drop_refused(&self, task: Task) {
        let claim = task.state().claim_queued().or_cancel(true);
        let counters = Counters::default();
        // The future may own the pool.
        current::amid(&self.slots, || {
            // SAFETY: it was taken out of the queue that held it alone, and claimed.
            unsafe { task.run(claim, &counters) };
        });
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes a task that any worker may run, and queues it, on a thread that holds a local scheduler.
#[inline]
fn spawn_here<F: Future>(context: LocalContext<'_>, future: F) -> JoinHandle<F::Output> {
    if context.tasks.slots.is_closing() {
        return JoinHandle::refused(None);
    }
    let task = make(
        Some(context),
        context.tasks,
        State::new_word(None, true),
        future,
    );
    context.push_back(task);
    JoinHandle::new(task)
}

/// Makes a cell, with the future and its outcome in it or, if one is too large, in a box. The pool
/// does not end meanwhile.
#[inline]
fn make<F: Future>(context: Option<LocalContext<'_>>, tasks: &Tasks, word: u64, future: F) -> Task {
    if const { outcome_fits::<Outcome<F>>() } {
        make_with::<F, Outcome<F>>(context, tasks, word, future)
    } else {
        make_with::<F, Apart<Outcome<F>>>(context, tasks, word, future)
    }
}

#[inline]
fn make_with<F, O>(context: Option<LocalContext<'_>>, tasks: &Tasks, word: u64, future: F) -> Task
where
    F: Future,
    O: Keep<Outcome<F>>,
{
    if const { fits::<F, O>() } {
        make_cell::<F, O>(context, tasks, word, future)
    } else {
        make_cell::<_, O>(context, tasks, word, Box::pin(future))
    }
}

#[inline]
fn make_cell<F, O>(context: Option<LocalContext<'_>>, tasks: &Tasks, word: u64, future: F) -> Task
where
    F: Future,
    O: Keep<Outcome<F>>,
{
    match context {
        Some(context) => context.make::<F, O>(word, future),
        None => make_outside::<F, O>(tasks, word, future),
    }
}

/// Makes a cell on a thread without a local scheduler.
fn make_outside<F, O>(tasks: &Tasks, word: u64, future: F) -> Task
where
    F: Future,
    O: Keep<Outcome<F>>,
{
    let mut heap = lock(&tasks.outside_heap);
    let heap = *heap.0.get_or_insert_with(|| Heap::new(tasks.counted()));
    tasks.spawned.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the heap lives until the pool ends, which the caller is in the way of.
    let heap = unsafe { heap.as_ref() };
    // SAFETY: who holds the lock owns the heap; the callers box what does not fit.
    unsafe { Task::new::<F, O>(heap, word, future) }
}
