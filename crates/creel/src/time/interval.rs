//! Periodic timers with a tolerance.
//!
//! The tolerance lets timers that are due at about the same time share one wake-up of their worker.
//! This matters if a worker serves thousands of intervals, because each wake-up costs microseconds.

use super::clock::nanos;
use super::timers::{self, Due, Entry, Window};
use crate::worker::budget;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Creates a timer that ticks once every `period`. The first tick is due one period after this
/// call, or one period after the first poll if you call this function outside of a pool.
///
/// The deadlines are exact multiples of the period, even if a tick is late. Therefore an interval
/// does not drift.
///
/// # Panics
///
/// Panics if `period` is zero. The interval panics if it is polled on a thread that is neither a
/// worker of a pool nor inside `block_on`.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::time::interval;
/// use std::time::Duration;
///
/// let period = Duration::from_millis(2);
/// pool.block_on(async {
///     let mut ticks = interval(period);
///     let first = ticks.tick().await;
///     assert_eq!(ticks.tick().await - first, period); // exactly: it does not drift
/// });
/// # Ok::<(), creel::BuildError>(())
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    let period = nanos(period);
    assert!(
        period > 0,
        "the period of an interval must be longer than zero"
    );
    Interval {
        next: Due::after(period),
        period,
        slack: 0,
        early: 0,
        skip: false,
        entry: Entry::default(),
    }
}

/// A timer that ticks periodically. [`interval`] creates it.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::time::{Interval, interval};
/// use std::time::Duration;
///
/// /// A meter that is read each millisecond.
/// struct Meter { reads: u32, due: Interval }
///
/// pool.block_on(async {
///     let mut meter = Meter { reads: 0, due: interval(Duration::from_millis(1)) };
///     while meter.reads < 3 {
///         meter.due.tick().await;
///         meter.reads += 1;
///     }
/// });
/// # Ok::<(), creel::BuildError>(())
/// ```
pub struct Interval {
    next: Due,
    period: u64,
    slack: u64,
    early: u64,
    skip: bool,
    entry: Entry,
}

