//! The LIFO slot: the task that a desk's holder runs next, claimed for it already.
//!
//! Only the holder puts a task in, and it takes it out with plain loads and stores, so that a
//! hand-over on one worker is claimed by the wake itself. A thief comes only where the holder has
//! been stuck in one poll for a millisecond; it says so, pays for a barrier on both sides
//! (`sync/barrier.rs`), and goes away again if the holder is just taking.
//!
//! Invariant: a thief that has seen `taking` false after the barrier is seen by every later take,
//! which then exchanges, as the thief does.

use super::cell::{Header, Task};
use crate::sync::{AtomicBool, AtomicPtr, Ordering, barrier};
use std::ptr;

/// One claimed task, or none.
pub(super) struct Lifo {
    task: AtomicPtr<Header>,
    /// The holder is in `take`.
    taking: AtomicBool,
    /// A thief is there.
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

    /// Takes the task out, claimed, from another thread; `None` also while the holder takes.
    ///
    /// # Safety
    ///
    /// The caller is the only thief.
    pub(super) unsafe fn steal(&self) -> Option<Task> {
        if self.is_empty() {
            return None;
        }
        self.thief.store(true, Ordering::Relaxed);
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
