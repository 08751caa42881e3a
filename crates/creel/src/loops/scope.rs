//! Scopes: you spawn closures that borrow, and the scope waits for all of them.
//!
//! When [`Pool::scope`] returns, each closure that was spawned in it has run, or has been dropped
//! because of a panic. The jobs wait in the scope's own queue. The scope publishes this queue as a
//! shared job (`shared_jobs.rs`), so that idle workers help. The waiting caller helps as well, so a
//! scope makes progress even if no worker is free.

use super::protocol::{
    Protocol,
    shared_jobs::{Open, SharedJob},
};
use crate::{
    pool::Pool,
    sync::{Mutex, lock, now_ns, spin_loop},
    worker::{
        current,
        error::WorkerError,
        inbox::Job,
        panics::{FirstPanic, discard},
        scoped_job,
        waiter::Latch,
    },
};
use std::{
    collections::VecDeque,
    fmt,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::NonNull,
    sync::Arc,
};

/// A scope, in which you can spawn closures that borrow from outside the scope (`'env`).
/// [`Pool::scope`] creates it.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::Scope;
///
/// /// Counts the nodes of a binary tree, with one job per branch.
/// fn add<'s>(s: &'s Scope<'s, '_>, depth: u32, sum: &'s std::sync::atomic::AtomicU32) {
///     sum.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///     if depth > 0 {
///         s.spawn(move || add(s, depth - 1, sum));
///         s.spawn(move || add(s, depth - 1, sum));
///     }
/// }
/// let sum = 0.into();
/// pool.scope(|s| add(s, 5, &sum));
/// assert_eq!(sum.into_inner(), 63);
/// # Ok::<(), creel::BuildError>(())
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    loops: &'scope Protocol,
    core: &'scope Core<'scope>,
    open: &'scope Open<'scope>,
    /// Makes the type invariant in both lifetimes, as in `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// A job, and the worker that it is meant for.
struct Spawned {
    job: Job,
    near: Option<Near>,
}

/// The worker that a job is meant for, and the time until which other threads leave the job to it.
#[derive(Clone, Copy)]
struct Near {
    worker: usize,
    until_ns: u64,
}

/// The jobs of a scope that no thread has taken.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Spawned>,
    /// The number of jobs that are meant for a particular worker.
    meant: usize,
}

/// The number of jobs at the front of the queue that a thread searches for a job that is meant for
/// it, or for one that is not reserved for another worker.
const LOOK: usize = 64;

/// The time that a job waits for the worker that it is meant for, as a multiple of the time that a
/// wake takes.
const LATE_WAKES: u64 = 2;

/// The data that the scope and its helpers share.
#[repr(C)]
struct Core<'a> {
    shared_job: SharedJob,
    loops: &'a Protocol,
    queue: Mutex<Queue>,
    /// Counts the jobs that are spawned and not done, plus one while the scope's closure runs.
    latch: Arc<Latch>,
    panic: Arc<FirstPanic>,
}

impl Core<'_> {
    /// Runs one job. Returns whether there was one.
    ///
    /// # Safety
    ///
    /// It is a `Core` that begins with the shared job, and it is alive.
    unsafe fn run(shared_job: NonNull<SharedJob>) -> bool {
        // SAFETY: Validity: the caller promises that this is a `Core` that begins with the shared
        // job, and that it is alive. Aliasing: it is only shared, and what changes in it is locked
        // or atomic.
        let this = unsafe { shared_job.cast::<Self>().as_ref() };
        // The job stores its panic, so this does not unwind.
        this.take().map(|job| job()).is_some()
    }

    /// Takes the oldest job that is meant for this thread. If there is none, it takes the oldest
    /// job that is not reserved for another worker. A job is reserved until its worker is late.
    fn take(&self) -> Option<Job> {
        if self.shared_job.is_empty() {
            return None;
        }
        let mut queue = lock(&self.queue);
        let at = self.pick(&queue)?;
        // A job is put into the queue before it is counted, so a claim always finds one.
        let claimed = self.loops.shared_jobs.claim(&self.shared_job);
        let spawned = claimed.then(|| queue.jobs.remove(at)).flatten()?;
        queue.meant -= usize::from(spawned.near.is_some());
        Some(spawned.job)
    }

    fn pick(&self, queue: &Queue) -> Option<usize> {
        if queue.meant == 0 {
            return (!queue.jobs.is_empty()).then_some(0);
        }
        let queue = || queue.jobs.iter().take(LOOK);
        let own = current::index_in(&self.loops.slots);
        let mine = |spawned: &Spawned| own.is_some() && spawned.near.map(|near| near.worker) == own;
        let mut now = None;
        let mut free = |spawned: &Spawned| match spawned.near {
            None => true,
            Some(near) => near.until_ns <= *now.get_or_insert_with(now_ns),
        };
        queue()
            .position(mine)
            .or_else(|| queue().position(&mut free))
    }

    /// Returns whether there is a job that is meant for a particular worker.
    fn waits_for_another(&self) -> bool {
        !self.shared_job.is_empty() && lock(&self.queue).meant > 0
    }
}

/// Aborts the process if the wait for the jobs unwinds. The jobs store their panics, so this would
/// be a bug in Creel. Jobs that are still running would use memory that the unwinding frees.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("creel: the wait of a scope has panicked; ending the process");
        std::process::abort();
    }
}