impl Interval {
    /// Sets the tolerance after the deadline. Each tick may come up to `slack` after its deadline.
    /// Timers with overlapping tolerances can then share one wake-up of the worker. For example,
    /// two timers with a slack of 20 ms can fire together if they are due 5 ms apart.
    ///
    /// ```
    /// use creel::time::interval;
    /// use std::time::Duration;
    ///
    /// // Ten a second, and whether up to 20 ms late does not matter: it shares others' wake-ups.
    /// let housekeeping = interval(Duration::from_millis(100)).slack(Duration::from_millis(20));
    /// # drop(housekeeping);
    /// ```
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = nanos(slack);
        self
    }

    /// Allows each tick to come up to `early` before its deadline, but never more than one period.
    /// A longer time counts as one period, because several ticks would otherwise be due at once.
    /// Without this setting, no tick is early.
    ///
    /// ```
    /// use creel::time::interval;
    /// use std::time::Duration;
    ///
    /// let frames = interval(Duration::from_millis(16)).early(Duration::from_millis(1));
    /// # drop(frames);
    /// ```
    #[must_use]
    pub fn early(mut self, early: Duration) -> Self {
        self.early = nanos(early).min(self.period);
        self
    }

    /// Sets the next deadline to `first`. The following deadlines are one period apart. If `first`
    /// is in the past, the deadlines that have passed are due immediately, one after the other.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::time::interval;
    /// use std::time::{Duration, Instant};
    ///
    /// let begin = Instant::now() + Duration::from_millis(5);
    /// pool.block_on(async {
    ///     let mut ticks = interval(Duration::from_secs(1)).starting(begin);
    ///     let off = ticks.tick().await.duration_since(begin);
    ///     assert!(off < Duration::from_micros(1));
    /// });
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn starting(mut self, first: Instant) -> Self {
        self.next = Due::Instant(first);
        self
    }

    /// Skips missed ticks. If several deadlines have passed at the beginning of the worker's turn,
    /// the interval ticks only for the last one. For example, after a task was busy for four
    /// periods, the interval ticks once instead of four times. By default, every deadline gives one
    /// tick, so missed ticks follow each other immediately.
    ///
    /// ```
    /// use creel::time::{Clock, interval};
    /// use std::time::Duration;
    ///
    /// let clock = Clock::manual();
    /// let pool = creel::Pool::builder().workers(1).clock(clock.clone()).build()?;
    /// let period = Duration::from_millis(1);
    /// pool.block_on(async {
    ///     let mut ticks = interval(period).skip_missed();
    ///     clock.advance(period);
    ///     let first = ticks.tick().await;
    ///     clock.advance(4 * period); // busy for longer than a period
    ///     assert_eq!(ticks.tick().await - first, 4 * period);
    /// });
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn skip_missed(mut self) -> Self {
        self.skip = true;
        self
    }

    /// Returns the period.
    ///
    /// ```
    /// use creel::time::interval;
    /// use std::time::Duration;
    ///
    /// assert_eq!(interval(Duration::from_secs(2)).period(), Duration::from_secs(2));
    /// ```
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// Waits for the next deadline and returns it.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, the tick is not lost. The next call waits
    /// for the same deadline.
    ///
    /// # Panics
    ///
    /// The future panics if it is polled on a thread that is neither a worker of a pool nor inside
    /// `block_on`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::time::interval;
    /// use std::time::Duration;
    ///
    /// pool.block_on(async {
    ///     let mut ticks = interval(Duration::from_millis(1));
    ///     for _ in 0..3 {
    ///         ticks.tick().await;
    ///     }
    /// });
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn tick(&mut self) -> Tick<'_> {
        Tick(self)
    }

    /// Returns the next deadline if it has passed, or if it is as near as [`early`](Self::early)
    /// allows. Otherwise it arranges that the task of `cx` is woken when the deadline comes.
    ///
    /// # Panics
    ///
    /// Panics on a thread that is neither a worker of a pool nor inside `block_on`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::time::interval;
    /// use std::{future::poll_fn, time::{Duration, Instant}};
    ///
    /// pool.block_on(async {
    ///     let mut ticks = interval(Duration::from_millis(1));
    ///     let due = poll_fn(|cx| ticks.poll_tick(cx)).await;
    ///     assert!(due <= Instant::now());
    /// });
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        self.poll_deadline(cx).map(|deadline| {
            let clock = timers::expect_clock();
            match deadline {
                Ok(nanos) => clock.instant(nanos),
                Err(before) => clock
                    .instant_before(before)
                    .unwrap_or_else(|| clock.instant(0)),
            }
        })
    }

    /// Returns the next deadline like [`poll_tick`](Self::poll_tick), but in nanoseconds of the
    /// pool's clock. This is faster, because it needs no conversion to an [`Instant`]. Returns 0
    /// for a deadline before the epoch of the clock.
    ///
    /// # Panics
    ///
    /// Panics on a thread that is neither a worker of a pool nor inside `block_on`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::time::interval;
    /// use std::{future::poll_fn, time::Duration};
    ///
    /// pool.block_on(async {
    ///     let mut ticks = interval(Duration::from_millis(1));
    ///     let first = poll_fn(|cx| ticks.poll_tick_nanos(cx)).await;
    ///     let next = poll_fn(|cx| ticks.poll_tick_nanos(cx)).await;
    ///     assert_eq!(next - first, 1_000_000);
    /// });
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn poll_tick_nanos(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        self.poll_deadline(cx).map(|deadline| deadline.unwrap_or(0))
    }

    /// Returns the next deadline if its window has begun. The deadline is `Ok` with the nanoseconds
    /// after the epoch of the clock, or `Err` with the nanoseconds before the epoch.
    #[inline]
    #[track_caller]
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, u64>> {
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        let due = self.next.settle();
        if let Due::Before(before) = self.next {
            return budget::counted(Poll::Ready(self.past_deadline(before)));
        }
        let window = Window {
            earliest: due.saturating_sub(self.early),
            latest: due.saturating_add(self.slack),
        };
        let Some(turn) = self.entry.poll(window, cx.waker()) else {
            return Poll::Pending;
        };
        let missed = if self.skip {
            turn.saturating_sub(due) / self.period
        } else {
            0
        };
        let due = due.saturating_add(missed.saturating_mul(self.period));
        self.next = Due::At(due.saturating_add(self.period));
        budget::counted(Poll::Ready(Ok(due)))
    }

    /// Returns a deadline that was `before` nanoseconds before the epoch of the clock, and sets the
    /// next one.
    #[cold]
    #[track_caller]
    fn past_deadline(&mut self, before: u64) -> Result<u64, u64> {
        let passed = u128::from(timers::expect_clock().exact_nanos()) + u128::from(before);
        let missed = match self.skip {
            true => passed / u128::from(self.period),
            false => 0,
        };
        // Returns `Ok` for a time after the epoch and `Err` for a time before it. No sum here
        // exceeds the sum of three `u64` values, so none overflows.
        let after_epoch = |nanos: u128| match nanos.checked_sub(u128::from(before)) {
            Some(after) => Ok(u64::try_from(after).unwrap_or(u64::MAX)),
            None => Err(u64::try_from(u128::from(before) - nanos).unwrap_or(u64::MAX)),
        };
        let since_first = missed * u128::from(self.period);
        self.next = match after_epoch(since_first + u128::from(self.period)) {
            Ok(after) => Due::At(after),
            Err(before) => Due::Before(before),
        };
        after_epoch(since_first)
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("period", &self.period())
            .field("slack", &Duration::from_nanos(self.slack))
            .field("early", &Duration::from_nanos(self.early))
            .finish_non_exhaustive()
    }
}

/// The future that [`Interval::tick`] returns.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Tick<'a>(&'a mut Interval);

impl Future for Tick<'_> {
    type Output = Instant;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        self.0.poll_tick(cx)
    }
}
