//! Things that a program can add to its pool: queues and hooks of its own.
//!
//! Use them for an executor that has rules of its own about its jobs, for example about their
//! order. The executor keeps the queues, and the pool keeps the workers. `crates/rayon-core` in the
//! repository is an example.

use super::{Pool, PoolBuilder, WorkerError, shared::Shared};
use crate::{
    loops::protocol::forks::Forker,
    sync::{now_ns, spin_loop},
    worker::{
        current,
        hooks::{NewThread, Source},
        no_unwind::no_unwind,
        slot::WorkerSlot,
        slots::When,
        waiter::Waiter,
    },
};
use std::{io, sync::Arc, time::Duration};

/// The time for which a worker in [`Pool::work_until`] looks for work before it sleeps.
const SPIN_NS: u64 = 20_000;
/// The interval at which it looks again after that. It grows while there is nothing to do.
const LOOK_EVERY: Duration = Duration::from_micros(500);

impl Shared {
    /// Returns whether the program's own queues have a job.
    pub(super) fn has_jobs(&self) -> bool {
        let source = &self.slots.hooks.source;
        source.as_ref().is_some_and(|source| source.is_ready())
    }

    /// Runs a job of the program's own queues. Returns whether these queues had a job.
    pub(super) fn run_source(&self, slot: &WorkerSlot, begin: &mut dyn FnMut()) -> bool {
        let source = &self.slots.hooks.source;
        source.as_ref().is_some_and(|source| {
            let run = || no_unwind(|| source.run(slot.index, begin));
            Forker::apart(&self.loops, slot.index, run)
        })
    }

    /// Runs one inbox job, one job of the program's own queues, one fork (the second closure of a
    /// join), or chunks of one shared job. Returns whether there was any of these.
    fn work_once(&self, slot: &WorkerSlot) -> bool {
        slot.run_inbox()
            || self.run_source(slot, &mut || ())
            || Forker::steal_one(&self.loops, slot)
            || self.help_once(slot)
    }

    fn help_once(&self, slot: &WorkerSlot) -> bool {
        let helper = self.loops.shared_jobs.enter(None);
        helper
            .iter()
            .for_each(|helper| Forker::apart(&self.loops, slot.index, || helper.run(|| true)));
        helper.is_some()
    }
}

impl PoolBuilder {
    /// Adds queues of your own, from which idle workers take jobs. [`Source`] has an example.
    pub fn source(mut self, source: Arc<dyn Source>) -> Self {
        self.hooks.source = Some(source);
        self
    }

    /// Lets each thread from outside work in addition to all workers. Use it if a thread of your
    /// own belongs to the pool in addition to its workers.
    ///
    /// By default, such a thread counts as worker 0 while it is in a `join` or a `scope`. Worker 0
    /// is not woken for these, so that there are never more busy threads than workers.
    ///
    /// ```
    /// use std::sync::Barrier;
    ///
    /// let pool = creel::Pool::builder().workers(1).extra_callers().build()?;
    /// let both = Barrier::new(2);
    /// pool.join(|| both.wait(), || both.wait()); // needs a second thread, which is worker 0
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn extra_callers(mut self) -> Self {
        self.hooks.extra_callers = true;
        self
    }

    /// Sets a function that each worker's thread calls with the worker's index when it starts. The
    /// function must not panic, because this aborts the process.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// static STARTED: AtomicUsize = AtomicUsize::new(0);
    /// let count = |_| { STARTED.fetch_add(1, Ordering::Relaxed); };
    /// let pool = creel::Pool::builder().workers(2).on_thread_start(count).build()?;
    /// pool.broadcast(|_| ());
    /// assert_eq!(STARTED.load(Ordering::Relaxed), 2);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn on_thread_start(mut self, f: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.start = Some(Arc::new(f));
        self
    }

    /// Sets a function that each worker's thread calls with the worker's index before it ends. The
    /// function must not panic, because this aborts the process.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// static ENDED: AtomicUsize = AtomicUsize::new(0);
    /// let count = |_| { ENDED.fetch_add(1, Ordering::Relaxed); };
    /// let pool = creel::Pool::builder().workers(2).on_thread_stop(count).build()?;
    /// pool.broadcast(|_| ());
    /// drop(pool);
    /// assert_eq!(ENDED.load(Ordering::Relaxed), 2);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn on_thread_stop(mut self, f: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.stop = Some(Arc::new(f));
        self
    }

    /// Sets a function that starts the workers' threads. It must start a thread that calls
    /// [`NewThread::run`], or return an error. The pool does not join these threads when it ends,
    /// but it waits until `run` has returned.
    ///
    /// ```
    /// let start = |thread: creel::NewThread| {
    ///     let name = format!("decoder {}", thread.index()); // or `thread.name()`
    ///     std::thread::Builder::new().name(name).spawn(|| thread.run()).map(drop)
    /// };
    /// let pool = creel::Pool::builder().workers(2).start_threads_with(start).build()?;
    /// let name = pool.run_on(1, || std::thread::current().name().map(String::from));
    /// assert_eq!(name.unwrap().as_deref(), Some("decoder 1"));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn start_threads_with(
        mut self,
        f: impl Fn(NewThread) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.starter = Some(Arc::new(f));
        self
    }
}

