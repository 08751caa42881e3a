//! Threads for calls that block, for example to access files, to wait for child processes, or to
//! look up host names. They are not workers of a pool.
//!
//! All pools of the process share these threads. A new thread starts when a call arrives and no
//! thread is free. A thread ends when it has had no call for a while. A blocked thread needs no
//! CPU, so the maximum number of these threads does not depend on the number of CPUs. The maximum
//! only limits how many threads a flood of calls can start, and the program may change it. Work
//! that computes belongs on a pool.
//!
//! Host names have separate threads. Otherwise, calls that wait for a peer could occupy all
//! threads, and the lookup of that peer's name would wait for them.

use crate::sync::{HAS_THREADS, process_id};
use crate::worker::budget;
use crate::worker::stored_waker::StoredWaker;
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

/// The default maximum number of threads for the program's calls.
const THREADS_MAX: usize = 512;
/// The maximum number of threads for host names. They have separate threads, because a lookup must
/// not wait for the program's calls, which may themselves wait for the result of the lookup.
const NAMES_MAX: usize = 32;

/// The maximum number of threads for the program's calls. Relaxed is enough, because no other data
/// depend on it.
static MAX: AtomicUsize = AtomicUsize::new(THREADS_MAX);

/// Sets the maximum number of threads that this process uses for [`blocking`] calls. The default is
/// 512.
///
/// Further calls wait until a thread is free. The limit applies from the next call on. If more
/// threads exist, they end after they have been free for a while. The lookup of names by
/// [`net`](crate::net) uses a few separate threads, which this setting does not change.
///
/// The setting belongs to the process and not to a pool, because you can call `blocking` outside of
/// pools. Set it at the start of `main`.
///
/// # Panics
///
/// Panics if `threads` is 0.
///
/// ```
/// creel::set_max_blocking_threads(16);
/// let pool = creel::Pool::builder().workers(1).build()?;
/// assert_eq!(pool.block_on(creel::blocking(|| 6 * 7)), 42);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[track_caller]
pub fn set_max_blocking_threads(threads: usize) {
    assert!(
        threads > 0,
        "blocking calls need at least one thread, not 0"
    );
    MAX.store(threads, Ordering::Relaxed);
}

/// The kind of a call, which determines the threads that run it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A call of the program.
    Call,
    /// A lookup of a host name.
    #[cfg_attr(
        not(feature = "net"),
        expect(dead_code, reason = "names are for sockets")
    )]
    Name,
}

impl Kind {
    fn threads_max(self) -> usize {
        match self {
            Kind::Call => MAX.load(Ordering::Relaxed),
            Kind::Name => NAMES_MAX,
        }
    }
}

/// The time for which a free thread waits for the next call before it ends.
const KEPT: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Calls {
    waiting: VecDeque<Job>,
    threads: usize,
    /// The number of free threads. A thread is free while it waits for a call, and after it has
    /// been notified of a call until it takes one.
    free: usize,
}

/// The calls of one kind, and the condition variable on which their threads wait.
#[derive(Default)]
struct Lane {
    calls: Mutex<Calls>,
    came: Condvar,
}

/// All blocking calls of a process.
struct Line {
    process: u32,
    calls: Lane,
    names: Lane,
}

impl Line {
    fn lane(&self, kind: Kind) -> &Lane {
        match kind {
            Kind::Call => &self.calls,
            Kind::Name => &self.names,
        }
    }
}

/// The queues of blocking calls of the current process. They are never freed. A forked process
/// creates its own queues, and does not touch those of its parent, because a thread that does not
/// exist in the fork may hold their lock.
static LINE: AtomicPtr<Line> = AtomicPtr::new(ptr::null_mut());

/// Returns the queues of blocking calls of this process, and creates them if necessary.
fn line() -> &'static Line {
    let process = process_id();
    loop {
        let known = LINE.load(Ordering::Acquire);
        // SAFETY: Validity: the pointer is null, or it comes from a box that was leaked below and
        // published with `Release`. Aliasing: the value is only ever shared.
        match unsafe { known.as_ref() } {
            Some(line) if line.process == process => return line,
            _ => {}
        }
        let fresh = Box::new(Line {
            process,
            calls: Lane::default(),
            names: Lane::default(),
        });
        let fresh = Box::into_raw(fresh);
        let kept = LINE.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire);
        if kept.is_err() {
            // SAFETY: We created the box above, and the exchange failed, so nobody else has seen
            // it.
            drop(unsafe { Box::from_raw(fresh) });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `work` on a thread for blocking calls, and returns a future of its result.
///
/// The call does not wait for a free thread, unless 512 calls are running already. You can change
/// that number with [`set_max_blocking_threads`]. You can use this function anywhere, inside or
/// outside of a pool. If you drop the future, a call that has started continues, and a call that
/// has not started is skipped. On a system without threads, the call runs at once on the calling
/// thread.
///
/// # Panics
///
/// Panics if the system refuses a thread and no thread for such calls exists yet. Awaiting the
/// future resumes the panic of `work`.
///
/// ```
/// use std::process::Command;
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// pool.block_on(async {
///     let here = creel::blocking(|| std::fs::read_dir(".")).await?;
///     assert!(here.count() > 0);
///     let status = creel::blocking(|| Command::new("true").status()).await?;
///     assert!(status.success());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Blocking<T> {
    call(Kind::Call, work)
}

