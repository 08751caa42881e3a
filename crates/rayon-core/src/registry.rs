//! A pool of threads: the Creel pool, and the queues of jobs that its workers take.
//!
//! | work | where it runs |
//! |---|---|
//! | `join`, and all of rayon's iterators | Creel's own joins (`creel::Joiner`) |
//! | `spawn`, jobs of a scope, work from outside threads | the queues of this module, which are a [`creel::Source`] of the pool |
//! | `broadcast` | the inboxes of Creel's workers |
//!
//! Each thread has a deque. It pushes jobs to its own deque, and takes the youngest, or with
//! `breadth_first` the oldest. Other threads steal the oldest. Threads from outside push to a
//! shared queue.

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

    /// Takes a job of another thread than `own`, or one that a thread from outside has pushed.
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
        // The pusher also has a fence, between its push and its look at the idle workers.
        fence(Ordering::SeqCst);
        !self.injected.is_empty() || self.stealers.iter().any(|queue| !queue.is_empty())
    }

    fn run(&self, _worker: usize, begin: &mut dyn FnMut()) -> bool {
        WorkerThread::current().is_some_and(|worker| worker.run_one(begin))
    }

    fn run_outside(&self) -> bool {
        // The thread may belong to another pool.
        let worker = WorkerThread::current();
        let worker = worker.filter(|worker| ptr::eq(&*worker.registry.queues, self));
        worker.is_some_and(|worker| worker.is_member() && worker.run_any())
    }
}

/// The thread that has called `ThreadPoolBuilder::use_current_thread`. It is thread 0 of its pool.
struct Member {
    thread: Thread,
    /// The calls that broadcasts send to this thread.
    inbox: Mutex<VecDeque<Box<dyn FnOnce() + Send>>>,
}

/// A pool of threads.
pub(crate) struct Registry {
    /// A handle to the Creel pool.
    pub(crate) pool: Pool,
    /// The Creel pool itself, until it ends.
    owner: Mutex<Option<Pool>>,
    queues: Arc<Queues>,
    threads: usize,
    member: Option<Member>,
    pub(crate) handlers: Handlers,
    /// The number of reasons to keep the threads: the `ThreadPool`, and each spawned job.
    users: AtomicUsize,
    /// The number of threads that have started.
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

