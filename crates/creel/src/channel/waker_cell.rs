//! A cell for a waker. The state word of the channel decides which side owns the waker.
//!
//! The state word of a channel has one *waiting* bit per side that can wait, and a counter (the
//! *epoch*). Every change of the word advances the epoch, except the last change by the sender of a
//! `oneshot` channel, because no side waits after that. A side that waits stores its waker in the
//! cell and then sets its bit. The other side copies the two words of the waker. A compare-exchange
//! that clears the bit then makes the copy its own.
//!
//! If the waiting side has registered again in between, the epoch differs and the exchange fails.
//! Therefore an inconsistent copy is never used. One atomic operation both publishes a message and
//! takes the waker, and no side spins while the other one works.
//!
//! If a future stops waiting, its waker stays in the cell until the same side waits again, the
//! other side wakes it, or the channel ends. This is at most one waker per side, so stopping costs
//! nothing. However, the waker may wake a task once without need.
//!
//! Invariant: only the waiting side writes the words, and only while its bit is clear.
//!
//! We leave out more than one waiter per side. The bounded channel has a list for that.

use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use crate::worker::stored_waker::StoredWaker;
use std::task::{RawWakerVTable, Waker};

/// One step of the epoch. The bits below it are the flags of the channel.
pub(super) const EPOCH: u64 = 1 << 8;

/// The change that a side makes to the state word when it begins to wait.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    /// The side's *waiting* bit, which is set.
    pub(super) bit: u64,
    /// The bits of the state word that are cleared in the same exchange.
    pub(super) clears: u64,
}

/// The two words of a [`Waker`].
pub(super) struct WakerCell {
    // We access both words with `Relaxed`. The exchange that sets the waiting bit synchronizes with
    // the other side's `Acquire` load of the state word, so that the other side copies these words
    // or newer ones. If the copy contains a newer word, the waiting side has cleared the bit since.
    // In that case, the other side's exchange fails, and the copy is not used.
    data: AtomicPtr<()>,
    vtable: AtomicPtr<RawWakerVTable>,
}

/// A copy of the two words of a waker. The copy becomes a waker only with
/// [`into_waker`](Self::into_waker).
#[derive(Clone, Copy)]
pub(super) struct WakerWords {
    data: *mut (),
    vtable: *mut RawWakerVTable,
}

impl WakerWords {
    /// Turns the copied words into a waker.
    ///
    /// # Safety
    ///
    /// The caller has just made the exchange that cleared the waiting bit. The exchange compared
    /// with the value of the state word that was read before the copy. No other thread has turned
    /// the words into a waker.
    #[inline]
    pub(super) unsafe fn into_waker(self) -> StoredWaker {
        // SAFETY: `register` took the words from a waker, whose vtable is `'static`.
        let vtable = unsafe { &*self.vtable };
        // SAFETY: both words come from one waker, which belongs to the caller because of its
        // exchange.
        unsafe { StoredWaker::from_words(self.data, vtable) }
    }
}

impl WakerCell {
    pub(super) fn new() -> Self {
        Self {
            data: AtomicPtr::new(std::ptr::null_mut()),
            vtable: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Copies the words. They become a waker only with [`WakerWords::into_waker`].
    #[inline]
    pub(super) fn copy(&self) -> WakerWords {
        WakerWords {
            data: self.data.load(Ordering::Relaxed),
            vtable: self.vtable.load(Ordering::Relaxed),
        }
    }

    /// Returns whether the stored waker wakes the same task as `waker`.
    fn holds(&self, waker: &Waker) -> bool {
        let words = self.copy();
        std::ptr::eq(words.data, waker.data()) && std::ptr::eq(words.vtable, waker.vtable())
    }

    /// Drops the stored waker. `seen` is the state word with the side's bit set. Returns the new
    /// state word, or `None` if the word has changed.
    #[cold]
    fn clear(&self, state: &AtomicU64, seen: u64, waiting: u64) -> Option<u64> {
        let words = self.copy();
        let cleared = (seen & !waiting).wrapping_add(EPOCH);
        if !exchange(state, seen, cleared) {
            return None;
        }
        // SAFETY: the bit was ours and the exchange cleared it, so the stored waker belongs to us.
        drop(unsafe { words.into_waker() });
        Some(cleared)
    }

    /// Registers `waker` for a side. `seen` is the state word as it was read.
    ///
    /// Only this side may call it. Returns false if the word has changed, so that the caller must
    /// check it again.
    #[inline]
    pub(super) fn register(
        &self,
        state: &AtomicU64,
        mut seen: u64,
        wait: Wait,
        waker: &Waker,
    ) -> bool {
        if seen & wait.bit != 0 {
            if self.holds(waker) {
                return true;
            }
            match self.clear(state, seen, wait.bit) {
                Some(cleared) => seen = cleared,
                None => return false,
            }
        }
        let (data, vtable) = StoredWaker::new(waker).into_words();
        let vtable_word = std::ptr::from_ref(vtable).cast_mut();
        self.data.store(data.cast_mut(), Ordering::Relaxed);
        self.vtable.store(vtable_word, Ordering::Relaxed);
        let waits = (seen & !wait.clears | wait.bit).wrapping_add(EPOCH);
        if exchange(state, seen, waits) {
            return true;
        }
        // SAFETY: these are the words that were just made. The bit is clear, so no other thread has
        // turned them into a waker.
        drop(unsafe { StoredWaker::from_words(data, vtable) });
        false
    }
}

/// Changes the state word of a channel from `seen` to `next`. This is the only operation that
/// changes it.
///
/// The exchange is `AcqRel`. It synchronizes with the other side's last change of the word, so that
/// we see what the other side wrote before, for example the message. Likewise, the other side's
/// next change synchronizes with this exchange.
#[inline]
pub(super) fn exchange(state: &AtomicU64, seen: u64, next: u64) -> bool {
    state
        .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}
