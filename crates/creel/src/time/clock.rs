//! The clock that timers use: the monotonic clock of the operating system, or a manual clock that
//! the program moves.
//!
//! Inside the runtime, times are nanoseconds since the epoch of the clock. They are stored in a
//! `u64`, which covers 584 years, so that the wheel needs no arithmetic with `Instant`. In the
//! public API, times are [`Instant`]s, even with a manual clock. Therefore code that receives times
//! does not need to know which clock it uses.

use crate::sync::Mutex;
use crate::worker::panics::RunAll;
use std::fmt;
#[cfg(all(target_os = "linux", not(any(creel_shuttle, creel_sim))))]
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

#[cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(any(creel_loom, creel_shuttle, creel_sim, miri))
))]
use super::counter::nanos as stamp_nanos;
#[cfg(not(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(any(creel_loom, creel_shuttle, creel_sim, miri))
)))]
use system_nanos as stamp_nanos;

/// The clock of a pool's timers.
///
/// Clones share one time. For example, you can keep a clone of a manual clock to move the time of a
/// pool.
///
/// ```
/// use creel::time::Clock;
/// use std::time::Duration;
///
/// let clock = Clock::manual();
/// let before = clock.now();
/// clock.advance(Duration::from_millis(20));
/// assert_eq!(clock.now() - before, Duration::from_millis(20));
/// ```
#[derive(Clone)]
pub struct Clock {
    epoch: Epoch,
    manual: Option<Arc<Manual>>,
}

/// One moment, both as an [`Instant`] and as nanoseconds of the system's clock.
#[derive(Clone, Copy)]
struct Epoch {
    instant: Instant,
    nanos: u64,
}

impl Epoch {
    fn now() -> Self {
        Epoch {
            instant: Instant::now(),
            // The clock of a model restarts at 0 in each run of the model.
            nanos: if cfg!(any(creel_shuttle, creel_sim)) {
                0
            } else {
                system_nanos()
            },
        }
    }

    /// Returns the origin of the system's clock. Returns the present moment if an `Instant` cannot
    /// represent the origin.
    fn of_system() -> Self {
        let now = Epoch::now();
        let instant = now.instant.checked_sub(Duration::from_nanos(now.nanos));
        instant.map_or(now, |instant| Epoch { instant, nanos: 0 })
    }
}

/// Returns the clock of `Instant` as a number of nanoseconds since an unspecified origin. We do not
/// use `Instant::elapsed`, because it takes three times as long.
#[cfg(all(target_os = "linux", not(any(creel_shuttle, creel_sim))))]
#[inline]
pub(super) fn system_nanos() -> u64 {
    // We call the C library instead of the `rustix` crate, which would find the fast call of the
    // kernel in the auxiliary vector. However, valgrind hides that vector, so a program that reads
    // the clock in this way crashes under valgrind.
    let mut time = MaybeUninit::uninit();
    // SAFETY: the place is writable and has the type that the call writes.
    let read = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) };
    debug_assert_eq!(read, 0, "every Linux has the monotonic clock");
    // SAFETY: the call fails only for an unknown clock or an invalid pointer, so it has written the
    // time.
    let time: libc::timespec = unsafe { time.assume_init() };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(any(creel_sim, all(creel_shuttle, not(creel_loom))))]
pub(super) fn system_nanos() -> u64 {
    crate::sync::now_ns()
}

#[cfg(all(not(target_os = "linux"), not(any(creel_shuttle, creel_sim))))]
pub(super) fn system_nanos() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    nanos(ORIGIN.get_or_init(Instant::now).elapsed())
}

struct Manual {
    /// The nanoseconds since the epoch. The `AcqRel` update that moves the clock synchronizes with
    /// the `Acquire` load of a thread that reads the new time. Therefore this thread sees
    /// everything that the program did before it moved the clock to that time.
    nanos: AtomicU64,
    /// The wakers of the workers that may sleep by this clock. They are woken whenever the time
    /// moves.
    listeners: Mutex<Listeners>,
}

