//! A pool of threads: the Creel pool, and the queues of jobs that its workers take.
//!
//! | work | where it runs |
//! |---|---|
//! | `join`, and all of rayon's iterators | Creel's own joins (`creel::Joiner`) |
//! | `spawn`, jobs of a scope, work from outside threads | the queues of this module, which are a [`creel::Source`] of the pool |
//! | `broadcast` | the inboxes of Creel's workers, and an inbox of this module for the thread of `use_current_thread` |
//!
//! Each thread has a deque. It pushes jobs to its own deque, and takes the youngest job from it.
//! With `breadth_first`, it takes the oldest job instead. Other threads steal the oldest job.
//! Threads that do not belong to the pool push to a shared queue.

use crate::{
    builder::Handlers,
    job::{Fifo, JobRef, steal},
    latch::Latch,
    unwind::{AbortOnDrop, Payload, catch},
};
use creel::{Pool, Source};
use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use std::{
    cell::{Cell, UnsafeCell},
    collections::VecDeque,
    panic::resume_unwind,
    ptr,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering, fence},
    },
    thread::{self, Thread},
    time::Duration,
};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The queues of a pool.
pub(crate) struct Queues {
    /// Jobs from threads that do not belong to the pool.
    injected: Injector<JobRef>,
    stealers: Vec<Stealer<JobRef>>,
}

impl Queues {
    /// Creates the queues, and the deque of each thread.
    pub(crate) fn new(threads: usize, breadth_first: bool) -> (Arc<Self>, Vec<Worker<JobRef>>) {
        let deque = |_| match breadth_first {
            true => Worker::new_fifo(),
            false => Worker::new_lifo(),
        };
        let deques: Vec<_> = (0..threads).map(deque).collect();
        let queues = Self {
            injected: Injector::new(),
            stealers: deques.iter().map(Worker::stealer).collect(),
        };
        (Arc::new(queues), deques)
    }

    /// Takes a job from the deque of a thread other than `own`. If all these deques are empty,
    /// takes a job that a thread from outside has pushed.
    fn steal_for(&self, own: usize) -> Option<JobRef> {
        let others = (own + 1..self.stealers.len()).chain(0..own);
        for other in others {
            loop {
                match self.stealers[other].steal() {
                    Steal::Success(job) => return Some(job),
                    Steal::Empty => break,
                    Steal::Retry => std::hint::spin_loop(),
                }
            }
        }
        steal(&self.injected)
    }
}

impl Source for Queues {
    fn is_ready(&self) -> bool {
        // `Registry::notify` has the matching fence, between the push and the check for idle
        // workers. Therefore at least one side sees the other, and no wake-up is lost.
        fence(Ordering::SeqCst);
        !self.injected.is_empty() || self.stealers.iter().any(|queue| !queue.is_empty())
    }

    fn run(&self, _worker: usize, begin: &mut dyn FnMut()) -> bool {
        WorkerThread::current().is_some_and(|worker| worker.run_one(begin))
    }

    fn run_outside(&self) -> bool {
        // The calling thread may belong to another pool. It must not run jobs of that pool's queues
        // here.
        let worker = WorkerThread::current();
        let worker = worker.filter(|worker| ptr::eq(&*worker.registry.queues, self));
        worker.is_some_and(|worker| worker.is_member() && worker.run_any())
    }
}

/// The thread that has called `ThreadPoolBuilder::use_current_thread`. It is thread 0 of its pool.
struct Member {
    thread: Thread,
    /// The inbox: the calls that broadcasts send to this thread.
    inbox: Mutex<VecDeque<Box<dyn FnOnce() + Send>>>,
}