    /// Makes a pool the global one. Returns false if there is one already.
    pub(crate) fn set_global(
        make: impl FnOnce() -> Result<Arc<Self>, crate::ThreadPoolBuildError>,
    ) -> Result<bool, crate::ThreadPoolBuildError> {
        // One `build_global` at a time creates a pool. `global` may still set its own pool first,
        // and then this pool ends.
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

    /// Returns whether the only thread of the pool is the one that has created it.
    fn is_solo(&self) -> bool {
        self.member.is_some() && self.threads == 1
    }

    /// Returns the index of the thread that is Creel's worker 0.
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

    /// Adds a reason to keep the threads.
    pub(crate) fn enter(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a reason to keep the threads. The last one ends them.
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

    /// Pushes a job to the deque of the calling thread, or from outside.
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

    /// Makes thread `index` check what it waits for.
    pub(crate) fn wake(&self, index: usize) {
        match (&self.member, index) {
            (Some(member), 0) => member.thread.unpark(),
            _ => {
                // The registry never resizes its pool, so the worker exists.
                let _ = self.pool.wake(index - self.first());
            }
        }
    }

    /// Runs `f` on thread `index`, and does not wait for it. `f` must not unwind.
    pub(crate) fn send(&self, index: usize, f: impl FnOnce() + Send + 'static) {
        if let (Some(member), 0) = (&self.member, index) {
            lock(&member.inbox).push_back(Box::new(f));
            return member.thread.unpark();
        }
        // All threads have been started, and the pool has not ended, because somebody uses it.
        if self.pool.send_to(index - self.first(), f).is_err() {
            drop(AbortOnDrop("a thread of the pool has gone"));
        }
    }

    /// Returns the calling thread, if it belongs to this pool.
    pub(crate) fn worker(&self) -> Option<&WorkerThread> {
        WorkerThread::current().filter(|worker| ptr::eq(&*worker.registry, self))
    }

    /// Calls `f` on a thread of this pool. If that is another thread than the calling one, it
    /// passes true.
    #[inline]
    pub(crate) fn run<R: Send>(&self, f: impl FnOnce(&WorkerThread, bool) -> R + Send) -> R {
        match self.worker() {
            Some(worker) => f(worker, false),
            None => self.run_injected(f),
        }
    }

    /// Calls `f` on a thread of this pool, to which the calling thread does not belong.
    #[cold]
    #[inline(never)]
    fn run_injected<R: Send, F: FnOnce(&WorkerThread, bool) -> R + Send>(&self, f: F) -> R {
        let call = Call {
            latch: Latch::new(1),
            f: UnsafeCell::new(Some(f)),
            result: UnsafeCell::new(None),
        };
        // SAFETY: `call` stays in its place until the latch is open, which the job does last. The
        // closure and its result are `Send`. The job does not unwind.
        self.inject(unsafe { JobRef::new(&raw const call, Call::<F, R>::run) });
        call.latch.wait();
        match call.result.into_inner() {
            Some(Ok(result)) => result,
            Some(Err(payload)) => resume_unwind(payload),
            None => unreachable!("the job stores its result before it opens the latch"),
        }
    }

    /// Handles a panic that no caller receives.
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

    /// Calls `f` and handles its panic.
    pub(crate) fn catch(&self, f: impl FnOnce()) {
        if let Err(payload) = catch(f) {
            self.handle_panic(payload);
        }
    }
}

static GLOBAL: OnceLock<Arc<Registry>> = OnceLock::new();

/// A call that waits for its result on its caller's stack.
struct Call<F, R> {
    latch: Latch,
    f: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<thread::Result<R>>>,
}

impl<F: FnOnce(&WorkerThread, bool) -> R, R> Call<F, R> {
    unsafe fn run(this: *const ()) {
        let this = this.cast::<Self>();
        // SAFETY: the call is alive until its latch is open. It is only shared.
        let call = unsafe { &*this };
        // SAFETY: only the thread that runs the job uses the closure.
        let f = unsafe { &mut *call.f.get() }.take();
        let result = f.map(|f| {
            catch(|| match WorkerThread::current() {
                Some(worker) => f(worker, true),
                None => unreachable!("jobs run on threads of a pool"),
            })
        });
        // SAFETY: the caller reads the result after the latch is open.
        unsafe { *call.result.get() = result };
        // SAFETY: it is alive, and nothing is read.
        let latch = unsafe { &raw const (*this).latch };
        // SAFETY: the latch counts this job.
        unsafe { Latch::done(latch) };
    }
}

/// A thread of a pool, as it sees itself.
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
    /// The reference must not be kept beyond the job that the thread is running.
    #[inline]
    pub(crate) fn current<'a>() -> Option<&'a Self> {
        let current = CURRENT.with(Cell::get);
        // SAFETY: validity: the pointer is set while the thread belongs to its pool, which is as
        // long as it runs jobs. Aliasing: it is only shared.
        unsafe { current.as_ref() }
    }

    /// Makes the calling thread a thread of the pool.
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

    /// Ends what `begin` began, on the same thread.
    pub(crate) fn end() {
        let Some(worker) = Self::current() else {
            return;
        };
        if let Some(exit) = &worker.registry.handlers.exit {
            worker.registry.catch(|| exit(worker.index));
        }
        let own = CURRENT.with(|current| current.replace(ptr::null()));
        // SAFETY: it comes from `Box::into_raw` in `begin`, and nobody else has it any more.
        drop(unsafe { Box::from_raw(own.cast_mut()) });
    }

    pub(crate) fn push(&self, job: JobRef) {
        self.deque.push(job);
        self.registry.notify();
    }

    /// Pushes a job that runs after the jobs that this thread has pushed here before.
    pub(crate) fn push_fifo(&self, job: JobRef) {
        // SAFETY: a thread ends after its pool has run all jobs, and the queue ends with it.
        self.push(unsafe { self.fifo.push(job) });
    }

    /// Returns whether the thread's own deque has a job.
    pub(crate) fn has_jobs(&self) -> bool {
        !self.deque.is_empty()
    }

    /// Runs a job of the queues. Calls `begin` before that. Returns whether there was one.
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

    /// Runs a job of the thread's own deque. Returns whether there was one.
    pub(crate) fn run_own(&self) -> bool {
        let job = self.deque.pop();
        // SAFETY: the deque returns each job once.
        job.map(|job| unsafe { job.run() }).is_some()
    }

    /// Runs any work of the pool. Returns whether there was any.
    pub(crate) fn run_any(&self) -> bool {
        if !self.is_member() {
            return self.registry.pool.work_once();
        }
        let inbox = self.registry.member.iter();
        let sent = inbox.filter_map(|member| lock(&member.inbox).pop_front());
        let sent = sent.map(|job| job()).count() > 0;
        sent || self.run_one(&mut || ())
    }

    /// Returns whether this is the thread that has created its pool.
    fn is_member(&self) -> bool {
        self.index < self.registry.first()
    }

    /// Blocks until `done` returns true, and runs any work of the pool in the meantime.
    pub(crate) fn work_until(&self, done: impl Fn() -> bool) {
        if !self.is_member() {
            return self.registry.pool.work_until(done);
        }
        while !done() {
            if !self.run_any() && !done() {
                // Other threads unpark this one for each job that they push or send, and for the
                // event that it waits for. The timeout is a precaution.
                thread::park_timeout(Duration::from_millis(1));
            }
        }
    }

    /// Runs both closures as [`crate::join_context`] does. `injected` says whether the join comes
    /// from another thread.
    #[inline]
    pub(crate) fn join<A, B: Send>(
        &self,
        a: impl FnOnce(bool) -> A,
        b: impl FnOnce(bool) -> B + Send,
        injected: bool,
    ) -> (A, B) {
        if self.registry.is_solo() {
            return (a(injected), b(injected));
        }
        self.registry.pool.recurse(|joiner| {
            joiner.join_context(|_| a(injected), |_, migrated| b(migrated || injected))
        })
    }
}

/// Connects the threads of a Creel pool with their registry, which is created after the pool.
#[derive(Default)]
pub(crate) struct Threads {
    /// The registry and the deque of each thread that has not started.
    starts: Mutex<Vec<Option<Start>>>,
}

/// What a thread needs to start.
type Start = (Arc<Registry>, Worker<JobRef>);

impl Threads {
    /// Sets the registry and the deques. The threads must start after this.
    /// The first deque is that of thread `first`.
    pub(crate) fn set(&self, registry: &Arc<Registry>, first: usize, deques: Vec<Worker<JobRef>>) {
        let start = |deque| Some((Arc::clone(registry), deque));
        let mut starts = lock(&self.starts);
        starts.resize_with(first, || None);
        starts.extend(deques.into_iter().map(start));
    }

    /// Makes the calling thread the thread `index`.
    pub(crate) fn begin(&self, index: usize) {
        let start = lock(&self.starts).get_mut(index).and_then(Option::take);
        if let Some((registry, deque)) = start {
            WorkerThread::begin(registry, index, deque);
        }
    }

    /// Forgets the threads from index `from` on, which will not start.
    pub(crate) fn give_up(&self, from: usize) {
        let starts = lock(&self.starts).split_off(from);
        drop(starts);
    }
}