/// The wakers of pool workers, which never call code of the program. The index is the key of their
/// subscription. We reuse the keys of subscriptions that have ended.
#[derive(Default)]
struct Listeners {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Manual {
    fn listeners(&self) -> impl std::ops::DerefMut<Target = Listeners> {
        let listeners = self.listeners.lock();
        listeners.unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all listeners. We do not hold the lock while we wake one, because the waker may be the
    /// last reference to its worker and may end a subscription.
    fn notify_listeners(&self) {
        let next = |key: &mut usize| {
            let listeners = self.listeners();
            let rest = listeners.wakers.get(*key..)?;
            let (at, waker) = rest.iter().enumerate().find(|(_, waker)| waker.is_some())?;
            *key += at + 1;
            waker.clone()
        };
        let mut key = 0;
        let mut all = RunAll::default();
        while let Some(waker) = next(&mut key) {
            all.run(|| waker.wake());
        }
        all.finish();
    }
}

/// A worker's registration with a manual clock, which wakes the worker each time the time moves.
/// The registration ends when it is dropped.
pub(crate) struct Subscription {
    manual: Arc<Manual>,
    key: usize,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut listeners = self.manual.listeners();
        let waker = listeners.wakers[self.key].take();
        listeners.free.push(self.key);
        drop(listeners);
        drop(waker);
    }
}

impl Clock {
    /// Returns the monotonic clock of the operating system. It is the default.
    ///
    /// All monotonic clocks of a process share one epoch. On Linux, the epoch is the origin of the
    /// system's clock. On other systems, it is the time when the process created its first
    /// monotonic clock.
    ///
    /// ```
    /// use creel::time::Clock;
    ///
    /// let clock = Clock::monotonic();
    /// assert!(!clock.is_manual());
    /// ```
    #[must_use]
    #[inline]
    pub fn monotonic() -> Self {
        static EPOCH: OnceLock<Epoch> = OnceLock::new();
        Clock {
            epoch: *EPOCH.get_or_init(Epoch::of_system),
            manual: None,
        }
    }

    /// Creates a manual clock. Its time does not change until you call [`advance`](Self::advance).
    ///
    /// ```
    /// use creel::time::Clock;
    ///
    /// let clock = Clock::manual();
    /// assert_eq!(clock.now(), clock.now());
    /// ```
    #[must_use]
    pub fn manual() -> Self {
        Clock {
            epoch: Epoch::now(),
            manual: Some(Arc::new(Manual {
                nanos: AtomicU64::new(0),
                listeners: Mutex::default(),
            })),
        }
    }

    /// Returns whether this is a manual clock.
    ///
    /// ```
    /// use creel::time::Clock;
    ///
    /// assert!(Clock::manual().is_manual());
    /// assert!(!Clock::monotonic().is_manual());
    /// ```
    #[must_use]
    pub fn is_manual(&self) -> bool {
        self.manual.is_some()
    }

    /// Returns the current time.
    ///
    /// ```
    /// use creel::time::Clock;
    /// use std::time::Instant;
    ///
    /// let before = Instant::now();
    /// assert!(Clock::monotonic().now() >= before);
    /// ```
    #[must_use]
    pub fn now(&self) -> Instant {
        match &self.manual {
            None => Instant::now(),
            Some(manual) => {
                self.epoch.instant + Duration::from_nanos(manual.nanos.load(Ordering::Acquire))
            }
        }
    }

    /// Moves a manual clock forward by `by` and wakes the workers that wait by it.
    ///
    /// The time never decreases. It stops at 584 years after the epoch of the clock.
    ///
    /// Timers that become due fire on their workers, not inside this call. A timer fires up to 66 µs
    /// after its deadline, on this clock as well. Therefore, advance the clock by a millisecond more
    /// than the timer waits.
    ///
    /// # Panics
    ///
    /// Panics if this is the monotonic clock, because the program cannot move it.
    ///
    /// ```
    /// use creel::time::Clock;
    /// use std::time::Duration;
    ///
    /// let clock = Clock::manual();
    /// let begin = clock.now();
    /// clock.advance(Duration::from_secs(3600));
    /// assert_eq!(clock.now() - begin, Duration::from_secs(3600));
    /// ```
    #[track_caller]
    pub fn advance(&self, by: Duration) {
        let manual = self.manual.as_ref();
        let manual =
            manual.expect("Clock::advance works only on a clock that Clock::manual has created");
        let moved = |now: u64| Some(now.saturating_add(nanos(by)));
        // The update always succeeds, even if the time does not change.
        let _ = manual
            .nanos
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, moved);
        manual.notify_listeners();
    }

    /// Returns the nanoseconds from the epoch of the clock until now. Use it for timestamps,
    /// because it takes less time than [`now`](Self::now), and a number is cheaper to store and to
    /// compare than an [`Instant`]. All monotonic clocks of a process have the same epoch.
    ///
    /// On Linux on x86_64 with the clock source `tsc`, a thread can count the processor's ticks
    /// between two readings of the system's clock. It does so if it reads the monotonic clock
    /// several times per millisecond. The following limits then apply:
    ///
    /// - A reading differs from the system's clock by less than 1 µs, as long as the system does
    ///   not slew that clock by more than 500 ppm.
    /// - The readings of one thread never decrease.
    /// - A reading of one thread can be less than an earlier reading of another thread, by less
    ///   than 2 µs. For example, a message can seem to arrive before it was sent.
    ///
    /// Timers use the exact time. So does [`now`](Self::now), so compare an [`Instant`] with a
    /// reading of `now`.
    ///
    /// ```
    /// use creel::time::Clock;
    /// use std::time::Duration;
    ///
    /// let clock = Clock::manual();
    /// clock.advance(Duration::from_micros(5));
    /// assert_eq!(clock.nanos(), 5_000);
    /// ```
    #[must_use]
    #[inline]
    pub fn nanos(&self) -> u64 {
        match &self.manual {
            None => stamp_nanos().saturating_sub(self.epoch.nanos),
            Some(manual) => manual.nanos.load(Ordering::Acquire),
        }
    }

