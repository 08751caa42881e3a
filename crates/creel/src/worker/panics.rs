//! Keeps the panic of one thread for the thread that waits for it.
//!
//! Several threads may panic in one loop or scope. We keep the first payload. The caller resumes it
//! once no thread runs code of the loop or scope any more, because this code may borrow from the
//! stack that a panic would unwind.

use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

type Payload = Box<dyn Any + Send>;

/// The first of the panics that several threads may raise at about the same time.
#[derive(Default)]
pub(crate) struct FirstPanic {
    payload: Mutex<Option<Payload>>,
    /// Whether there was a panic, so that the other threads can stop early. The payload's mutex
    /// orders everything else.
    thrown: AtomicBool,
}

impl FirstPanic {
    /// Runs `f`. If `f` panics, keeps the panic, unless another thread has panicked before.
    pub(crate) fn catch<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => Some(result),
            Err(payload) => {
                self.keep(payload);
                None
            }
        }
    }

    /// Keeps a panic's payload if it is the first.
    pub(crate) fn keep(&self, payload: Payload) {
        self.thrown.store(true, Ordering::Relaxed);
        let mut first = lock(&self.payload);
        if first.is_none() {
            *first = Some(payload);
        } else {
            drop(first);
            discard(payload);
        }
    }

    /// Returns whether a thread has panicked.
    pub(crate) fn thrown(&self) -> bool {
        self.thrown.load(Ordering::Relaxed)
    }

    /// Takes the payload, so that the caller can resume the panic once no thread runs code of the
    /// loop or scope any more. After that, a new panic counts as the first.
    pub(crate) fn take(&self) -> Option<Payload> {
        if !self.thrown() {
            return None;
        }
        let payload = lock(&self.payload).take();
        self.thrown.store(false, Ordering::Relaxed);
        payload
    }
}

/// A runner for a series of callbacks, which runs each of them even if an earlier one has panicked.
///
/// Use it after you have set a flag that is acted upon only once, because callbacks that were
/// skipped would never be called.
#[derive(Default)]
#[must_use = "`finish` re-throws the first panic"]
pub(crate) struct RunAll(Option<Payload>);

impl RunAll {
    /// Runs `f`. If `f` panics, keeps the panic, unless an earlier callback has panicked.
    pub(crate) fn run(&mut self, f: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
            match self.0 {
                None => self.0 = Some(payload),
                Some(_) => discard(payload),
            }
        }
    }

    /// Resumes the first panic, unless this thread is already unwinding, because a second panic
    /// would abort the process.
    pub(crate) fn finish(self) {
        match self.0 {
            None => {}
            Some(payload) if thread::panicking() => discard(payload),
            Some(payload) => resume_unwind(payload),
        }
    }
}

/// Drops a user's value that no one will see, for example a payload or a result. If that drop
/// panics, it must not end a worker, or abort the process if another panic is under way.
pub(crate) fn discard<T>(value: T) {
    quietly(|| drop(value));
}

/// Calls user code that may panic although no thread waits for it, for example a waker or a drop.
/// The panic hook has then reported the panic, and the caller continues.
#[inline]
pub(crate) fn quietly(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        drop_payload(payload);
    }
}

/// Drops the payload of a panic. Its own drop may panic as well, and we leak what that throws.
#[cold]
#[inline(never)]
fn drop_payload(payload: Payload) {
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    dropped.unwrap_or_else(std::mem::forget);
}
