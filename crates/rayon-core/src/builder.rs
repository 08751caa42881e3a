//! The builder of a pool: [`ThreadPoolBuilder`], and the error that it returns.

use crate::{
    ThreadPool,
    registry::{Queues, Registry, Threads, lock},
    unwind::Payload,
};
use creel::{BuildError, NewThread, Pool, PoolBuilder};
use std::{
    any::Any,
    error::Error,
    fmt, io,
    num::NonZeroUsize,
    sync::{Arc, Mutex},
    thread,
};

/// The maximum number of threads of a Creel pool.
pub(crate) const MAX_THREADS: usize = 16_383;

/// The smallest stack that Creel accepts, in bytes.
const MIN_STACK: usize = 16 << 10;

type PanicHandler = dyn Fn(Payload) + Send + Sync;
type Handler = dyn Fn(usize) + Send + Sync;
type Knobs = dyn FnOnce(PoolBuilder) -> PoolBuilder;

/// The functions that the program has set, for example `start_handler`.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) panic: Option<Box<PanicHandler>>,
    pub(crate) start: Option<Box<Handler>>,
    pub(crate) exit: Option<Box<Handler>>,
}

/// The error that a builder returns if it cannot create a pool.
#[derive(Debug)]
pub struct ThreadPoolBuildError(Kind);

#[derive(Debug)]
enum Kind {
    GlobalExists,
    AlreadyInPool,
    Io(io::Error),
    Creel(BuildError),
}

impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::GlobalExists => {
                f.write_str("The global thread pool has already been initialized.")
            }
            Kind::AlreadyInPool => {
                f.write_str("The current thread is already part of another thread pool.")
            }
            Kind::Io(error) => error.fmt(f),
            Kind::Creel(error) => error.fmt(f),
        }
    }
}

impl Error for ThreadPoolBuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Kind::GlobalExists | Kind::AlreadyInPool => None,
            // As with rayon, the message is that of the system's error, and the cause is this error
            // itself. Programs look here for the kind of the error.
            Kind::Io(error) => Some(error),
            Kind::Creel(error) => error.source(),
        }
    }
}

/// A thread that a [`spawn_handler`](ThreadPoolBuilder::spawn_handler) has to start. The handler
/// must call [`run`](Self::run) on the new thread.
#[derive(Debug)]
pub struct ThreadBuilder {
    thread: NewThread,
    index: usize,
    name: Option<String>,
    stack_size: Option<usize>,
}

impl ThreadBuilder {
    /// Returns the index of the thread in its pool.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the name that the thread should have.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the stack size in bytes that the thread should have.
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Runs the thread of the pool. Returns when the pool has ended.
    pub fn run(self) {
        self.thread.run();
    }
}

/// A way to start the threads of a pool. You do not implement this trait yourself, but pass a
/// function to [`ThreadPoolBuilder::spawn_handler`].
pub trait ThreadSpawn {
    #[doc(hidden)]
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()>;
}

/// Starts threads with [`std::thread::Builder`], which is the default.
#[derive(Debug, Default)]
pub struct DefaultSpawn;

impl ThreadSpawn for DefaultSpawn {
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        let mut builder = thread::Builder::new();
        if let Some(name) = thread.name() {
            builder = builder.name(name.to_owned());
        }
        if let Some(bytes) = thread.stack_size() {
            builder = builder.stack_size(bytes);
        }
        builder.spawn(|| thread.run()).map(drop)
    }
}

/// Starts threads with the function that the program has passed to
/// [`ThreadPoolBuilder::spawn_handler`].
#[derive(Debug)]
pub struct CustomSpawn<F>(F);

impl<F: FnMut(ThreadBuilder) -> io::Result<()>> ThreadSpawn for CustomSpawn<F> {
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        (self.0)(thread)
    }
}

/// A builder for a [`ThreadPool`], or for the global pool.
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build()?;
/// assert_eq!(pool.install(|| rayon_core::current_num_threads()), 2);
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
#[must_use = "a builder creates no pool until you call `build`"]
pub struct ThreadPoolBuilder<S = DefaultSpawn> {
    threads: usize,
    member: bool,
    name: Option<Box<dyn FnMut(usize) -> String>>,
    stack_size: Option<usize>,
    breadth_first: bool,
    handlers: Handlers,
    knobs: Option<Box<Knobs>>,
    spawn: S,
}