    /// Returns the nanoseconds from the epoch until now like [`nanos`](Self::nanos), but exactly.
    /// This time decides when a timer is due.
    #[inline]
    pub(crate) fn exact_nanos(&self) -> u64 {
        match &self.manual {
            None => system_nanos().saturating_sub(self.epoch.nanos),
            Some(manual) => manual.nanos.load(Ordering::Acquire),
        }
    }

    /// Returns the nanoseconds from the epoch until `at`, or 0 if `at` is before the epoch.
    ///
    /// The epoch of a manual clock is the time when it was created. On Linux, the epoch of the
    /// monotonic clock is the origin of the system's clock, so no instant that the system has
    /// returned is before it.
    ///
    /// ```
    /// use creel::time::Clock;
    /// use std::time::Duration;
    ///
    /// let clock = Clock::manual();
    /// let soon = clock.now() + Duration::from_micros(7);
    /// assert_eq!(clock.nanos_at(soon), 7_000);
    /// ```
    #[must_use]
    pub fn nanos_at(&self, at: Instant) -> u64 {
        self.since_epoch(at).unwrap_or(0)
    }

    /// Returns `Ok` with the nanoseconds from the epoch until `at`, or `Err` with the nanoseconds
    /// from `at` until the epoch.
    pub(crate) fn since_epoch(&self, at: Instant) -> Result<u64, u64> {
        match at.checked_duration_since(self.epoch.instant) {
            Some(since) => Ok(nanos(since)),
            None => Err(nanos(self.epoch.instant.duration_since(at))),
        }
    }

    /// Returns the instant that is `nanos` nanoseconds after the epoch.
    pub(crate) fn instant(&self, nanos: u64) -> Instant {
        self.epoch.instant + Duration::from_nanos(nanos)
    }

    /// Returns the instant that is `nanos` nanoseconds before the epoch, if the system can
    /// represent it.
    pub(crate) fn instant_before(&self, nanos: u64) -> Option<Instant> {
        let before = Duration::from_nanos(nanos);
        self.epoch.instant.checked_sub(before)
    }

    /// Wakes `listener` each time a manual clock moves, until the subscription is dropped. Returns
    /// `None` for the monotonic clock.
    pub(crate) fn subscribe(&self, listener: Waker) -> Option<Subscription> {
        let manual = self.manual.clone()?;
        let mut listeners = manual.listeners();
        let key = listeners.free.pop().unwrap_or(listeners.wakers.len());
        match listeners.wakers.get_mut(key) {
            Some(place) => *place = Some(listener),
            None => listeners.wakers.push(Some(listener)),
        }
        drop(listeners);
        Some(Subscription { manual, key })
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::monotonic()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock")
            .field("nanos", &self.nanos())
            .field("manual", &self.is_manual())
            .finish()
    }
}

/// Returns a duration in nanoseconds. A duration of more than 584 years counts as 584 years, the
/// maximum of a `u64`.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn instants_and_nanos_agree() {
        let clock = Clock::manual();
        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.nanos(), 5_000_000_000);
        assert_eq!(clock.nanos_at(clock.now()), clock.nanos());
        assert_eq!(clock.instant(clock.nanos()), clock.now());
    }

    #[test]
    fn a_time_before_the_epoch_is_zero() {
        let early = Instant::now();
        let clock = Clock::manual();
        assert_eq!(clock.nanos_at(early), 0);
    }

    #[test]
    fn the_clock_never_goes_back() {
        let clock = Clock::manual();
        let mut before = clock.now();
        let times = [7, u64::MAX - 3, u64::MAX, 0, 1].map(Duration::from_nanos);
        for by in times.into_iter().chain([Duration::MAX]) {
            clock.advance(by);
            assert!(clock.now() >= before, "{by:?}");
            before = clock.now();
        }
        assert_eq!(clock.nanos(), u64::MAX);
    }

    #[test]
    fn ended_pools_no_longer_receive_clock_changes() {
        let clock = Clock::manual();
        let listeners = || {
            let manual = clock.manual.as_ref().expect("it is manual");
            let wakers = &manual.listeners().wakers;
            (wakers.iter().flatten().count(), wakers.len())
        };
        let pool = || Pool::builder().workers(2).clock(clock.clone()).build();
        let live = pool().expect("in range");
        live.broadcast(|_| ());
        let mut handles = Vec::new();
        for _ in 0..50 {
            let pool = pool().expect("in range");
            pool.broadcast(|_| ());
            pool.block_on(async {});
            handles.push(pool.handle());
        }
        assert_eq!(listeners(), (2, 4));
        clock.advance(Duration::from_secs(1));
        drop((live, handles));
        assert_eq!(listeners().0, 0);
    }

    #[test]
    #[should_panic(expected = "Clock::manual")]
    fn the_monotonic_clock_cannot_be_moved() {
        Clock::monotonic().advance(Duration::ZERO);
    }
}