impl Pool {
    /// Runs `f`, which may spawn closures that borrow from outside the scope, and returns when all
    /// of them are done. The calling thread helps. If the caller is a worker, it runs only the jobs
    /// of this scope, the work that these jobs share, and closures that other workers send to it
    /// with [`run_on`](Self::run_on).
    ///
    /// # Panics
    /// Resumes the panic of `f`, or otherwise the first panic of a closure, after all closures have
    /// ended.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut left, mut right) = (1, 2);
    /// pool.scope(|s| {
    ///     s.spawn(|| left += 10);
    ///     s.spawn_on(1, || right += 20).unwrap();
    /// });
    /// assert_eq!((left, right), (11, 22));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn scope<'env, R>(
        &self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> R {
        let loops = &self.shared().loops;
        let core = Core {
            shared_job: SharedJob::new(Core::run, false),
            loops,
            queue: Mutex::default(),
            latch: Latch::new(1),
            panic: Arc::default(),
        };
        // SAFETY: `core` lives until the end of this function, is not moved, and is `Sync`. `open`
        // is dropped before it.
        let open = unsafe { Open::new(loops, NonNull::from(&core).cast()) };
        let scope = Scope {
            loops,
            core: &core,
            open: &open,
            scope: PhantomData,
            env: PhantomData,
        };
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
        core.latch.done();
        let guard = AbortOnUnwind;
        core.latch.wait(|| {
            let helped = open.run_one() || open.help_under();
            // The worker that such a job is meant for will be late soon, and then this thread runs
            // the job.
            let soon = !helped && core.waits_for_another();
            if soon {
                spin_loop();
            }
            helped || soon
        });
        drop(open);
        std::mem::forget(guard);
        let first = core.panic.take();
        match (result, first) {
            (Err(payload), second) => {
                discard(second);
                resume_unwind(payload)
            }
            (Ok(result), Some(payload)) => {
                discard(result);
                resume_unwind(payload)
            }
            (Ok(result), None) => result,
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a closure, which any worker or the waiting caller runs. This does not block.
    ///
    /// To spawn a closure inside another one, let it capture the scope, for example with
    /// `s.spawn(move || s.spawn(…))`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut words = ["one".to_string(), "two".to_string()];
    /// pool.scope(|s| {
    ///     for word in &mut words {
    ///         s.spawn(|| word.make_ascii_uppercase());
    ///     }
    /// });
    /// assert_eq!(words, ["ONE", "TWO"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn spawn(&'scope self, f: impl FnOnce() + Send + 'scope) {
        let (job, near) = (self.job(f), None);
        lock(&self.core.queue).jobs.push_back(Spawned { job, near });
        self.open.add(1);
        // The scope's caller may be asleep.
        self.core.latch.nudge();
    }

    /// Spawns a closure that worker `worker` runs if it can. Use it if the closure's data are in
    /// that worker's cache. The worker is woken if it is asleep. If it has not started the closure
    /// within about two wake times (tens of microseconds), because it or its CPU is busy, then a
    /// free worker or the waiting caller runs the closure. Therefore, nobody waits for a busy
    /// worker.
    ///
    /// If the pool has no such worker, this does the same as [`spawn`](Self::spawn).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut halves = [vec![1; 1000], vec![2; 1000]];
    /// for _frame in 0..3 {
    ///     pool.scope(|s| {
    ///         for (worker, half) in halves.iter_mut().enumerate() {
    ///             s.spawn_near(worker, || half.iter_mut().for_each(|x| *x += 1));
    ///         }
    ///     });
    /// }
    /// assert_eq!((halves[0][0], halves[1][999]), (4, 5));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn spawn_near(&'scope self, worker: usize, f: impl FnOnce() + Send + 'scope) {
        if self.loops.slots.slot_in_use(worker).is_err() {
            return self.spawn(f);
        }
        let until_ns = now_ns() + LATE_WAKES * self.loops.mailbox.wake_ns();
        let near = Some(Near { worker, until_ns });
        let job = self.job(f);
        let mut queue = lock(&self.core.queue);
        queue.jobs.push_back(Spawned { job, near });
        queue.meant += 1;
        drop(queue);
        self.open.add_near(worker);
        self.core.latch.nudge();
    }

    /// Spawns a closure that runs on the thread of worker `worker`. This does not wait for the
    /// closure.
    ///
    /// # Errors
    /// If the pool has no such worker, has ended, or the operating system refuses the worker's
    /// thread. The closure has been dropped in that case.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut name = None;
    /// pool.scope(|s| {
    ///     s.spawn_on(1, || name = std::thread::current().name().map(String::from))
    /// }).unwrap();
    /// assert_eq!(name.as_deref(), Some("creel-1"));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn spawn_on(
        &'scope self,
        worker: usize,
        f: impl FnOnce() + Send + 'scope,
    ) -> Result<(), WorkerError> {
        let slots = &self.loops.slots;
        let slot = slots.slot_in_use(worker)?;
        let sent = slots.send(slot, self.job(f));
        sent.map_err(|error| slots.refused(error))
    }

    /// Returns the closure as a job that stores its panic and counts itself as done.
    fn job(&self, f: impl FnOnce() + Send + 'scope) -> Job {
        self.core.latch.add();
        let panic = Arc::clone(&self.core.panic);
        let work = move || {
            panic.catch(f);
        };
        // SAFETY: What the closure borrows outlives `'scope`, and `Pool::scope` only ends `'scope`
        // after the latch is open.
        unsafe { scoped_job::job(work, Arc::clone(&self.core.latch)) }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("pending", &self.core.latch.pending())
            .finish_non_exhaustive()
    }
}
