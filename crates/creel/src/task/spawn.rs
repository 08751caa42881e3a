//! Creates tasks. Any thread can do so. A task is for any worker, or it is bound to one.
//!
//! | the task is spawned | it goes to | this wakes |
//! |---|---|---|
//! | on a thread that holds a local scheduler of the pool | the run queue of that local scheduler | no worker |
//! | on any other thread | the injection queue | an idle worker |
//! | bound to a worker | the queue of that worker | that worker |

use super::cell::{Apart, Keep, Outcome, Task, fits, outcome_fits};
use super::context;
use super::join::JoinHandle;
use super::local::{self, Counters, LocalContext};
use super::seeded;
use super::slab::Heap;
use super::state::State;
use super::tasks::Tasks;
use crate::sync::{Ordering, lock};
use crate::worker::{current, error::WorkerError, slots::When};
use std::future::Future;

/// Spawns a task on the current pool. This is the pool whose task, worker or `block_on` calls the
/// function. If several calls of `block_on` are nested, the innermost one decides.
///
/// The function does not block. If the pool is shutting down, or the OS refuses the pool its first
/// thread, the handle returns an error when you await it.
///
/// # Panics
///
/// Panics outside of a pool.
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
    // If the thread is a worker and inside a `block_on` of another pool, the `block_on` is the
    // innermost and decides.
    if let Some(tasks) = context::innermost() {
        return match local::current_in(tasks).or_else(|| context::attach(tasks)) {
            Some(context) => spawn_here(context, future),
            None => tasks.spawn(future),
        };
    }
    if let Some(context) = local::current() {
        return spawn_here(context, future);
    }
    match context::worker() {
        Some((tasks, _)) => tasks.spawn(future),
        None => panic!("task::spawn was called outside of a pool: use Pool::spawn"),
    }
}

/// Spawns a task that stays on the calling worker's thread. The future therefore need not be
/// `Send`. For example, it may keep an `Rc` across an await point.
///
/// If the pool is shutting down, or the OS refuses a thread, the handle returns an error when you
/// await it.
///
/// # Panics
///
/// Panics on a thread that is not a worker of a pool. A caller of `block_on` is not a worker
/// either. The exception is a pool of [`Pool::seeded`](crate::Pool::seeded), which has no threads.
/// On such a pool, the task stays on the caller's thread.
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
        None => panic!("task::spawn_local was called on a thread that is not a worker of a pool"),
    }
}

impl Tasks {
    /// Creates a task that any worker may run, and queues it.
    ///
    /// The caller must ensure that the future can be sent to another thread.
    pub(crate) fn spawn<F: Future>(&self, future: F) -> JoinHandle<F::Output> {
        if let Some(context) = local::current_in(self).or_else(|| context::attach(self)) {
            return spawn_here(context, future);
        }
        self.spawn_outside(future, || self.slots.notify_one(0, When::Now))
    }

    /// Creates a task that any worker may run, preferably the worker `index`. If that worker is
    /// idle, it is unparked instead of any other one.
    pub(crate) fn spawn_near<F: Future>(&self, index: usize, future: F) -> JoinHandle<F::Output> {
        self.spawn_outside(future, || {
            let slot = self.slots.at(index);
            let comes = slot.is_idle() && slot.thread.is_running();
            if !comes || !self.slots.idle.may_run_tasks(index) {
                return self.slots.notify_one(0, When::Now);
            }
            // The worker that we notify checks the injection queue before it sleeps again. If it
            // has begun other work by then, the watchdog finds the task.
            slot.notify();
            self.slots.ensure_watchdog();
            Ok(())
        })
    }

    /// Creates a task that any worker may run, puts it into the injection queue, and calls `call`,
    /// which notifies a worker to take it.
    fn spawn_outside<F: Future>(
        &self,
        future: F,
        call: impl FnOnce() -> std::io::Result<()>,
    ) -> JoinHandle<F::Output> {
        // We enter the pool as a user, so that it does not end during the spawn. A pool that has
        // ended would start no thread for the task.
        if !self.slots.life.enter() {
            return JoinHandle::not_spawned(WorkerError::Ended);
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
            handle = JoinHandle::not_spawned(self.slots.refused(error));
        }
        self.slots.leave();
        handle
    }

    /// Creates a task that only this worker's thread may run, and queues it.
    pub(crate) fn spawn_bound<F: Future>(&self, index: usize, future: F) -> JoinHandle<F::Output> {
        if !self.slots.life.enter() {
            return JoinHandle::not_spawned(WorkerError::Ended);
        }
        let slot = self.slots.at(index);
        let alive = &self.schedulers.at(index).bound_alive;
        // We count the task before we check that the worker has a thread. Otherwise the thread
        // could end between these two steps.
        alive.fetch_add(1, Ordering::SeqCst);
        let handle = match self.slots.ensure_started(slot) {
            Ok(()) => {
                let word = State::new_word(Some(index as u16), false);
                let task = make(local::current_in(self), self, word, future);
                let handle = JoinHandle::new(task);
                self.queue(task);
                // Unlike a wake-up, a spawn does not wait for the quantum of a throttle.
                slot.notify();
                handle
            }
            Err(error) => {
                alive.fetch_sub(1, Ordering::SeqCst);
                JoinHandle::not_spawned(self.slots.refused(error))
            }
        };
        self.slots.leave();
        handle
    }

    /// Drops a task that was just created and for which no thread could be started.
    #[cold]
    fn drop_refused(&self, task: Task) {
        let claim = task.state().claim_queued().or_cancel(true);
        let counters = Counters::default();
        // Dropping the future may drop the pool, because the future may own it.
        current::amid(&self.slots, || {
            // SAFETY: the task was taken out of the only queue that held it, and has been claimed.
            unsafe { task.run(claim, &counters) };
        });
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Creates a task that any worker may run, and queues it. The calling thread holds a local
/// scheduler.
#[inline]
fn spawn_here<F: Future>(context: LocalContext<'_>, future: F) -> JoinHandle<F::Output> {
    if context.tasks.slots.is_closing() {
        return JoinHandle::not_spawned(WorkerError::Ended);
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

/// Creates the cell of a task, with the future and its outcome in it. If one of them is too large,
/// it goes into a box. The pool must not end during the call.
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

/// Creates a cell on a thread without a local scheduler.
fn make_outside<F, O>(tasks: &Tasks, word: u64, future: F) -> Task
where
    F: Future,
    O: Keep<Outcome<F>>,
{
    let mut heap = lock(&tasks.outside_heap);
    let heap = *heap.0.get_or_insert_with(|| Heap::new(tasks.counted()));
    tasks.spawned.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the heap lives until the pool ends, and the caller keeps the pool from ending.
    let heap = unsafe { heap.as_ref() };
    // SAFETY: the thread that holds the lock owns the heap, and the callers box everything that
    // does not fit.
    unsafe { Task::new::<F, O>(heap, word, future) }
}
