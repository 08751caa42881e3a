//! The primitives that the runtime is built on, and the word that threads sleep on.
//!
//! All lock-free code of this crate takes its atomics from here, so that the same code also runs
//! under model checkers and on a simulated machine:
//!
//! | `--cfg` | types | set by |
//! |---|---|---|
//! | none | those of `std`. A [`WaitWord`] is one futex on Linux, and a mutex with a condition variable on other systems | |
//! | `creel_loom` | those of loom, for parts of a pool | `crates/models` |
//! | `creel_shuttle` | those of shuttle, for a whole pool, including its threads, thread-locals and clock | `crates/models` |
//! | `creel_sim` | those of a simulated machine, on which every step costs virtual time | `crates/sim/runtime` |
//! | `creel_pauses` | those of `std`, but each step may pause at random (`pauses.rs`) | `.ci/run` |
//!
//! Under shuttle, all threads of a model run on one thread of the system. Code must therefore not
//! hold a lock of `std`, or be inside a `OnceLock`, while it takes one of the steps below. The
//! clock (`model_clock.rs`) is derived from the schedule, so a replay is exactly the same. The
//! poller and the placement are not modelled, because they belong to the system.

#[cfg(not(any(creel_loom, creel_shuttle, creel_sim, creel_pauses)))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
};

#[cfg(all(not(creel_loom), not(creel_shuttle), creel_pauses))]
pub(crate) use pauses::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

#[cfg(not(any(creel_loom, creel_shuttle, creel_sim)))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::Ordering};

#[cfg(creel_sim)]
pub(crate) use creel_sim::{
    Instant,
    atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    now_ns,
    sync::{Mutex, MutexGuard, WaitWord},
    thread, thread_local,
};

#[cfg(creel_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(all(creel_shuttle, not(creel_loom)))]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(all(creel_shuttle, not(creel_loom)))]
pub(crate) mod model_clock;

pub(crate) mod barrier;

#[cfg(all(not(creel_loom), not(creel_shuttle), creel_pauses))]
mod pauses;

#[cfg(creel_loom)]
pub(crate) use loom::cell::UnsafeCell;
#[cfg(all(creel_shuttle, not(creel_loom)))]
pub(crate) use model_clock::{Instant, now_ns};
#[cfg(all(creel_shuttle, not(creel_loom)))]
pub(crate) use shuttle::{thread, thread_local};
use std::sync::TryLockError;
#[cfg(not(any(creel_sim, all(creel_shuttle, not(creel_loom)))))]
pub(crate) use std::{thread, thread_local, time::Instant};
#[cfg(not(creel_sim))]
pub(crate) use wait_word::WaitWord;

/// A cell with interior mutability, whose accesses the model checkers can observe.
///
/// The pointer is valid only inside the closure. Each field of this type documents which thread may
/// access it and when. Under shuttle, an access panics while another one is under way, unless both
/// only read.
#[cfg(not(creel_loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T> {
    /// The number of readers. A writer counts as `WRITES`.
    #[cfg(creel_shuttle)]
    busy: std::sync::atomic::AtomicUsize,
    value: std::cell::UnsafeCell<T>,
}

#[cfg(all(creel_shuttle, not(creel_loom)))]
const WRITES: usize = 1 << 32;

/// An access that is under way until this value is dropped.
#[cfg(all(creel_shuttle, not(creel_loom)))]
struct Busy<'a>(&'a std::sync::atomic::AtomicUsize, usize);

#[cfg(all(creel_shuttle, not(creel_loom)))]
impl<'a> Busy<'a> {
    fn new(busy: &'a std::sync::atomic::AtomicUsize, weight: usize) -> Self {
        let before = busy.fetch_add(weight, Ordering::Relaxed);
        let alone = before == 0 || (weight == 1 && before < WRITES);
        assert!(alone, "a cell is written while it is in use");
        Self(busy, weight)
    }
}

#[cfg(all(creel_shuttle, not(creel_loom)))]
impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[cfg(not(creel_loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            #[cfg(creel_shuttle)]
            busy: std::sync::atomic::AtomicUsize::new(0),
            value: std::cell::UnsafeCell::new(value),
        }
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        #[cfg(creel_shuttle)]
        let _busy = Busy::new(&self.busy, 1);
        f(self.value.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(creel_shuttle)]
        let _busy = Busy::new(&self.busy, WRITES);
        f(self.value.get())
    }
}