impl Default for ThreadPoolBuilder {
    fn default() -> Self {
        Self {
            threads: 0,
            member: false,
            name: None,
            stack_size: None,
            breadth_first: false,
            handlers: Handlers::default(),
            knobs: None,
            spawn: DefaultSpawn,
        }
    }
}

impl ThreadPoolBuilder {
    /// Creates a builder with the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a pool whose threads may borrow from the caller, and calls `with_pool` with it. Each
    /// new thread calls `wrapper`, which must call [`ThreadBuilder::run`]. The method returns after
    /// all threads of the pool have ended.
    ///
    /// # Errors
    /// Returns an error if the pool cannot be created.
    ///
    /// ```
    /// let names = std::sync::Mutex::new(Vec::new());
    /// let wrapper = |thread: rayon_core::ThreadBuilder| {
    ///     names.lock().unwrap().push(thread.index());
    ///     thread.run();
    /// };
    /// let builder = rayon_core::ThreadPoolBuilder::new().num_threads(2);
    /// let sum = builder.build_scoped(wrapper, |pool| pool.install(|| 1 + 2))?;
    /// assert_eq!(sum, 3);
    /// assert_eq!(names.into_inner().unwrap().len(), 2);
    /// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
    /// ```
    pub fn build_scoped<W, F, R>(self, wrapper: W, with_pool: F) -> Result<R, ThreadPoolBuildError>
    where
        W: Fn(ThreadBuilder) + Sync,
        F: FnOnce(&ThreadPool) -> R,
    {
        thread::scope(|scope| {
            let wrapper = &wrapper;
            let spawn = |thread: ThreadBuilder| {
                let mut builder = thread::Builder::new();
                if let Some(name) = thread.name() {
                    builder = builder.name(name.to_owned());
                }
                if let Some(bytes) = thread.stack_size() {
                    builder = builder.stack_size(bytes);
                }
                builder.spawn_scoped(scope, || wrapper(thread)).map(drop)
            };
            let pool = self.spawn_handler(spawn).build()?;
            Ok(with_pool(&pool))
        })
    }
}

impl<S: ThreadSpawn> ThreadPoolBuilder<S> {
    /// Creates a pool and starts its threads.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be started, or if Creel rejects the settings of
    /// [`creel`](Self::creel). With [`use_current_thread`](Self::use_current_thread), it also
    /// returns an error if the calling thread already belongs to a pool.
    pub fn build(self) -> Result<ThreadPool, ThreadPoolBuildError> {
        self.registry().map(ThreadPool::new_of)
    }

