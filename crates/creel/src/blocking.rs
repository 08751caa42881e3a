//! Calls that block: files, child processes, names; on threads that are no pool's workers.
//!
//! They are the process's: a thread starts when a call comes and none is free, and ends when
//! there was none for a while. What blocks needs no CPU, so their number does not depend on the
//! machine's size: it is only a bound against a flood, which the program may change. Work that
//! computes belongs on a pool.
//!
//! Names are looked up on threads of their own. Otherwise calls that wait for a peer could take all
//! threads, and the look-up of that peer's name would wait for them.

use crate::sync::{HAS_THREADS, process_id};
use crate::worker::budget;
use crate::worker::stored_waker::StoredWaker;
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

/// The most threads for the calls of the program, unless it sets another number.
const THREADS_MAX: usize = 512;
/// The most threads for names, which have threads of their own: a look-up must not wait for the
/// program's calls, which may wait for what the look-up is needed for.
const NAMES_MAX: usize = 32;

/// The most threads for the calls of the program. Relaxed: nothing else depends on it.
static MAX: AtomicUsize = AtomicUsize::new(THREADS_MAX);

/// Sets the most threads that this process uses for [`blocking`] calls, 512 by default.
///
/// Further calls wait until a thread is free. The limit applies from the next call on; threads
/// above it end when they have been free for a while. Names that [`net`](crate::net) looks up have
/// a few threads of their own, which this does not change.
///
/// It belongs to the process and not to a pool, because `blocking` can be called outside of pools.
/// Set it at the start of `main`.
///
/// # Panics
///
/// If `threads` is 0.
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

/// Which threads a call has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A call of the program.
    Call,
    /// A name is looked up.
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

/// How long a thread waits for the next call.
const KEPT: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Calls {
    waiting: VecDeque<Job>,
    threads: usize,
    /// Of these, those that wait for a call, or have been notified of one and not come yet.
    free: usize,
}

/// Calls of one kind, and the threads for them.
#[derive(Default)]
struct Lane {
    calls: Mutex<Calls>,
    came: Condvar,
}

/// The calls of a process.
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

/// The line of the process that last called. It is never freed: one that was forked makes its own,
/// and leaves alone the other's, whose lock may be held by a thread that is not here.
static LINE: AtomicPtr<Line> = AtomicPtr::new(ptr::null_mut());

/// This process's line.
fn line() -> &'static Line {
    let process = process_id();
    loop {
        let known = LINE.load(Ordering::Acquire);
        // SAFETY: validity: null, or from a box that was leaked below, published with `Release`.
        // Aliasing: only ever shared.
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
            // SAFETY: it was made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(fresh) });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `work` on a thread for calls that block, and gives what it returns.
///
/// It begins at once, or when one of 512 threads is free ([`set_max_blocking_threads`] changes that
/// number); wherever this is called, on a pool or not. Dropping the future lets a call that has begun
/// go on, and leaves out one that has not. On a system without threads it is made at once, on the
/// thread that asks for it.
///
/// # Panics
///
/// If the system refuses the first thread. Awaited, with what `work` panicked with.
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

/// The same for looking up a name.
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
    submit(kind, job);
    Blocking { call }
}

/// The outcome of [`blocking`], to be awaited. Polled again after it was ready, it panics.
#[must_use = "a call that has not begun is left out when this is dropped"]
pub struct Blocking<T> {
    call: Arc<Mutex<Call<T>>>,
}

enum Call<T> {
    Waits(Option<StoredWaker>),
    Done(Result<T, Box<dyn Any + Send>>),
    /// Nobody wants the outcome, or it was taken.
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
            Call::GivenUp => panic!("polled after it was ready"),
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

#[track_caller]
fn submit(kind: Kind, job: Job) {
    if !HAS_THREADS {
        return job();
    }
    let lane = line().lane(kind);
    let mut calls = lock(&lane.calls);
    calls.waiting.push_back(job);
    // As many of the free are on their way as there are others.
    if calls.free >= calls.waiting.len() {
        lane.came.notify_one();
        return;
    }
    if calls.threads >= kind.threads_max() {
        return;
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
            panic!("cannot start a thread for blocking calls: {error}");
        }
    }
}

/// The body of a thread.
fn serve(lane: &Lane) {
    let mut calls = lock(&lane.calls);
    loop {
        while let Some(job) = calls.waiting.pop_front() {
            drop(calls);
            // The outcome is kept; what is caught here is a waker's or a drop's panic.
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