/// Signals to the processor, or to the model checker, that this thread waits for another one.
#[inline]
pub(crate) fn spin_loop() {
    #[cfg(creel_loom)]
    loom::thread::yield_now();
    #[cfg(all(creel_shuttle, not(creel_loom)))]
    shuttle::thread::yield_now();
    #[cfg(creel_sim)]
    creel_sim::spin_loop();
    #[cfg(not(any(creel_loom, creel_shuttle, creel_sim)))]
    std::hint::spin_loop();
}

/// A fence between a `SeqCst` store and a `SeqCst` load whose order matters. It is needed under
/// loom only, because loom treats these as `AcqRel` and orders only fences.
#[inline(always)]
pub(crate) fn loom_fence() {
    #[cfg(creel_loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Prefetches the cache lines of `bytes` bytes from `at`, which may be any address.
#[inline]
#[cfg_attr(creel_sim, track_caller)]
pub(crate) fn prefetch(at: *const (), bytes: usize) {
    #[cfg(creel_sim)]
    for offset in (0..bytes).step_by(64) {
        creel_sim::prefetch(at.addr() + offset);
    }
    #[cfg(all(target_arch = "x86_64", not(any(miri, creel_sim))))]
    for offset in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = at.cast::<i8>().wrapping_add(offset);
        // SAFETY: this is a hint, which reads nothing and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }
    #[cfg(not(any(creel_sim, all(target_arch = "x86_64", not(miri)))))]
    let _ = (at, bytes);
}

/// Prefetches the cache line at `at`, which may be any address, in order to write to it. Without
/// this, an exchange that comes after a load of the same word often waits twice: for the cache line,
/// and then for the other cores to drop their copies.
#[inline]
#[cfg_attr(creel_sim, track_caller)]
pub(crate) fn prefetch_to_write(at: *const ()) {
    #[cfg(creel_sim)]
    creel_sim::prefetch_to_write(at.addr());
    #[cfg(all(target_arch = "x86_64", not(any(miri, creel_sim))))]
    // SAFETY: this is a hint, which reads nothing and cannot fault. Processors that do not know the
    // instruction ignore it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(creel_sim, all(target_arch = "x86_64", not(miri)))))]
    let _ = at;
}

/// Whether the system has threads. WebAssembly without its threads extension has none. There, a
/// pool runs everything on the thread that calls it.
pub(crate) const HAS_THREADS: bool =
    !cfg!(all(target_family = "wasm", not(target_feature = "atomics")));

/// Returns the id of this process, for comparison. It is always the same on systems that have none.
pub(crate) fn process_id() -> u32 {
    match cfg!(target_family = "wasm") {
        true => 0,
        false => std::process::id(),
    }
}

/// The number of checks that a spin makes before it reads the clock. Under a model checker it is 1,
/// because more checks would only lengthen the models.
pub(crate) const LOOKS: u32 = if cfg!(any(creel_loom, creel_shuttle)) {
    1
} else {
    64
};

/// Calls `f` with a thread-local, and returns the result. Returns `None` if the thread is ending
/// and has already dropped the thread-local.
///
/// For example, a program may keep a pool, a sender or a waker in a thread-local of its own. It is
/// dropped while the thread ends, and a panic in this drop would abort the process.
#[inline(always)]
pub(crate) fn local<T: 'static, R>(
    key: &'static thread::LocalKey<T>,
    f: impl FnOnce(&T) -> R,
) -> Option<R> {
    key.try_with(f).ok()
}

/// Pauses the calling thread at random under `--cfg creel_pauses`. Otherwise it does nothing.
#[cfg_attr(any(creel_pauses, creel_sim), track_caller)]
#[inline(always)]
fn pause() {
    #[cfg(all(not(creel_loom), not(creel_shuttle), creel_pauses))]
    pauses::pause();
}

