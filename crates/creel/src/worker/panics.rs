//! What a thread threw, kept for the one who waits for it.

use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

type Payload = Box<dyn Any + Send>;

/// The first of the panics that several threads may throw at about the same time.
#[derive(Default)]
pub(crate) struct FirstPanic {
    payload: Mutex<Option<Payload>>,
    /// Whether there was one; lets the others stop early. The payload's mutex orders the rest.
    thrown: AtomicBool,
}

impl FirstPanic {
    /// Runs `f`, and keeps what it throws if it is the first.
    pub(crate) fn catch<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => Some(result),
            Err(payload) => {
                self.keep(payload);
                None
            }
        }
    }

    /// Keeps what was thrown if it is the first.
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

    /// Whether somebody has thrown.
    pub(crate) fn thrown(&self) -> bool {
        self.thrown.load(Ordering::Relaxed)
    }

    /// The payload to re-throw, once all have ended. There may be a new first one then.
    pub(crate) fn take(&self) -> Option<Payload> {
        if !self.thrown() {
            return None;
        }
        let payload = lock(&self.payload).take();
        self.thrown.store(false, Ordering::Relaxed);
        payload
    }
}

/// Runs a series of callbacks, each also if an earlier one has panicked.
///
/// For a flag that is set once and then acted upon: the callbacks that a panic would leave out
/// would never be called.
#[derive(Default)]
#[must_use = "`finish` re-throws the first panic"]
pub(crate) struct RunAll(Option<Payload>);

impl RunAll {
    /// Runs `f`.
    pub(crate) fn run(&mut self, f: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
            match self.0 {
                None => self.0 = Some(payload),
                Some(_) => discard(payload),
            }
        }
    }

    /// Re-throws the first panic, unless this thread is unwinding already: a second panic would end
    /// the process.
    pub(crate) fn finish(self) {
        match self.0 {
            None => {}
            Some(payload) if thread::panicking() => discard(payload),
            Some(payload) => resume_unwind(payload),
        }
    }
}

/// Drops something of the user's that nobody will see, a payload or a result. One whose own drop
/// panics must not end a worker, nor, on the way of another panic, the process.
pub(crate) fn discard<T>(value: T) {
    quietly(|| drop(value));
}

/// Calls something of the user's that may panic where nobody waits for it, a waker or a drop; the
/// panic hook has told it then, and the caller goes on.
pub(crate) fn quietly(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        // Its own drop may panic, too; what that throws is left alone.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        dropped.unwrap_or_else(std::mem::forget);
    }
}
