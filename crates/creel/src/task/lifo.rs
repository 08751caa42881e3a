//! The LIFO slot: the task that a local scheduler's holder runs next, claimed for it already.
//!
//! Only the holder puts a task in, and it takes it out with plain loads and stores, so that a
//! hand-over on one worker is claimed by the wake itself. A thief comes only where the holder has
//! been stuck in one poll for a millisecond. It sets `thief`, pays for a barrier on both sides
//! (`sync/barrier.rs`), and goes away again if the holder is just taking.
//!
//! Any number of threads may try to steal at any time, because the watchdog's finding that a holder is
//! stuck may be out of date, and because its second look may send another thread. The first one to
//! set `thief` is the thief, and it alone clears `thief`. The others find it set and leave.
//!
//! Invariant: from the moment when a thief has seen `taking` false after the barrier until it clears
//! `thief`, every take that begins finds `thief` set and then exchanges, as the thief does. If two
//! thieves could overlap, the first one to leave would clear `thief` under the other, and the
//! holder's plain load and store would race with the other's exchange: two threads would run one
//! task.

use super::cell::{Header, Task};
use crate::sync::{AtomicBool, AtomicPtr, Ordering, barrier};
use std::ptr;

/// One claimed task, or none.
pub(super) struct Lifo {
    /// The holder stores with release what a thief's exchange acquires: the task and its claim.
    task: AtomicPtr<Header>,
    /// The holder is in `take`. Relaxed when set, because the barriers order it against `thief`;
    /// release when cleared, so that a thief sees that the task is gone.
    taking: AtomicBool,
    /// A thief is there. Acquire when set, so that a thief comes after the one before it; the
    /// barriers order it against `taking`. Release when cleared, for the next thief and so that
    /// the holder's plain load finds what the exchange has left.
    thief: AtomicBool,
}

impl Lifo {
    pub(super) fn new() -> Self {
        Self {
            task: AtomicPtr::new(ptr::null_mut()),
            taking: AtomicBool::new(false),
            thief: AtomicBool::new(false),
        }
    }

    /// Whether no task lies here; a moment ago, but for the holder's own.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.task.load(Ordering::Acquire).is_null()
    }

    /// Puts a task in.
    ///
    /// # Safety
    ///
    /// The caller is the holder, has found the slot empty since it last put one in, and has
    /// claimed the task.
    #[inline]
    pub(super) unsafe fn put(&self, task: Task) {
        debug_assert!(self.is_empty());
        if cfg!(loom) {
            // Loom does not know that an exchange and what it has read lie side by side in the
            // word's order, and would let the holder read the thief's null instead of this.
            self.task.swap(task.as_ptr(), Ordering::AcqRel);
        } else {
            self.task.store(task.as_ptr(), Ordering::Release);
        }
    }

    /// Takes the task out, claimed.
    ///
    /// # Safety
    ///
    /// The caller is the holder.
    #[inline]
    pub(super) unsafe fn take(&self) -> Option<Task> {
        if self.task.load(Ordering::Relaxed).is_null() {
            return None;
        }
        self.taking.store(true, Ordering::Relaxed);
        barrier::light();
        // Acquire: what a thief has taken before is gone.
        let task = if self.thief.load(Ordering::Acquire) {
            self.task.swap(ptr::null_mut(), Ordering::AcqRel)
        } else {
            let task = self.task.load(Ordering::Relaxed);
            self.task.store(ptr::null_mut(), Ordering::Relaxed);
            task
        };
        self.taking.store(false, Ordering::Release);
        Task::from_ptr(task)
    }

    /// Takes the task out, claimed, from any thread; `None` also while the holder takes or another
    /// thread steals.
    pub(super) fn steal(&self) -> Option<Task> {
        if self.is_empty() || self.thief.swap(true, Ordering::Acquire) {
            return None;
        }
        // Acquire: what the holder took before is gone.
        let still = barrier::heavy() && !self.taking.load(Ordering::Acquire);
        let task = if still {
            self.task.swap(ptr::null_mut(), Ordering::AcqRel)
        } else {
            ptr::null_mut()
        };
        self.thief.store(false, Ordering::Release);
        Task::from_ptr(task)
    }
}