/// Calls `work`, which looks up a host name, as [`blocking`] does, but on one of the separate
/// threads for such lookups.
#[cfg(feature = "net")]
pub(crate) fn look_up<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Blocking<T> {
    call(Kind::Name, work)
}

#[track_caller]
fn call<T: Send + 'static>(kind: Kind, work: impl FnOnce() -> T + Send + 'static) -> Blocking<T> {
    let call = Arc::new(Mutex::new(Call::Waits(None)));
    let calls = Arc::clone(&call);
    let job = Box::new(move || {
        if matches!(*lock(&calls), Call::GivenUp) {
            return;
        }
        let outcome = catch_unwind(AssertUnwindSafe(work));
        let before = std::mem::replace(&mut *lock(&calls), Call::Done(outcome));
        if let Call::Waits(Some(waker)) = before {
            waker.wake();
        }
    });
    if let Err(error) = submit(kind, job) {
        panic!("cannot start a thread for blocking calls: {error}");
    }
    Blocking { call }
}

/// Calls `work` on a thread for blocking calls, without a future for its result.
///
/// # Errors
///
/// Returns an error if the system refuses a thread and no thread for such calls exists yet. `work`
/// is then dropped.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn detached(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    submit(Kind::Call, Box::new(work))
}

/// The future that [`blocking`] returns. It panics if it is polled again after it was ready.
#[must_use = "dropping the handle cancels a call that has not begun"]
pub struct Blocking<T> {
    call: Arc<Mutex<Call<T>>>,
}

enum Call<T> {
    Waits(Option<StoredWaker>),
    Done(Result<T, Box<dyn Any + Send>>),
    /// The future was dropped, or it has taken the outcome of its call.
    GivenUp,
}

impl<T> Future for Blocking<T> {
    type Output = T;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        let fresh = StoredWaker::new(cx.waker());
        let mut call = lock(&self.call);
        let (before, poll) = match std::mem::replace(&mut *call, Call::GivenUp) {
            Call::Waits(before) => {
                *call = Call::Waits(Some(fresh));
                (before, Poll::Pending)
            }
            Call::Done(outcome) => (None, Poll::Ready(outcome)),
            Call::GivenUp => panic!("the future was polled after it was ready"),
        };
        drop(call);
        drop(before);
        let poll = budget::counted(poll);
        poll.map(|outcome| outcome.unwrap_or_else(|payload| resume_unwind(payload)))
    }
}

impl<T> Drop for Blocking<T> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *lock(&self.call), Call::GivenUp);
        drop(before);
    }
}

impl<T> fmt::Debug for Blocking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").finish_non_exhaustive()
    }
}

/// Queues a job, and starts a thread for it if necessary.
fn submit(kind: Kind, job: Job) -> io::Result<()> {
    if !HAS_THREADS {
        job();
        return Ok(());
    }
    let lane = line().lane(kind);
    let mut calls = lock(&lane.calls);
    calls.waiting.push_back(job);
    // Each waiting call needs one free thread. Some free threads may already be on their way to
    // earlier calls.
    if calls.free >= calls.waiting.len() {
        lane.came.notify_one();
        return Ok(());
    }
    if calls.threads >= kind.threads_max() {
        return Ok(());
    }
    calls.threads += 1;
    drop(calls);
    let started = thread::Builder::new()
        .name("creel-blocking".into())
        .spawn(move || serve(lane));
    if let Err(error) = started {
        let mut calls = lock(&lane.calls);
        calls.threads -= 1;
        if calls.threads == 0 {
            let given_up = std::mem::take(&mut calls.waiting);
            drop(calls);
            drop(given_up);
            return Err(error);
        }
    }
    Ok(())
}

/// Runs queued calls on the calling thread, which is a thread for blocking calls. Returns when no
/// call has come for a while.
fn serve(lane: &Lane) {
    let mut calls = lock(&lane.calls);
    loop {
        while let Some(job) = calls.waiting.pop_front() {
            drop(calls);
            // The job itself catches the panic of the program's closure. A panic that reaches this
            // place comes from a waker or a drop.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
                std::mem::forget(payload);
            }
            calls = lock(&lane.calls);
        }
        calls.free += 1;
        let (held, _) = lane
            .came
            .wait_timeout_while(calls, KEPT, |calls| calls.waiting.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        calls = held;
        calls.free -= 1;
        if calls.waiting.is_empty() {
            calls.threads -= 1;
            return;
        }
    }
}
