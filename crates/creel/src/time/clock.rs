//! The clock that timers go by: the system's monotonic one, or one that a program
//! drives.
//!
//! Times within the runtime are nanoseconds since the clock's epoch in a `u64`
//! (584 years), so that the wheel needs no `Instant` arithmetic. Outside of it
//! they are [`Instant`]s also under a manual clock, so that code which is given
//! times needs not know which clock it runs by.

use crate::sync::Mutex;
use crate::worker::panics::RunAll;
use std::fmt;
#[cfg(all(target_os = "linux", not(shuttle)))]
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

#[cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(any(loom, shuttle, miri))
))]
use super::counter::nanos as stamp_nanos;
#[cfg(not(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(any(loom, shuttle, miri))
)))]
use system_nanos as stamp_nanos;

/// Tells the time to a pool's timers.
///
/// Clones share one time.
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

/// One moment as an [`Instant`] and as the system tells it.
#[derive(Clone, Copy)]
struct Epoch {
    instant: Instant,
    nanos: u64,
}

impl Epoch {
    fn now() -> Self {
        Epoch {
            instant: Instant::now(),
            // A model's clock begins anew with each of its runs.
            nanos: if cfg!(shuttle) { 0 } else { system_nanos() },
        }
    }

    /// The origin of the system's clock, as far as an `Instant` can name it.
    fn of_system() -> Self {
        let now = Epoch::now();
        let instant = now.instant.checked_sub(Duration::from_nanos(now.nanos));
        instant.map_or(now, |instant| Epoch { instant, nanos: 0 })
    }
}

/// The clock of `Instant` as one number, of no particular origin: `Instant::elapsed` takes
/// three times as long.
#[cfg(all(target_os = "linux", not(shuttle)))]
#[inline]
pub(super) fn system_nanos() -> u64 {
    // By the C library. The `rustix` crate finds the kernel's fast call by the auxiliary vector,
    // which valgrind hides, so a program that reads the clock that way crashes under valgrind.
    let mut time = MaybeUninit::uninit();
    // SAFETY: the place is writable and of the type that the call writes.
    let read = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) };
    debug_assert_eq!(read, 0, "every Linux has the monotonic clock");
    // SAFETY: the call fails only for an unknown clock or a bad pointer, so it wrote the time.
    let time: libc::timespec = unsafe { time.assume_init() };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(all(shuttle, not(loom)))]
pub(super) fn system_nanos() -> u64 {
    crate::sync::now_ns()
}

#[cfg(all(not(target_os = "linux"), not(shuttle)))]
pub(super) fn system_nanos() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    nanos(ORIGIN.get_or_init(Instant::now).elapsed())
}

struct Manual {
    /// Nanoseconds since the epoch. Release and acquire, so that who sees the
    /// time sees what its driver did before.
    nanos: AtomicU64,
    /// Woken whenever the time moves: the workers that may sleep by this clock.
    listeners: Mutex<Listeners>,
}

/// Wakers of pools' workers, which call nothing of the program's. By the key of their subscription;
/// the keys of those that have ended are used again.
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

    /// Wakes all who listen, none under the lock: it may be their end.
    fn tell(&self) {
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

/// A listener's place at a manual clock, which ends when it is dropped.
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
    /// The system's monotonic clock: the default.
    ///
    /// All of them share one epoch. On Linux that is the origin of the system's clock, elsewhere the
    /// first one's making.
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

    /// A clock that stands still until [`advance`](Self::advance) moves it.
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

    /// True if the program drives this clock.
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

    /// The time now.
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

    /// Moves a manual clock on and wakes the workers that wait by it.
    ///
    /// It never goes back: at 584 years after its epoch it stands still.
    ///
    /// Timers that become due fire on their workers, not in this call.
    ///
    /// # Panics
    ///
    /// On the monotonic clock, which nobody can move.
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
        let manual = manual.expect("Clock::advance is for a clock made by Clock::manual");
        let moved = |now: u64| Some(now.saturating_add(nanos(by)));
        // It always moves, if only to where it is.
        let _ = manual
            .nanos
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, moved);
        manual.tell();
    }

    /// Nanoseconds from the clock's epoch until now, for stamps: cheaper to take, to keep and to
    /// compare than an [`Instant`]. All monotonic clocks of a process have the same epoch.
    ///
    /// On the monotonic clock a reading is less than 1 µs off, on either side, while the system
    /// does not slew that clock by more than 500 ppm: a thread that reads it some times a
    /// millisecond counts the processor's ticks in between, where the kernel does so itself (Linux
    /// on x86_64, with the clock source `tsc`). The readings of one thread never go backwards.
    /// Those of two threads may: by less than 2 µs, a message can seem to arrive before it was
    /// sent. Timers go by the exact time; against [`now`](Self::now), an [`Instant`], compare one.
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

    /// The same, exact: what decides when a timer is due.
    #[inline]
    pub(crate) fn exact_nanos(&self) -> u64 {
        match &self.manual {
            None => system_nanos().saturating_sub(self.epoch.nanos),
            Some(manual) => manual.nanos.load(Ordering::Acquire),
        }
    }

    /// Nanoseconds from the epoch until `at`; zero if `at` was before it.
    ///
    /// A manual clock's epoch is its making. The monotonic clock's is the origin of the system's on
    /// Linux, so that no instant which the system has given lies before it.
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

    /// Nanoseconds from the epoch until `at`; `Err`: from `at` until the epoch.
    pub(crate) fn since_epoch(&self, at: Instant) -> Result<u64, u64> {
        match at.checked_duration_since(self.epoch.instant) {
            Some(since) => Ok(nanos(since)),
            None => Err(nanos(self.epoch.instant.duration_since(at))),
        }
    }

    /// The instant that lies `nanos` after the epoch.
    pub(crate) fn instant(&self, nanos: u64) -> Instant {
        self.epoch.instant + Duration::from_nanos(nanos)
    }

    /// The instant that lies `nanos` before the epoch, if the system can represent it.
    pub(crate) fn instant_before(&self, nanos: u64) -> Option<Instant> {
        let before = Duration::from_nanos(nanos);
        self.epoch.instant.checked_sub(before)
    }

    /// Wakes `listener` at each move of a manual clock, until the subscription is dropped.
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

/// A duration's nanoseconds; what exceeds 584 years counts as that.
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
