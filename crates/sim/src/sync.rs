//! Locks, and the word that threads sleep on.

use crate::atomic::{AtomicU32, Ordering};
use crate::engine;
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, TryLockError, TryLockResult};
use std::time::Duration;

/// A 32-bit atomic that a thread can sleep on, like a Linux futex.
#[derive(Debug, Default)]
pub struct WaitWord(AtomicU32);

impl WaitWord {
    /// Creates a word with this value.
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    fn at(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Sleeps while the word equals `expected`, until a wake-up or the time-out.
    #[track_caller]
    pub fn wait(&self, expected: u32, timeout: Option<Duration>) {
        let ns = timeout.map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX));
        engine::wait(self.at(), || self.0.peek() == expected, ns);
    }

    /// Wakes one sleeping thread.
    #[track_caller]
    pub fn wake_one(&self) {
        engine::wake(self.at(), 1);
    }

    /// Wakes all sleeping threads.
    #[track_caller]
    pub fn wake_all(&self) {
        engine::wake(self.at(), usize::MAX);
    }
}

impl Deref for WaitWord {
    type Target = AtomicU32;
    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const CONTENDED: u32 = 2;
/// The number of checks before a thread that waits for a lock sleeps, as in `std`.
const LOOKS: u32 = 100;

/// A lock like that of `std` on Linux: one word that is free, taken, or taken with sleepers. It is
/// never poisoned.
#[derive(Default)]
pub struct Mutex<T> {
    word: WaitWord,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one thread at a time.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: the lock gives the value to one thread at a time, also if several threads share the lock.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// The exclusive access to the value of a [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T>(&'a Mutex<T>);

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex { .. }")
    }
}

impl<T> Mutex<T> {
    /// Creates a lock around a value.
    pub const fn new(value: T) -> Self {
        Self {
            word: WaitWord::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock, and sleeps until it is free.
    ///
    /// # Errors
    ///
    /// It never fails. The type is that of `std`.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        if !self.take(TAKEN) {
            self.lock_slow();
        }
        Ok(MutexGuard(self))
    }

    #[track_caller]
    fn take(&self, as_: u32) -> bool {
        let word = &self.word;
        word.compare_exchange(FREE, as_, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[track_caller]
    fn spin(&self) -> u32 {
        for _ in 0..LOOKS {
            let state = self.word.load(Ordering::Relaxed);
            if state != TAKEN {
                return state;
            }
            engine::spin_loop();
        }
        self.word.load(Ordering::Relaxed)
    }

    #[track_caller]
    fn lock_slow(&self) {
        let mut state = self.spin();
        if state == FREE && self.take(TAKEN) {
            return;
        }
        loop {
            if state != CONTENDED && self.word.swap(CONTENDED, Ordering::Acquire) == FREE {
                return;
            }
            self.word.wait(CONTENDED, None);
            state = self.spin();
        }
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    ///
    /// Returns [`TryLockError::WouldBlock`] if another thread has it.
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.take(TAKEN) {
            true => Ok(MutexGuard(self)),
            false => Err(TryLockError::WouldBlock),
        }
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// It never fails. The type is that of `std`.
    pub fn into_inner(self) -> LockResult<T> {
        Ok(self.value.into_inner())
    }

    /// Returns the value, which nobody else can access.
    ///
    /// # Errors
    ///
    /// It never fails. The type is that of `std`.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        Ok(self.value.get_mut())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock, and the guard is borrowed exclusively.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[track_caller]
    fn drop(&mut self) {
        if self.0.word.swap(FREE, Ordering::Release) == CONTENDED {
            self.0.word.wake_one();
        }
    }
}