    /// Creates the global pool and starts its threads. Without this call, the global pool is
    /// created with the default settings when it is first used.
    ///
    /// # Errors
    /// Returns an error if there is a global pool already, and the same errors as
    /// [`build`](Self::build).
    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        match Registry::set_global(|| self.registry())? {
            true => Ok(()),
            false => Err(ThreadPoolBuildError(Kind::GlobalExists)),
        }
    }

    pub(crate) fn registry(mut self) -> Result<Arc<Registry>, ThreadPoolBuildError> {
        if self.member && crate::current_thread_index().is_some() {
            return Err(ThreadPoolBuildError(Kind::AlreadyInPool));
        }
        let own = usize::from(self.member);
        let mut threads = self.asked_threads();
        if threads.is_none() && (self.member || self.knobs.is_some()) {
            // The settings below would change the default number, so we ask a pool without them.
            threads = Some(Pool::builder().build().map_or(1, |pool| pool.workers()));
        }
        let threads = threads.map(|threads| threads.min(MAX_THREADS));
        let queues = Arc::<Queues>::default();
        let connection = Arc::<Threads>::default();
        let begins = Arc::clone(&connection);
        // Creel passes each thread that it needs to this closure, which must be `Send`. The
        // program's own function need not be `Send`. Therefore the closure only stores the threads,
        // and we call the program's function for each of them below, on this thread.
        let asked = Arc::<Mutex<Vec<NewThread>>>::default();
        let asks = Arc::clone(&asked);
        let mut builder = Pool::builder().name("rayon");
        if let Some(bytes) = self.stack_size {
            builder = builder.stack_size(bytes.max(MIN_STACK));
        }
        if let Some(knobs) = self.knobs.take() {
            builder = knobs(builder);
        }
        if let Some(threads) = threads {
            // Even if the calling thread is the only thread of the pool, we need a Creel pool with
            // one worker. Its thread is never started in this case.
            builder = builder.workers((threads - own).max(1));
        }
        let pool = builder
            .extra_callers()
            .source(queues.clone())
            .on_thread_start(move |index| begins.begin(index + own))
            .on_thread_stop(|_| crate::registry::WorkerThread::end())
            .start_threads_with(move |thread| {
                lock(&asks).push(thread);
                Ok(())
            })
            .build()
            .map_err(|error| ThreadPoolBuildError(Kind::Creel(error)))?;
        // By default, the number of Creel's workers follows the affinity mask and the CPU quota of
        // the process.
        let threads = threads.unwrap_or_else(|| pool.workers());
        let mut deques = queues.add_deques(threads, self.breadth_first);
        let handlers = std::mem::take(&mut self.handlers);
        let registry = Registry::new(pool, queues, threads, handlers, self.member);
        let member = self.member.then(|| deques.remove(0));
        connection.set(&registry, own, deques);
        if threads > own && registry.pool.start_threads().is_err() {
            unreachable!("the pool has just been created, and starting a thread only stores it");
        }
        let asked = std::mem::take(&mut *lock(&asked));
        // The program's functions may fail or panic. Dropping `unfinished` then ends the threads
        // that are already running.
        let mut unfinished = Unfinished {
            threads: &connection,
            registry: &registry,
            from: own,
        };
        for thread in asked {
            let index = thread.index() + own;
            let thread = ThreadBuilder {
                index,
                name: self.name.as_mut().map(|name| name(index)),
                stack_size: self.stack_size,
                thread,
            };
            let spawned = self.spawn.spawn(thread);
            spawned.map_err(|error| ThreadPoolBuildError(Kind::Io(error)))?;
            unfinished.from = index + 1;
        }
        std::mem::forget(unfinished);
        if let Some(deque) = member {
            crate::registry::WorkerThread::begin(Arc::clone(&registry), 0, deque);
        }
        Ok(registry)
    }
}

/// A guard that ends a pool when it is dropped, because not all threads of the pool could be
/// started.
struct Unfinished<'a> {
    threads: &'a Threads,
    registry: &'a Registry,
    /// The index of the first thread that was not started.
    from: usize,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.threads.give_up(self.from);
        self.registry.leave();
    }
}

/// Returns the value of an environment variable, or `None` if it is not a number above zero.
fn number(variable: &str) -> Option<NonZeroUsize> {
    std::env::var(variable).ok()?.trim().parse().ok()
}

impl<S> ThreadPoolBuilder<S> {
    /// Returns the number of threads that the program or the environment has asked for.
    fn asked_threads(&self) -> Option<usize> {
        let asked = NonZeroUsize::new(self.threads);
        let asked = asked.or_else(|| number("RAYON_NUM_THREADS"));
        // rayon still accepts this older name of the environment variable.
        let asked = asked.or_else(|| number("RAYON_RS_NUM_CPUS"));
        asked.map(NonZeroUsize::get)
    }

    /// Changes the settings of the Creel pool, for example how its workers wait. It cannot change
    /// the number of workers, or how their threads start and end.
    ///
    /// rayon has no such method. It is here so that a program can use Creel's settings.
    ///
    /// ```
    /// use creel::Wait;
    ///
    /// let builder = rayon_core::ThreadPoolBuilder::new().num_threads(2);
    /// let pool = builder.creel(|creel| creel.wait(Wait::Park)).build()?;
    /// assert_eq!(pool.join(|| 1, || 2), (1, 2));
    /// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
    /// ```
    pub fn creel(mut self, knobs: impl FnOnce(PoolBuilder) -> PoolBuilder + 'static) -> Self {
        self.knobs = Some(Box::new(knobs));
        self
    }