/// Takes a lock. A poisoned lock is treated like any other, because the data of every mutex in this
/// crate is valid between any two statements.
#[cfg_attr(any(creel_pauses, creel_sim), track_caller)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> impl std::ops::DerefMut<Target = T> + '_ {
    pause();
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Takes a lock if no thread holds it.
#[cfg_attr(any(creel_pauses, creel_sim), track_caller)]
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<impl std::ops::DerefMut<Target = T> + '_> {
    pause();
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Returns the nanoseconds since some moment in the past. Under loom it is always 0, because loom
/// needs every run to be repeatable.
#[cfg(not(any(creel_sim, all(creel_shuttle, not(creel_loom)))))]
pub(crate) fn now_ns() -> u64 {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    if cfg!(creel_loom) {
        return 0;
    }
    let since = BEGIN.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(
    target_os = "linux",
    not(any(creel_loom, creel_shuttle, creel_sim, miri))
))]
mod wait_word {
    use super::AtomicU32;
    use rustix::thread::futex::{self, Flags, Timespec};
    use std::{ops::Deref, time::Duration};

    /// A 32-bit atomic that a thread can sleep on.
    #[derive(Debug, Default)]
    pub(crate) struct WaitWord(AtomicU32);

    impl WaitWord {
        pub(crate) fn new(value: u32) -> Self {
            Self(AtomicU32::new(value))
        }

        /// Sleeps while the word equals `expected`, until a wake-up or the time-out. It may return
        /// for no reason, so the caller must check the word again.
        pub(crate) fn wait(&self, expected: u32, timeout: Option<Duration>) {
            let timeout = timeout.map(|d| Timespec {
                tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(d.subsec_nanos()),
            });
            // We ignore the error, because the caller checks the word again in any case. The word
            // had changed, a signal arrived, or the time-out elapsed.
            let _ = futex::wait(&self.0, Flags::PRIVATE, expected, timeout.as_ref());
        }

        /// Wakes one sleeping thread.
        pub(crate) fn wake_one(&self) {
            let _ = futex::wake(&self.0, Flags::PRIVATE, 1);
        }
    }

    impl Deref for WaitWord {
        type Target = AtomicU32;
        fn deref(&self) -> &AtomicU32 {
            &self.0
        }
    }
}

#[cfg(all(
    not(creel_sim),
    any(not(target_os = "linux"), creel_loom, creel_shuttle, miri)
))]
mod wait_word {
    use super::{AtomicU32, Mutex, Ordering, lock};
    use std::{ops::Deref, time::Duration};

    #[cfg(creel_loom)]
    use loom::sync::Condvar;
    #[cfg(all(creel_shuttle, not(creel_loom)))]
    use shuttle::sync::Condvar;
    #[cfg(all(not(creel_loom), not(creel_shuttle)))]
    use std::sync::Condvar;

    /// A 32-bit atomic that a thread can sleep on.
    #[derive(Debug)]
    pub(crate) struct WaitWord {
        word: AtomicU32,
        gate: Mutex<()>,
        changed: Condvar,
    }

    impl WaitWord {
        pub(crate) fn new(value: u32) -> Self {
            Self {
                word: AtomicU32::new(value),
                gate: Mutex::new(()),
                changed: Condvar::new(),
            }
        }

        /// Sleeps while the word equals `expected`, until a wake-up or the time-out. It may return
        /// for no reason, so the caller must check the word again.
        pub(crate) fn wait(&self, expected: u32, timeout: Option<Duration>) {
            let gate = self.gate.lock().unwrap_or_else(|e| e.into_inner());
            if self.word.load(Ordering::Acquire) != expected {
                return;
            }
            match timeout {
                #[cfg(all(creel_shuttle, not(creel_loom)))]
                Some(d) if super::model_clock::passes() => {
                    drop(gate);
                    super::model_clock::run_out(d);
                }
                Some(d) => drop(self.changed.wait_timeout(gate, d)),
                None => drop(self.changed.wait(gate)),
            }
        }

        /// Wakes one sleeping thread.
        pub(crate) fn wake_one(&self) {
            drop(lock(&self.gate));
            self.changed.notify_one();
        }
    }

    impl Deref for WaitWord {
        type Target = AtomicU32;
        fn deref(&self) -> &AtomicU32 {
            &self.word
        }
    }
}
