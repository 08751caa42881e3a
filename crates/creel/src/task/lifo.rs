//! The LIFO slot, which contains the task that the holder of a local scheduler runs next. The task
//! is already claimed for the holder.
//!
//! Only the holder puts a task in, and it takes it out with plain loads and stores. A task that is
//! handed over on one worker is therefore claimed by the wake-up itself. A thief comes only if the
//! holder has been stuck in one poll for a millisecond. The thief sets `thief`, and pays for the
//! barriers of both sides (`sync/barrier.rs`). If the system has no barrier of this kind, each side
//! executes a fence. The thief leaves again if the holder is just taking the task, or if the kernel
//! refuses the barrier.
//!
//! Any number of threads may try to steal at any time. The reason is that the watchdog's finding
//! that a holder is stuck may be out of date, and that its next check may send another thread. The
//! first thread to set `thief` is the thief, and only this thread clears `thief`. The others find
//! it set and leave.
//!
//! Invariant: consider the time from the moment when a thief has seen `taking` false after the
//! barrier until it clears `thief`. Every take that begins in that time finds `thief` set, and then
//! uses an exchange, as the thief does. If two thieves could overlap, the first one to leave would
//! clear `thief` while the other still works. The holder's plain load and store would then race
//! with the other's exchange, and two threads would run one task.

use super::cell::{Header, Task};
use crate::sync::{AtomicBool, AtomicPtr, Ordering, barrier};
use std::ptr;

/// A place for one claimed task.
pub(super) struct Lifo {
    /// The task, or null. The holder's `Release` store in `put` synchronizes with a thief's
    /// exchange, so that the thief sees the task and its claim.
    task: AtomicPtr<Header>,
    /// Whether the holder is in `take`.
    ///
    /// - The holder sets it with `Relaxed`, because the barriers order this store against `thief`.
    /// - The holder clears it with `Release`. This store synchronizes with the `Acquire` load of a
    ///   thief that reads it. The thief's exchange then finds the null that the holder has left in
    ///   `task`, or a newer task. Otherwise, the holder and the thief could take the same task.
    taking: AtomicBool,
    /// Whether a thief is trying to steal the task.
    ///
    /// - A thief sets it with an `Acquire` swap, which synchronizes with the `Release` store of the
    ///   previous thief. Therefore everything that the previous thief did happens before. The
    ///   barriers order the swap against `taking`.
    /// - The thief clears it with `Release`. This store also synchronizes with the holder's
    ///   `Acquire` load in `take`. The holder's plain load of `task` then finds what the thief's
    ///   exchange has left. Otherwise, the holder could take a task that the thief has already
    ///   taken.
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

    /// Returns whether the slot is empty. The answer may be out of date, except for the holder.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.task.load(Ordering::Acquire).is_null()
    }

    /// Puts a task in.
    ///
    /// # Safety
    ///
    /// The caller must be the holder, must have found the slot empty since it last put a task in,
    /// and must have claimed the task.
    #[inline]
    pub(super) unsafe fn put(&self, task: Task) {
        debug_assert!(self.is_empty());
        if cfg!(creel_loom) {
            // Loom does not know that an exchange directly follows the value that it has read in
            // the modification order. With a store, it would let the holder read the thief's null
            // instead of this task.
            self.task.swap(task.as_ptr(), Ordering::AcqRel);
        } else {
            self.task.store(task.as_ptr(), Ordering::Release);
        }
    }

    /// Takes the claimed task out.
    ///
    /// # Safety
    ///
    /// The caller must be the holder.
    #[inline]
    pub(super) unsafe fn take(&self) -> Option<Task> {
        if self.task.load(Ordering::Relaxed).is_null() {
            return None;
        }
        self.taking.store(true, Ordering::Relaxed);
        barrier::light();
        // `Acquire` synchronizes with the store by which the last thief cleared `thief`. If that
        // thief took the task, the plain load below must find null.
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

    /// Takes the claimed task out, on any thread. It also returns `None` while the holder takes the
    /// task or another thread steals it.
    pub(super) fn steal(&self) -> Option<Task> {
        if self.is_empty() || self.thief.swap(true, Ordering::Acquire) {
            return None;
        }
        // `Acquire` synchronizes with the store by which the holder cleared `taking`. If the holder
        // took the task, the exchange below must not find it.
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
