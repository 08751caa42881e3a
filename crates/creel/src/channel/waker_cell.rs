//! A waker whose owner is told by a state word beside it.
//!
//! A channel's state word has one *waiting* bit a side and a count (the *epoch*) that every
//! change of the word advances. The side that waits stores its waker here and then sets its bit;
//! the other side copies the two words, and one compare-exchange that clears the bit makes the
//! copy its own. If the waiting side has re-registered in between, the epoch differs and
//! the exchange fails, so a copy that was torn is never used. So one atomic operation both
//! publishes a message and takes the waker, and nobody spins on anybody.
//!
//! A wait that is given up leaves its waker here, until the same side waits again or the channel
//! ends: one a side, so that giving up costs nothing. It may wake a task in vain, once.
//!
//! Invariant: the words are written only by the waiting side, and only while its bit is clear.
//!
//! Left out: more than one waiter a side. The ring has a list for that.

use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use crate::worker::stored_waker::StoredWaker;
use std::task::{RawWakerVTable, Waker};

/// One step of the epoch; the bits below it are the channel's flags.
pub(super) const EPOCH: u64 = 1 << 8;

/// What a side's wait does to the state word.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    /// The side's *waiting* bit: set.
    pub(super) bit: u64,
    /// Bits that are cleared with it.
    pub(super) clears: u64,
}

/// The two words of a [`Waker`].
pub(super) struct WakerCell {
    // Relaxed throughout: the state word's release and acquire order them, and a torn
    // pair is never turned into a waker.
    data: AtomicPtr<()>,
    vtable: AtomicPtr<RawWakerVTable>,
}

/// A copy of the two words that is not (yet) a waker.
#[derive(Clone, Copy)]
pub(super) struct WakerWords {
    data: *mut (),
    vtable: *mut RawWakerVTable,
}

impl WakerWords {
    /// Makes the waker of the copied words.
    ///
    /// # Safety
    ///
    /// The caller has just won the exchange that cleared the waiting bit, on the value of the
    /// state word that it had read before the copy; nobody else has turned it into a waker.
    #[inline]
    pub(super) unsafe fn into_waker(self) -> StoredWaker {
        // SAFETY: the words were taken from a waker in `register`, whose vtable is `'static`.
        let vtable = unsafe { &*self.vtable };
        // SAFETY: both words come from one waker, whose ownership the caller has won.
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

    /// Copies the words; they become a waker only by [`WakerWords::into_waker`].
    #[inline]
    pub(super) fn copy(&self) -> WakerWords {
        WakerWords {
            data: self.data.load(Ordering::Relaxed),
            vtable: self.vtable.load(Ordering::Relaxed),
        }
    }

    /// Whether the waker that is stored wakes the same.
    fn holds(&self, waker: &Waker) -> bool {
        let words = self.copy();
        std::ptr::eq(words.data, waker.data()) && std::ptr::eq(words.vtable, waker.vtable())
    }

    /// Drops the waker that is stored, `seen` having the side's bit; the word as it is then.
    #[cold]
    fn clear(&self, state: &AtomicU64, seen: u64, waiting: u64) -> Option<u64> {
        let words = self.copy();
        let cleared = (seen & !waiting).wrapping_add(EPOCH);
        if !exchange(state, seen, cleared) {
            return None;
        }
        // SAFETY: the bit was ours and the exchange cleared it, so the stored waker is ours.
        drop(unsafe { words.into_waker() });
        Some(cleared)
    }

    /// Registers `waker` for a side, the word having been read as `seen`.
    ///
    /// Only this side may call it. False: the word has changed, look again.
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
        // SAFETY: the words just made; the bit is clear, so nobody else has turned them into a waker.
        drop(unsafe { StoredWaker::from_words(data, vtable) });
        false
    }
}

/// The one transition of a channel's state word.
///
/// Acquire, to see what the other side wrote before its last change; release, to show it ours.
#[inline]
pub(super) fn exchange(state: &AtomicU64, seen: u64, next: u64) -> bool {
    state
        .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}
