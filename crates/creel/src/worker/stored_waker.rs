//! The wakers of waiting tasks and threads: the one place that clones, wakes and drops them.
//!
//! A waker is code of the program, or of another executor. Cloning, waking and dropping it may
//! panic, block, or call back into the object that keeps it. Every object of this crate that keeps
//! a waker therefore keeps it as a [`StoredWaker`], by three rules:
//!
//! 1. No lock is held while a waker is cloned, woken or dropped. To register a waiter, an object
//!    looks under its lock whether it has that waker already ([`StoredWaker::will_wake`] compares
//!    two addresses and calls nothing). If it does not, it releases the lock, clones, takes the lock
//!    again and looks again, because the event may have come in between.
//! 2. The object is complete before: flags are set and messages are taken out first, so that a
//!    waker that calls back or panics finds, and leaves, a valid object.
//! 3. A panic costs nobody else anything. [`StoredWaker::wake`] passes it on to the caller;
//!    [`wake_all`] does so after it has woken everybody. A caller that holds something which
//!    unwinding would lose, a received message for example, uses
//!    [`wake_quietly`](StoredWaker::wake_quietly): the panic hook has reported it by then. Dropping
//!    a stored waker never panics, because most drops happen in the middle of something else.

use super::panics::{RunAll, quietly};
use std::{
    mem::ManuallyDrop,
    ptr,
    task::{RawWakerVTable, Waker},
};

/// A waker that the runtime keeps until an event.
#[derive(Debug)]
pub(crate) struct StoredWaker(
    /// Taken out once: by `into_waker`, which leaves nothing to drop, or by the drop.
    ManuallyDrop<Waker>,
);

/// Identifies a waker while a clone of it is kept: no other can have the same addresses then.
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

impl StoredWaker {
    /// Clones `waker`: under no lock, and before the object that will keep it changes.
    #[inline]
    pub(crate) fn new(waker: &Waker) -> Self {
        StoredWaker(ManuallyDrop::new(waker.clone()))
    }

    /// Whether it wakes the same task as `waker`. Calls nothing of the program's.
    #[inline]
    pub(crate) fn will_wake(&self, waker: &Waker) -> bool {
        self.0.will_wake(waker)
    }

    /// Wakes. The waker's panic is the caller's.
    #[inline]
    pub(crate) fn wake(self) {
        self.into_waker().wake();
    }

    /// The waker itself. A wake is on the path of every message, so nothing is left to be looked at
    /// in a drop.
    #[inline]
    fn into_waker(self) -> Waker {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, and is not dropped.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }

    /// Wakes, and drops the waker's panic after the panic hook has reported it.
    #[inline]
    pub(crate) fn wake_quietly(self) {
        quietly(|| self.wake());
    }

    /// Wakes in a drop: the waker's panic is the caller's, unless another panic is under way.
    pub(crate) fn wake_in_drop(self) {
        wake_all([self]);
    }

    /// What it wakes, as an address to fetch into the cache.
    #[inline]
    pub(crate) fn data(&self) -> *const () {
        self.0.data()
    }

    /// The waker, to look at.
    #[inline]
    pub(crate) fn get(&self) -> &Waker {
        &self.0
    }

    /// Its two words, which own it from now on.
    #[inline]
    pub(crate) fn into_words(self) -> (*const (), &'static RawWakerVTable) {
        let waker = ManuallyDrop::new(self);
        (waker.0.data(), waker.0.vtable())
    }

    /// The reverse of [`into_words`](Self::into_words).
    ///
    /// # Safety
    ///
    /// The words come from one call of `into_words`, and are turned into a waker once.
    #[inline]
    pub(crate) unsafe fn from_words(data: *const (), vtable: &'static RawWakerVTable) -> Self {
        // SAFETY: validity: the words of one waker, by the caller. Aliasing: it is owned by nothing
        // else, by the caller.
        StoredWaker(ManuallyDrop::new(unsafe { Waker::new(data, vtable) }))
    }
}

impl Drop for StoredWaker {
    fn drop(&mut self) {
        // SAFETY: this is the drop, so nobody uses it again.
        let waker = unsafe { ManuallyDrop::take(&mut self.0) };
        quietly(|| drop(waker));
    }
}

/// Wakes all, also if a waker panics, and re-throws the first panic.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = StoredWaker>) {
    let mut all = RunAll::default();
    all.wake(wakers);
    all.finish();
}

impl RunAll {
    /// Wakes all of these.
    pub(crate) fn wake(&mut self, wakers: impl IntoIterator<Item = StoredWaker>) {
        for waker in wakers {
            self.run(|| waker.wake());
        }
    }
}