    /// Sets the number of threads. Zero, the default, means the value of the environment variable
    /// `RAYON_NUM_THREADS`, or of the older `RAYON_RS_NUM_CPUS`. If neither is set, the number is
    /// Creel's default. This is one thread per core that the process may use, or fewer if a CPU
    /// quota allows fewer.
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.threads = num_threads;
        self
    }

    /// Makes the calling thread a member of the pool, as thread 0. It counts as one of the threads.
    /// However, it runs work of the pool only while it is in one of the pool's functions, for
    /// example in `join` or `yield_now`.
    pub fn use_current_thread(mut self) -> Self {
        self.member = true;
        self
    }

    /// Sets a function that returns the name of each thread.
    pub fn thread_name<F>(mut self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.name = Some(Box::new(closure));
        self
    }

    /// Sets a function that starts the threads. The builder calls it once per thread, and the
    /// function must start a thread that calls [`ThreadBuilder::run`].
    ///
    /// ```
    /// let builder = rayon_core::ThreadPoolBuilder::new().num_threads(2);
    /// let pool = builder.spawn_handler(|thread| {
    ///     std::thread::spawn(|| thread.run());
    ///     Ok(())
    /// }).build()?;
    /// pool.install(|| println!("on a thread of my own"));
    /// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
    /// ```
    pub fn spawn_handler<F>(self, spawn: F) -> ThreadPoolBuilder<CustomSpawn<F>>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        ThreadPoolBuilder {
            spawn: CustomSpawn(spawn),
            threads: self.threads,
            member: self.member,
            name: self.name,
            stack_size: self.stack_size,
            breadth_first: self.breadth_first,
            handlers: self.handlers,
            knobs: self.knobs,
        }
    }

    /// Sets a function that receives the panics of spawned jobs and of the other handlers. Without
    /// it, such a panic aborts the process. A panic of this function aborts the process as well.
    pub fn panic_handler<H>(mut self, panic_handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.handlers.panic = Some(Box::new(panic_handler));
        self
    }

    /// Sets the stack size of the threads in bytes.
    pub fn stack_size(mut self, stack_size: usize) -> Self {
        self.stack_size = Some(stack_size);
        self
    }

    /// Makes each thread take the oldest job of its deque first. By default, it takes the youngest,
    /// because the data of that job are likely to be in its caches.
    #[deprecated(note = "use `scope_fifo` and `spawn_fifo` for a similar effect")]
    pub fn breadth_first(mut self) -> Self {
        self.breadth_first = true;
        self
    }

    /// Sets a function that each thread calls with its index when it starts. The thread of
    /// [`use_current_thread`](Self::use_current_thread) does not call it.
    pub fn start_handler<H>(mut self, start_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.handlers.start = Some(Box::new(start_handler));
        self
    }

    /// Sets a function that each thread calls with its index before it ends. The thread of
    /// [`use_current_thread`](Self::use_current_thread) does not call it.
    pub fn exit_handler<H>(mut self, exit_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.handlers.exit = Some(Box::new(exit_handler));
        self
    }

    pub(crate) fn set_breadth_first(&mut self) {
        self.breadth_first = true;
    }
}

impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &self.threads)
            .field("use_current_thread", &self.member)
            .field("stack_size", &self.stack_size)
            .field("breadth_first", &self.breadth_first)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_of_the_system_is_its_own_cause() {
        let workers = BuildError::Workers { asked: 0, max: 1 };
        assert!(
            ThreadPoolBuildError(Kind::Creel(workers))
                .source()
                .is_none()
        );
        let observe = BuildError::Observe(Arc::new(io::Error::other("refused")));
        let error = ThreadPoolBuildError(Kind::Creel(observe));
        assert!(!error.to_string().contains("refused"), "{error}");
        assert_eq!(error.source().unwrap().to_string(), "refused");
        // As with rayon.
        let refused = ThreadPoolBuildError(Kind::Io(io::ErrorKind::WouldBlock.into()));
        let cause = refused.source().and_then(|cause| cause.downcast_ref());
        assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::WouldBlock));
    }
}
