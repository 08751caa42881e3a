//! Wakers of waiting tasks, which may be code of the program or of another executor.
//!
//! Cloning, waking and dropping a waker may panic, block, or call back into the object that keeps
//! it. Therefore this crate does none of these while it holds a lock, and a panic affects no other
//! waiter. `worker/stored_waker.rs` in `creel` explains the rules.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;

/// Locks a mutex, even if a thread has panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A waker that we keep until an event. Dropping it never panics, even if the waker's own drop
/// does.
#[derive(Debug)]
pub(crate) struct StoredWaker(
    /// The waker, until it is woken or dropped.
    Option<Waker>,
);

impl StoredWaker {
    /// Clones `waker`. The clone is code of the program and may panic. Therefore, call this while
    /// you hold no lock, and before you change the object that will keep the waker.
    #[inline]
    pub(crate) fn new(waker: &Waker) -> Self {
        StoredWaker(Some(waker.clone()))
    }

    /// Returns whether the stored waker wakes the same task as `waker`. You can call this under a
    /// lock, because it calls no code of the program.
    #[inline]
    pub(crate) fn will_wake(&self, waker: &Waker) -> bool {
        self.0.as_ref().is_some_and(|own| own.will_wake(waker))
    }

    /// Wakes the waiter. If the waker panics, the panic reaches the caller.
    #[inline]
    pub(crate) fn wake(mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }

    /// Wakes the waiter. If the waker panics, the panic hook reports it and we drop the panic.
    #[inline]
    pub(crate) fn wake_quietly(self) {
        quietly(|| self.wake());
    }
}

impl Drop for StoredWaker {
    #[inline]
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            quietly(|| drop(waker));
        }
    }
}

/// The identity of a waker. It is valid as long as a clone of the waker is kept, because no other
/// waker can have the same addresses in that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WakerId {
    data: usize,
    vtable: usize,
}

impl WakerId {
    #[inline]
    pub(crate) fn of(waker: &Waker) -> Self {
        WakerId {
            data: waker.data().addr(),
            vtable: ptr::from_ref(waker.vtable()).addr(),
        }
    }
}

/// A runner for a series of callbacks, which runs each of them even if an earlier one has panicked.
#[derive(Default)]
#[must_use = "`finish` re-throws the first panic"]
pub(crate) struct RunAll(Option<Box<dyn Any + Send>>);

impl RunAll {
    /// Runs `f`, and keeps its panic if it is the first one.
    pub(crate) fn run(&mut self, f: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
            match self.0 {
                None => self.0 = Some(payload),
                Some(_) => drop_payload(payload),
            }
        }
    }

    /// Wakes the waiter, if there is one.
    pub(crate) fn wake(&mut self, waker: Option<StoredWaker>) {
        if let Some(waker) = waker {
            self.run(|| waker.wake());
        }
    }

    /// Resumes the first panic, unless this thread is already unwinding, because a second panic
    /// would abort the process.
    pub(crate) fn finish(self) {
        match self.0 {
            None => {}
            Some(payload) if thread::panicking() => drop_payload(payload),
            Some(payload) => resume_unwind(payload),
        }
    }
}

/// Calls `f` and drops its panic, because nobody could receive it. The panic hook has already
/// reported the panic by then.
#[inline]
fn quietly(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        drop_payload(payload);
    }
}

/// Drops the payload of a panic. Its own drop may panic as well, and we leak what that throws.
#[cold]
#[inline(never)]
fn drop_payload(payload: Box<dyn Any + Send>) {
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    dropped.unwrap_or_else(std::mem::forget);
}