/// A pool of threads: the Creel pool, its queues, and the functions that the program has set.
pub(crate) struct Registry {
    /// A handle to the Creel pool.
    pub(crate) pool: Pool,
    /// The Creel pool itself, until [`leave`](Self::leave) ends it.
    owner: Mutex<Option<Pool>>,
    queues: Arc<Queues>,
    threads: usize,
    member: Option<Member>,
    pub(crate) handlers: Handlers,
    /// The number of users that keep the threads alive. These are the owner (a `ThreadPool`, or the
    /// process for the global pool), and each spawned job or broadcast call that has not run. The
    /// last user ends the threads.
    users: AtomicUsize,
    /// The number of threads that have started. `build_global` waits for all of them.
    started: Mutex<usize>,
    all_started: Condvar,
}

impl Registry {
    pub(crate) fn new(
        pool: Pool,
        queues: Arc<Queues>,
        threads: usize,
        handlers: Handlers,
        member: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.handle(),
            owner: Mutex::new(Some(pool)),
            queues,
            threads,
            member: member.then(|| Member {
                thread: thread::current(),
                inbox: Mutex::default(),
            }),
            handlers,
            users: AtomicUsize::new(1),
            started: Mutex::new(usize::from(member)),
            all_started: Condvar::new(),
        })
    }

    /// Returns the global pool. The first call creates it.
    pub(crate) fn global() -> &'static Arc<Self> {
        GLOBAL.get_or_init(|| match crate::ThreadPoolBuilder::new().registry() {
            Ok(registry) => registry,
            Err(error) => panic!("the global thread pool cannot be created: {error}"),
        })
    }

    /// Creates a pool with `make` and makes it the global pool. Returns false if there is a global
    /// pool already.
    pub(crate) fn set_global(
        make: impl FnOnce() -> Result<Arc<Self>, crate::ThreadPoolBuildError>,
    ) -> Result<bool, crate::ThreadPoolBuildError> {
        // The lock ensures that only one `build_global` at a time creates a pool. However, `global`
        // does not take the lock. If it has set its pool first, our new pool ends.
        static SETTING: Mutex<()> = Mutex::new(());
        let _setting = lock(&SETTING);
        if GLOBAL.get().is_some() {
            return Ok(false);
        }
        let registry = make()?;
        let set = GLOBAL.set(Arc::clone(&registry)).is_ok();
        if set {
            registry.wait_until_started();
        } else {
            registry.leave();
        }
        Ok(set)
    }

    /// Returns the pool of the calling thread, or the global one.
    pub(crate) fn current() -> Arc<Self> {
        Arc::clone(match WorkerThread::current() {
            Some(worker) => &worker.registry,
            None => Self::global(),
        })
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Returns whether the thread that created the pool is its only thread.
    fn is_solo(&self) -> bool {
        self.member.is_some() && self.threads == 1
    }

    /// Returns the index of the thread that is worker 0 of the Creel pool. It is 1 if the thread
    /// that created the pool is thread 0, because that thread is not a worker.
    fn first(&self) -> usize {
        usize::from(self.member.is_some())
    }

    fn wait_until_started(&self) {
        let mut started = lock(&self.started);
        while *started < self.threads {
            started = self
                .all_started
                .wait(started)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn add_started(&self) {
        *lock(&self.started) += 1;
        self.all_started.notify_all();
    }

    /// Adds a user, which keeps the threads alive.
    pub(crate) fn enter(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a user. The last one ends the threads.
    pub(crate) fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(pool) = lock(&self.owner).take()
        {
            pool.shutdown_background();
        }
    }

    /// Pushes a job from a thread that does not belong to the pool.
    pub(crate) fn inject(&self, job: JobRef) {
        self.queues.injected.push(job);
        self.notify();
    }

    /// Pushes a job to the deque of the calling thread. If the thread belongs to no pool or to
    /// another one, pushes the job to the shared queue.
    pub(crate) fn push(&self, job: JobRef) {
        match self.worker() {
            Some(worker) => worker.push(job),
            None => self.inject(job),
        }
    }

    fn notify(&self) {
        fence(Ordering::SeqCst);
        if let Some(member) = &self.member {
            member.thread.unpark();
        }
        if !self.is_solo() {
            self.pool.notify();
        }
    }

    /// Wakes thread `index`, so that it checks again whether the event that it waits for has
    /// happened.
    pub(crate) fn wake(&self, index: usize) {
        match (&self.member, index) {
            (Some(member), 0) => member.thread.unpark(),
            _ => {
                // The registry never resizes its Creel pool, so the worker with this index exists.
                let _ = self.pool.wake(index - self.first());
            }
        }
    }

    /// Sends `f` to thread `index`, which runs it. Does not wait for the thread. `f` must not
    /// unwind.
    pub(crate) fn send(&self, index: usize, f: impl FnOnce() + Send + 'static) {
        if let (Some(member), 0) = (&self.member, index) {
            lock(&member.inbox).push_back(Box::new(f));
            return member.thread.unpark();
        }
        // Sending cannot fail, because all threads have been started and a user keeps the pool
        // alive.
        if self.pool.send_to(index - self.first(), f).is_err() {
            drop(AbortOnDrop("a thread of the pool has gone"));
        }
    }

    /// Returns the calling thread, if it belongs to this pool.
    pub(crate) fn worker(&self) -> Option<&WorkerThread> {
        WorkerThread::current().filter(|worker| ptr::eq(&*worker.registry, self))
    }

    /// Calls `f` on a thread of this pool. The second argument of `f` is true if the call has moved
    /// to another thread.
    #[inline]
    pub(crate) fn run<R: Send>(&self, f: impl FnOnce(&WorkerThread, bool) -> R + Send) -> R {
        match self.worker() {
            Some(worker) => f(worker, false),
            None => self.run_injected(f),
        }
    }

    /// Calls `f` on a thread of this pool, for a calling thread that does not belong to the pool.
    /// Blocks until `f` has returned.
    #[cold]
    #[inline(never)]
    fn run_injected<R: Send, F: FnOnce(&WorkerThread, bool) -> R + Send>(&self, f: F) -> R {
        let call = Call {
            latch: Latch::new(1),
            f: UnsafeCell::new(Some(f)),
            result: UnsafeCell::new(None),
        };
        // SAFETY: `call` stays alive and does not move until the latch is open, because we wait for
        // the latch below, and the job opens it last. The closure and its result are `Send`. The
        // job does not unwind, because it catches panics.
        self.inject(unsafe { JobRef::new(&raw const call, Call::<F, R>::run) });
        call.latch.wait();
        match call.result.into_inner() {
            Some(Ok(result)) => result,
            Some(Err(payload)) => resume_unwind(payload),
            None => unreachable!("the job stores its result before it opens the latch"),
        }
    }

    /// Handles a panic that no caller can receive. Passes it to the program's panic handler, or
    /// aborts the process if there is none or if the handler panics itself.
    pub(crate) fn handle_panic(&self, payload: Payload) {
        let guard = AbortOnDrop(match self.handlers.panic {
            Some(_) => "the panic handler has panicked",
            None => "a spawned job has panicked, and the pool has no panic handler",
        });
        let Some(handler) = &self.handlers.panic else {
            return drop(guard);
        };
        handler(payload);
        std::mem::forget(guard);
    }

    /// Calls `f`. If `f` panics, handles the panic.
    pub(crate) fn catch(&self, f: impl FnOnce()) {
        if let Err(payload) = catch(f) {
            self.handle_panic(payload);
        }
    }
}

static GLOBAL: OnceLock<Arc<Registry>> = OnceLock::new();

/// A call of [`Registry::run_injected`], on the stack of the thread that waits for its result.
struct Call<F, R> {
    latch: Latch,
    f: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<thread::Result<R>>>,
}

impl<F: FnOnce(&WorkerThread, bool) -> R, R> Call<F, R> {
    unsafe fn run(this: *const ()) {
        let this = this.cast::<Self>();
        // SAFETY: validity: the call is alive until its latch is open, and the latch still counts
        // this job. Aliasing: there are only shared references to the call.
        let call = unsafe { &*this };
        // SAFETY: aliasing: only the thread that runs the job accesses the closure.
        let f = unsafe { &mut *call.f.get() }.take();
        let result = f.map(|f| {
            catch(|| match WorkerThread::current() {
                Some(worker) => f(worker, true),
                None => unreachable!("jobs run on threads of a pool"),
            })
        });
        // SAFETY: aliasing: the caller reads the result only after the latch is open.
        unsafe { *call.result.get() = result };
        // SAFETY: the call is still alive, and this only computes an address.
        let latch = unsafe { &raw const (*this).latch };
        // SAFETY: the latch counts this job.
        unsafe { Latch::done(latch) };
    }
}

/// The state that a thread of a pool keeps about itself. A thread-local variable points to it.
pub(crate) struct WorkerThread {
    pub(crate) registry: Arc<Registry>,
    pub(crate) index: usize,
    deque: Worker<JobRef>,
    fifo: Fifo,
}

thread_local! {
    static CURRENT: Cell<*const WorkerThread> = const { Cell::new(ptr::null()) };
}

impl WorkerThread {
    /// Returns the calling thread, if it belongs to a pool.
    ///
    /// You must not keep the reference beyond the job that the thread is running, because the state
    /// ends with the thread.
    #[inline]
    pub(crate) fn current<'a>() -> Option<&'a Self> {
        let current = CURRENT.with(Cell::get);
        // SAFETY: validity: the pointer is null, or it points to the state that `begin` created and
        // `end` frees. A thread runs jobs only between these two. Aliasing: there are only shared
        // references to the state.
        unsafe { current.as_ref() }
    }

    /// Makes the calling thread a thread of the pool. Calls the program's `start_handler`, unless
    /// this is the thread of `use_current_thread`.
    pub(crate) fn begin(registry: Arc<Registry>, index: usize, deque: Worker<JobRef>) {
        let worker = Box::new(Self {
            registry: Arc::clone(&registry),
            index,
            deque,
            fifo: Fifo::default(),
        });
        CURRENT.with(|current| current.set(Box::into_raw(worker)));
        if index >= registry.first() {
            registry.add_started();
            if let Some(start) = &registry.handlers.start {
                registry.catch(|| start(index));
            }
        }
    }

    /// Undoes [`begin`](Self::begin) before the calling thread ends. Calls the program's
    /// `exit_handler` first.
    pub(crate) fn end() {
        let Some(worker) = Self::current() else {
            return;
        };
        if let Some(exit) = &worker.registry.handlers.exit {
            worker.registry.catch(|| exit(worker.index));
        }
        let own = CURRENT.with(|current| current.replace(ptr::null()));
        // SAFETY: the pointer comes from `Box::into_raw` in `begin`. We have just removed it from
        // the thread-local variable, so nobody can use it any more.
        drop(unsafe { Box::from_raw(own.cast_mut()) });
    }

    pub(crate) fn push(&self, job: JobRef) {
        self.deque.push(job);
        self.registry.notify();
    }

    /// Pushes a job that runs after the jobs that this thread has pushed with this method before.
    pub(crate) fn push_fifo(&self, job: JobRef) {
        // SAFETY: the queue lives as long as its thread, and a thread ends only after its pool has
        // run all jobs, including the tickets.
        self.push(unsafe { self.fifo.push(job) });
    }

    /// Returns whether the thread's own deque has a job.
    pub(crate) fn has_jobs(&self) -> bool {
        !self.deque.is_empty()
    }

    /// Runs one job, from the thread's own deque or from one of the other queues. Calls `begin`
    /// before it runs the job. Returns whether there was a job.
    fn run_one(&self, begin: &mut dyn FnMut()) -> bool {
        let queues = &self.registry.queues;
        let job = self.deque.pop().or_else(|| queues.steal_for(self.index));
        let found = job.is_some();
        if let Some(job) = job {
            begin();
            // SAFETY: the queues return each job once.
            unsafe { job.run() };
        }
        found
    }

    /// Runs one job of the thread's own deque. Returns whether there was a job.
    pub(crate) fn run_own(&self) -> bool {
        let job = self.deque.pop();
        // SAFETY: the deque returns each job once.
        job.map(|job| unsafe { job.run() }).is_some()
    }

    /// Runs a piece of work of the pool, for example a job or a call that a broadcast has sent.
    /// Returns whether there was any work.
    pub(crate) fn run_any(&self) -> bool {
        if !self.is_member() {
            return self.registry.pool.work_once();
        }
        let inbox = self.registry.member.iter();
        let sent = inbox.filter_map(|member| lock(&member.inbox).pop_front());
        let sent = sent.map(|job| job()).count() > 0;
        sent || self.run_one(&mut || ())
    }

    /// Returns whether this is the thread that created the pool with `use_current_thread`. It is
    /// not one of Creel's workers.
    fn is_member(&self) -> bool {
        self.index < self.registry.first()
    }

    /// Blocks until `done` returns true, and runs work of the pool while it waits.
    pub(crate) fn work_until(&self, done: impl Fn() -> bool) {
        if !self.is_member() {
            return self.registry.pool.work_until(done);
        }
        while !done() {
            if !self.run_any() && !done() {
                // Other threads unpark this thread for each job that they push or send, and for the
                // event that it waits for. The timeout is only a precaution against a missed
                // wake-up.
                thread::park_timeout(Duration::from_millis(1));
            }
        }
    }

    /// Runs both closures as [`crate::join_context`] does. `injected` says whether the call of
    /// `join` has moved to this thread from another one.
    #[inline]
    pub(crate) fn join<A, B: Send>(
        &self,
        a: impl FnOnce(bool) -> A,
        b: impl FnOnce(bool) -> B + Send,
        injected: bool,
    ) -> (A, B) {
        if self.registry.is_solo() {
            let a = catch(|| a(injected));
            let b = b(injected);
            return (a.unwrap_or_else(|panic| resume_unwind(panic)), b);
        }
        self.registry.pool.recurse(|joiner| {
            joiner.join_context(|_| a(injected), |_, migrated| b(migrated || injected))
        })
    }
}

/// Passes the registry to the threads of a Creel pool when they start. A thread cannot have it from
/// the beginning, because we create the registry after the Creel pool.
#[derive(Default)]
pub(crate) struct Threads {
    /// For each thread that has not started: the registry and the deque that the thread takes when
    /// it starts.
    starts: Mutex<Vec<Option<Start>>>,
}

/// The registry and the deque, which a thread needs when it starts.
type Start = (Arc<Registry>, Worker<JobRef>);

impl Threads {
    /// Sets the registry and the deques. Call it before the threads start. The first deque is that
    /// of thread `first`.
    pub(crate) fn set(&self, registry: &Arc<Registry>, first: usize, deques: Vec<Worker<JobRef>>) {
        let start = |deque| Some((Arc::clone(registry), deque));
        let mut starts = lock(&self.starts);
        starts.resize_with(first, || None);
        starts.extend(deques.into_iter().map(start));
    }

    /// Makes the calling thread the thread `index` of the pool, which takes its registry and deque.
    pub(crate) fn begin(&self, index: usize) {
        let start = lock(&self.starts).get_mut(index).and_then(Option::take);
        if let Some((registry, deque)) = start {
            WorkerThread::begin(registry, index, deque);
        }
    }

    /// Drops the registry and the deques of the threads from index `from` on, because these threads
    /// will not start.
    pub(crate) fn give_up(&self, from: usize) {
        let starts = lock(&self.starts).split_off(from);
        drop(starts);
    }
}
