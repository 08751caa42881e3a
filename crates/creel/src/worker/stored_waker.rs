//! The wakers of waiting tasks and threads. Only this module clones, wakes and drops them.
//!
//! A waker is code of the program, or of another executor. Cloning, waking and dropping it may
//! panic, block, or call back into the object that keeps it. Every object of this crate that keeps
//! a waker therefore keeps it as a [`StoredWaker`] and follows three rules:
//!
//! 1. No lock is held while a waker is cloned, woken or dropped. To register a waiter, an object
//!    checks under its lock whether it already has that waker ([`StoredWaker::will_wake`] compares
//!    two addresses and calls nothing). If it does not, it releases the lock, clones, takes the
//!    lock again and checks again, because the event may have come in between.
//! 2. Before an object calls a waker, it is in a complete state. It has set its flags and taken
//!    messages out, so that a waker that calls back or panics finds, and leaves, a valid object.
//! 3. A panic affects no other waiter. [`StoredWaker::wake`] passes it on to the caller.
//!    [`wake_all`] does so after it has woken all waiters. A caller that holds something that
//!    unwinding would lose, for example a received message, uses
//!    [`wake_quietly`](StoredWaker::wake_quietly), since the panic hook has already reported the
//!    panic. Dropping a stored waker never panics, because most drops happen in the middle of other
//!    work.

use super::panics::{RunAll, quietly};
use std::{
    mem::ManuallyDrop,
    ptr,
    task::{RawWakerVTable, Waker},
};

/// A waker that the runtime keeps until an event.
#[derive(Debug)]
pub(crate) struct StoredWaker(
    /// The waker. It is taken out once, either by `into_waker`, which leaves nothing to drop, or by
    /// the drop.
    ManuallyDrop<Waker>,
);

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

impl StoredWaker {
    /// Clones `waker`. Call this under no lock, and before you change the object that will keep the
    /// waker.
    #[inline]
    pub(crate) fn new(waker: &Waker) -> Self {
        StoredWaker(ManuallyDrop::new(waker.clone()))
    }

    /// Returns whether the stored waker wakes the same task as `waker`. Calls no code of the
    /// program.
    #[inline]
    #[cfg(feature = "net")]
    pub(crate) fn will_wake(&self, waker: &Waker) -> bool {
        self.0.will_wake(waker)
    }

    /// Wakes the waiter. If the waker panics, the panic reaches the caller.
    #[inline]
    pub(crate) fn wake(self) {
        self.into_waker().wake();
    }

    /// Returns the waker itself. We avoid a drop that would have to check whether the waker was
    /// taken out, because this is on the path of every message.
    #[inline]
    fn into_waker(self) -> Waker {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, and is not dropped.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }

    /// Wakes the waiter. If the waker panics, the panic hook reports it and we drop the panic.
    #[inline]
    pub(crate) fn wake_quietly(self) {
        quietly(|| self.wake());
    }

    /// Wakes the waiter inside a drop. If the waker panics, the panic reaches the caller, unless
    /// another panic is under way.
    pub(crate) fn wake_in_drop(self) {
        wake_all([self]);
    }

    /// Returns the data pointer of the waker, so that the caller can prefetch the data into the
    /// cache.
    #[inline]
    pub(crate) fn data(&self) -> *const () {
        self.0.data()
    }

    /// Returns a reference to the waker.
    #[inline]
    pub(crate) fn get(&self) -> &Waker {
        &self.0
    }

    /// Converts the stored waker into its two words (the data pointer and the vtable), which own
    /// the waker from now on.
    #[inline]
    pub(crate) fn into_words(self) -> (*const (), &'static RawWakerVTable) {
        let waker = ManuallyDrop::new(self);
        (waker.0.data(), waker.0.vtable())
    }

    /// Reverses [`into_words`](Self::into_words).
    ///
    /// # Safety
    ///
    /// The words must come from one call of `into_words`, and must be converted only once.
    #[inline]
    pub(crate) unsafe fn from_words(data: *const (), vtable: &'static RawWakerVTable) -> Self {
        // SAFETY: validity: the caller guarantees that these are the words of one waker. Aliasing:
        // the caller guarantees that nothing else owns it.
        StoredWaker(ManuallyDrop::new(unsafe { Waker::new(data, vtable) }))
    }
}

impl Drop for StoredWaker {
    fn drop(&mut self) {
        // SAFETY: this is the drop, so the field is not used again.
        let waker = unsafe { ManuallyDrop::take(&mut self.0) };
        quietly(|| drop(waker));
    }
}

/// Wakes all waiters, even if a waker panics, and then resumes the first panic.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = StoredWaker>) {
    let mut all = RunAll::default();
    all.wake(wakers);
    all.finish();
}

impl RunAll {
    /// Wakes all of these waiters.
    pub(crate) fn wake(&mut self, wakers: impl IntoIterator<Item = StoredWaker>) {
        for waker in wakers {
            self.run(|| waker.wake());
        }
    }
}
