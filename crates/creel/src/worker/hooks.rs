//! Things that a program adds to its pool: code at the start and end of each thread, a function
//! that starts the threads, and queues of jobs ([`Source`]).

use super::slots::Work;
use std::{fmt, io, sync::Arc};

type Hook = Arc<dyn Fn(usize) + Send + Sync>;
type Starter = Arc<dyn Fn(NewThread) -> io::Result<()> + Send + Sync>;

/// The code and the settings that a program adds to its pool.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) start: Option<Hook>,
    pub(crate) stop: Option<Hook>,
    pub(crate) starter: Option<Starter>,
    /// The queues that the program keeps for the pool.
    pub(crate) source: Option<Arc<dyn Source>>,
    /// Whether a thread from outside works in addition to worker 0, and not in its place.
    pub(crate) extra_callers: bool,
}

impl Hooks {
    /// Calls the hook for the start of the thread of worker `index`, which is the calling thread.
    pub(crate) fn started(&self, index: usize) {
        self.start.iter().for_each(|start| start(index));
    }

    /// Calls the hook for the end of the thread of worker `index`, which is the calling thread.
    pub(crate) fn stops(&self, index: usize) {
        self.stop.iter().for_each(|stop| stop(index));
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("start", &self.start.is_some())
            .field("stop", &self.stop.is_some())
            .field("starter", &self.starter.is_some())
            .field("source", &self.source.is_some())
            .field("extra_callers", &self.extra_callers)
            .finish()
    }
}

/// A worker's thread that the function of [`PoolBuilder::start_threads_with`] has to start. That
/// function must call [`run`](Self::run) on the new thread.
///
/// If that function returns `Ok` but drops the value without a call of `run`, the worker never runs
/// anything. [`PoolBuilder::start_threads_with`] has an example.
///
/// [`PoolBuilder::start_threads_with`]: crate::PoolBuilder::start_threads_with
pub struct NewThread {
    index: usize,
    name: String,
    stack_size: Option<usize>,
    run: Box<dyn FnOnce() + Send>,
}

impl NewThread {
    pub(crate) fn new(
        index: usize,
        name: String,
        stack_size: Option<usize>,
        run: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self {
            index,
            name,
            stack_size,
            run: Box::new(run),
        }
    }

    /// Returns the index of the worker.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the name that the thread should have.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the stack size in bytes that the thread should have. `None` means the default.
    #[must_use]
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Runs the worker on the calling thread. Returns when the worker ends, because the pool has
    /// ended or has been resized to fewer workers.
    pub fn run(self) {
        (self.run)();
    }
}

impl fmt::Debug for NewThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewThread")
            .field("index", &self.index)
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}

/// A worker's thread that the program starts. It counts as a user of the pool already. If it never
/// starts, dropping this value removes that user.
pub(crate) struct Unstarted(pub(crate) Option<Arc<dyn Work>>);

impl Unstarted {
    /// Runs the worker `index` on the calling thread.
    pub(crate) fn serve(mut self, index: usize) {
        if let Some(work) = self.0.take() {
            work.serve(index);
        }
    }
}

impl Drop for Unstarted {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            work.abandon();
        }
    }
}

/// Queues that a program keeps for a pool. The pool's idle workers take jobs from them.
///
/// A program pushes a job, and then calls [`Pool::notify`](crate::Pool::notify). The pool then
/// treats the job as its own: it is run as soon as a worker is idle.
///
/// Use it for an executor that has rules of its own about the order of its jobs. Most programs need
/// no source, because they can call [`Pool::scope`](crate::Pool::scope) or
/// [`Pool::spawn`](crate::Pool::spawn).
///
/// The methods must not panic. A panic in `run` aborts the process.
///
/// ```
/// use creel::{Pool, Source};
/// use std::sync::{Arc, Mutex, mpsc::channel};
///
/// type Job = Box<dyn FnOnce() + Send>;
/// #[derive(Default)]
/// struct Stack(Mutex<Vec<Job>>);
///
/// impl Source for Stack {
///     fn is_ready(&self) -> bool {
///         !self.0.lock().unwrap().is_empty()
///     }
///     fn run(&self, _worker: usize, begin: &mut dyn FnMut()) -> bool {
///         let job = self.0.lock().unwrap().pop();
///         let found = job.is_some();
///         if let Some(job) = job {
///             begin();
///             job();
///         }
///         found
///     }
/// }
///
/// let stack = Arc::new(Stack::default());
/// let pool = Pool::builder().workers(2).source(stack.clone()).build()?;
/// let (sender, receiver) = channel();
/// stack.0.lock().unwrap().push(Box::new(move || sender.send(7).unwrap()));
/// pool.notify();
/// assert_eq!(receiver.recv(), Ok(7));
/// # Ok::<(), creel::BuildError>(())
/// ```
pub trait Source: Send + Sync + 'static {
    /// Returns whether there is a job that any worker may take.
    ///
    /// The answer must be at least as recent as the caller's last `SeqCst` operation. For example,
    /// read a `SeqCst` counter, or begin with a `SeqCst` fence.
    fn is_ready(&self) -> bool;

    /// Takes a job and runs it on the calling thread, which is that of worker `worker`. Calls
    /// `begin` after it has taken the job and before it runs it, because another worker may then
    /// have to be woken for the next job. Returns whether there was a job.
    fn run(&self, worker: usize, begin: &mut dyn FnMut()) -> bool;

    /// Runs a job that is meant for the calling thread, which is not a worker of the pool. Returns
    /// whether there was one.
    ///
    /// The thread has waited for the second closure of a join for about a millisecond. Implement
    /// this if that closure may wait for a job that only this thread can run.
    fn run_outside(&self) -> bool {
        false
    }
}
