//! Timers with one deadline: [`sleep`] and [`sleep_until`] wait for the deadline, and [`timeout`]
//! limits how long a future is awaited. [`now`] returns the current time of the pool's clock.

use super::clock::nanos;
use super::timers::{Due, Entry, Window, current_clock};
use super::until::{Order, Until};
use crate::worker::budget;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Returns the current time of the clock of the pool whose code this thread runs. Elsewhere, this
/// is [`Instant::now`].
///
/// Use it instead of [`Instant::now`] in code that sleeps, so that your tests can run it with a
/// [manual clock](crate::time::Clock::manual).
///
/// ```
/// use creel::{Pool, time::Clock};
/// use std::time::Duration;
///
/// let clock = Clock::manual();
/// let pool = Pool::builder().workers(1).clock(clock.clone()).build()?;
/// let begin = pool.block_on(async { creel::time::now() });
/// clock.advance(Duration::from_secs(3600));
/// let end = pool.block_on(async { creel::time::now() });
/// assert_eq!(end - begin, Duration::from_secs(3600));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[must_use]
pub fn now() -> Instant {
    current_clock().map_or_else(Instant::now, |clock| clock.now())
}

/// Waits for at least `duration`. The wait may be longer by the resolution of the worker's timers,
/// which is one tick of 66 µs, or one quantum if the pool is throttled.
///
/// The time starts with this call if you make it on a pool. Otherwise it starts with the first
/// poll. Dropping the future cancels the timer.
///
/// # Panics
///
/// The future panics if it is polled on a thread that is neither a worker of a pool nor inside
/// `block_on`.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::time::sleep;
/// use std::time::{Duration, Instant};
///
/// let begin = Instant::now();
/// pool.block_on(sleep(Duration::from_millis(2)));
/// assert!(begin.elapsed() >= Duration::from_millis(2));
/// # Ok::<(), creel::BuildError>(())
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    Sleep {
        due: Due::after(nanos(duration)),
        entry: Entry::default(),
    }
}

/// Waits until `deadline`, with the same resolution as [`sleep`]. Dropping the future cancels the
/// timer.
///
/// # Panics
///
/// The future panics if it is polled on a thread that is neither a worker of a pool nor inside
/// `block_on`.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::time::sleep_until;
/// use std::time::{Duration, Instant};
///
/// let deadline = Instant::now() + Duration::from_millis(2);
/// pool.block_on(sleep_until(deadline));
/// assert!(Instant::now() >= deadline);
/// # Ok::<(), creel::BuildError>(())
/// ```
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        due: Due::Instant(deadline),
        entry: Entry::default(),
    }
}

/// The future that [`sleep`] and [`sleep_until`] return.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::time::{Sleep, sleep};
/// use std::time::Duration;
///
/// // A future that is ready after 1 ms.
/// let pause: Sleep = sleep(Duration::from_millis(1));
/// pool.block_on(pause);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    due: Due,
    entry: Entry,
}

impl Sleep {
    /// Changes the deadline to `deadline`. Does not allocate.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::time::sleep;
    /// use std::time::{Duration, Instant};
    ///
    /// pool.block_on(async {
    ///     let mut idle = sleep(Duration::from_secs(3600));
    ///     idle.reset(Instant::now() + Duration::from_millis(1)); // end it earlier
    ///     idle.await;
    /// });
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn reset(&mut self, deadline: Instant) {
        self.entry.disarm();
        self.due = Due::Instant(deadline);
    }
}

impl Future for Sleep {
    type Output = ();

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        let this = &mut *self;
        let at = this.due.settle();
        let window = Window {
            earliest: at,
            latest: at,
        };
        budget::counted(match this.entry.poll(window, cx.waker()) {
            Some(_) => Poll::Ready(()),
            None => Poll::Pending,
        })
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").finish_non_exhaustive()
    }
}

/// The error of [`timeout`]. It means that the time elapsed before the future was ready.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::time::{Elapsed, timeout};
/// use std::time::Duration;
///
/// let never = std::future::pending::<()>();
/// let late = pool.block_on(timeout(Duration::from_millis(1), never));
/// assert_eq!(late, Err(Elapsed));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is up")
    }
}

impl std::error::Error for Elapsed {}

/// Converts to an error of the kind [`TimedOut`](io::ErrorKind::TimedOut), so that `?` works in
/// functions that do I/O.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::time::timeout;
/// use std::{future::pending, io, time::Duration};
///
/// async fn read_late() -> io::Result<u8> {
///     timeout(Duration::from_millis(1), pending::<io::Result<u8>>()).await?
/// }
/// let late = pool.block_on(read_late()).unwrap_err();
/// assert_eq!(late.kind(), io::ErrorKind::TimedOut);
/// # Ok::<(), creel::BuildError>(())
/// ```
impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(io::ErrorKind::TimedOut, elapsed)
    }
}

/// Awaits `future` for at most `duration`. The time starts with this call if you make it on a pool.
/// Otherwise it starts with the first poll.
///
/// A future that is ready at its first poll does not arm a timer.
///
/// # Errors
///
/// Returns [`Elapsed`] if the time elapses first. The future has then been dropped.
///
/// # Panics
///
/// The returned future panics if it is polled on a thread that is neither a worker of a pool nor
/// inside `block_on`, unless `future` is ready at that poll.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::time::timeout;
/// use std::time::Duration;
///
/// let hour = Duration::from_secs(3600);
/// assert_eq!(pool.block_on(timeout(hour, async { 7 })), Ok(7));
/// # Ok::<(), creel::BuildError>(())
/// ```
pub fn timeout<F: Future>(
    duration: Duration,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    let make = |output: Option<F::Output>| output.ok_or(Elapsed);
    Until::new(future, sleep(duration), Order::FutureFirst, make)
}