impl Pool {
    /// Starts the threads of all workers that have none. Without this call, a thread starts when
    /// its worker gets its first work. Returns without waiting for the threads.
    ///
    /// # Errors
    /// Returns an error if the pool has ended, or the operating system refuses a thread.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// pool.start_threads().unwrap();
    /// assert!(pool.stats().workers.iter().all(|worker| worker.started));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn start_threads(&self) -> Result<(), WorkerError> {
        let slots = &self.shared.slots;
        (0..self.workers()).try_for_each(|index| {
            let started = slots.ensure_started(slots.at(index));
            started.map_err(|error| slots.refused(error))
        })
    }

    /// Runs `f` on the thread of worker `worker`, as [`run_on`](Self::run_on) does, but does not
    /// wait for it. A panic of `f` aborts the process.
    ///
    /// # Errors
    /// Returns an error if the pool has no such worker, has ended, or the operating system refuses
    /// the worker's thread. `f` has been dropped in that case.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// pool.send_to(1, move || sender.send(7).unwrap()).unwrap();
    /// assert_eq!(receiver.recv(), Ok(7));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn send_to(
        &self,
        worker: usize,
        f: impl FnOnce() + Send + 'static,
    ) -> Result<(), WorkerError> {
        let slots = &self.shared.slots;
        let sent = slots.send(slots.slot_in_use(worker)?, Box::new(|| no_unwind(f)));
        sent.map_err(|error| slots.refused(error))
    }

    /// Notifies an idle worker, because you have pushed a job to a [`Source`]. Call it after each
    /// push. If no worker is idle, it costs a few nanoseconds.
    ///
    /// A push must be a `SeqCst` operation, or be followed by a `SeqCst` fence. [`Source`] has an
    /// example.
    pub fn notify(&self) {
        // We ignore the error if no thread can be started, because the next call tries again.
        let _ = self.shared.slots.notify_one(0, When::Now);
    }

    /// Makes worker `worker` look for work now. You need this in two cases only:
    ///
    /// - The worker waits in [`work_until`](Self::work_until), and must check its condition.
    /// - The pool is throttled, another thread has woken a task of [`spawn_on`](Self::spawn_on), and
    ///   the task must not wait for the end of the quantum. Timers and sockets still wait for it.
    ///
    /// ```
    /// use creel::{Pool, Wait, channel::oneshot};
    /// use std::time::Duration;
    ///
    /// let hour = Wait::Throttle(Duration::from_secs(3600));
    /// let pool = Pool::builder().workers(1).wait(hour).build()?;
    /// let (sender, receiver) = oneshot::channel();
    /// let task = pool.spawn_on(0, async { receiver.await.unwrap() });
    /// sender.send(7).unwrap();
    /// pool.wake(0).unwrap(); // otherwise, the task might not run for an hour
    /// assert_eq!(pool.block_on(task).unwrap(), 7);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the pool has no such worker. A worker that waits in `work_until` while
    /// the pool becomes smaller checks its condition about once per millisecond, so it needs no
    /// wake.
    pub fn wake(&self, worker: usize) -> Result<(), WorkerError> {
        self.shared.slots.slot_in_use(worker)?.notify();
        Ok(())
    }

    /// Blocks until `done` returns true. The calling thread must be a worker of this pool, and runs
    /// *any* work of the pool in the meantime, except for tasks, timers and sockets. Do not hold a
    /// lock across this call, because the work may try to take the same lock.
    ///
    /// The thread that makes the condition true must then call [`wake`](Self::wake).
    ///
    /// # Panics
    /// Panics if the calling thread is not a worker of this pool.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let done = AtomicBool::new(false);
    /// pool.scope(|s| {
    ///     s.spawn_on(0, || pool.work_until(|| done.load(Ordering::SeqCst))).unwrap();
    ///     s.spawn_on(0, || done.store(true, Ordering::SeqCst)).unwrap(); // runs inside the first
    /// });
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn work_until(&self, done: impl Fn() -> bool) {
        let shared = &self.shared;
        let Some(index) = current::index_in(&shared.slots) else {
            panic!("only a worker of this pool can work until something is done");
        };
        let slot = shared.slots.at(index);
        let mut since = None;
        while !done() {
            if shared.work_once(slot) {
                since = None;
                continue;
            }
            spin_loop();
            let now = now_ns();
            if now - *since.get_or_insert(now) >= SPIN_NS || cfg!(creel_shuttle) {
                let work = || shared.work_once(slot);
                Waiter::current().wait_looking(Some(LOOK_EVERY), &done, work);
                return;
            }
        }
    }

    /// Runs one piece of the pool's work on the calling thread, if it is a worker of this pool. The
    /// work is the same as that of [`work_until`](Self::work_until). Returns whether the pool had
    /// such work.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// assert!(!pool.work_once());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn work_once(&self) -> bool {
        let shared = &self.shared;
        current::index_in(&shared.slots)
            .is_some_and(|index| shared.work_once(shared.slots.at(index)))
    }
}
