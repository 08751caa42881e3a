//! The run queue of a worker, which is a growing ring of hints to scheduled tasks.
//!
//! The owner pushes at the tail and pops at the head with plain stores. No other thread changes the
//! ring. A thief only reads it, and claims the task it found through the task's state word, as the
//! owner does. For the owner, taking a task therefore costs one atomic operation instead of two. A
//! hint may be read twice or too late, and is then *stale*: the claim of the task fails. `state.rs`
//! explains why nothing worse can happen. For the same reason, a thief may copy hints to its own
//! queue without removing them here.
//!
//! The ring doubles when it is full. It keeps its old buffers, because a thief may still read one.
//! All old buffers together are smaller than the new one.

use super::cell::{Header, Task};
use super::state::Claim;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering, UnsafeCell};
use crossbeam_utils::CachePadded;

/// The maximum number of hints that a thief checks to find one that is not stale. It checks this
/// number from the place where it begins, and then the same number from the head.
const LOOKS: usize = 32;
/// The maximum number of hints that a thief copies.
const COPIES: usize = if cfg!(creel_loom) { 1 } else { 15 };
/// The length of the first buffer, in hints.
const LEN_MIN: usize = if cfg!(creel_loom) { 4 } else { 256 };

struct Buffer {
    /// The hints. The owner's `Release` store of a hint synchronizes with a thief's `Acquire` load,
    /// so that the thief sees the task's cell initialized. The ordering of `tail` is not enough for
    /// this, because a thief may find a newer hint than the `tail` that it has read covers.
    hints: Box<[AtomicPtr<Header>]>,
}

impl Buffer {
    fn new(len: usize) -> Self {
        let hints = (0..len).map(|_| AtomicPtr::new(std::ptr::null_mut()));
        Self {
            hints: hints.collect(),
        }
    }

    #[inline]
    fn at(&self, position: usize) -> &AtomicPtr<Header> {
        // The length is a power of two.
        &self.hints[position & (self.hints.len() - 1)]
    }
}

pub(super) struct RunQueue {
    /// The positions of the first hint and behind the last hint. Only the owner writes them. Its
    /// `Release` stores synchronize with a thief's `Acquire` loads, so that the thief sees the
    /// buffer and the hints up to there.
    ends: CachePadded<Ends>,
    /// The position after the hints that the last thief reserved. It only keeps thieves apart,
    /// because each task is claimed separately.
    stolen_to: AtomicUsize,
    /// The newest of `buffers`, which is the one in use.
    current: AtomicPtr<Buffer>,
    /// Every buffer that was created, each as a leaked box, because thieves hold pointers to them.
    /// Only the owner accesses this.
    buffers: UnsafeCell<Vec<*mut Buffer>>,
}

struct Ends {
    head: AtomicUsize,
    tail: AtomicUsize,
}

// SAFETY: only the owner accesses `buffers`, as `push` requires. Everything else is atomic.
unsafe impl Send for RunQueue {}
// SAFETY: through a shared reference, only the owner accesses `buffers`, as `push` and `pop`
// require. Everything else is atomic, and a buffer lives as long as the queue.
unsafe impl Sync for RunQueue {}

impl RunQueue {
    pub(super) fn new() -> Self {
        let first = Box::into_raw(Box::new(Buffer::new(LEN_MIN)));
        Self {
            ends: CachePadded::new(Ends {
                head: AtomicUsize::new(0),
                tail: AtomicUsize::new(0),
            }),
            stolen_to: AtomicUsize::new(0),
            current: AtomicPtr::new(first),
            buffers: UnsafeCell::new(vec![first]),
        }
    }

    #[inline]
    fn buffer(&self) -> &Buffer {
        // SAFETY: a buffer lives as long as the queue.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// Returns the number of hints, including stale ones. The answer may be out of date.
    pub(super) fn len(&self) -> usize {
        let head = self.ends.head.load(Ordering::Acquire);
        self.ends
            .tail
            .load(Ordering::Acquire)
            .wrapping_sub(head)
            .min(isize::MAX as usize)
    }

    /// Adds a hint at the tail.
    ///
    /// # Safety
    ///
    /// The caller must be the owner of the queue.
    #[inline]
    pub(super) unsafe fn push(&self, task: Task) {
        let tail = self.ends.tail.load(Ordering::Relaxed);
        let head = self.ends.head.load(Ordering::Relaxed);
        let mut buffer = self.buffer();
        if tail.wrapping_sub(head) == buffer.hints.len() {
            // SAFETY: the caller is the owner.
            buffer = unsafe { self.grow(head, tail) };
        }
        buffer.at(tail).store(task.as_ptr(), Ordering::Release);
        self.ends
            .tail
            .store(tail.wrapping_add(1), Ordering::Release);
    }

    /// Doubles the buffer, and returns the new one.
    ///
    /// # Safety
    ///
    /// The caller must be the owner of the queue.
    #[cold]
    unsafe fn grow(&self, head: usize, tail: usize) -> &Buffer {
        let old = self.buffer();
        let new = Buffer::new(old.hints.len() * 2);
        let mut position = head;
        while position != tail {
            let hint = old.at(position).load(Ordering::Relaxed);
            new.at(position).store(hint, Ordering::Relaxed);
            position = position.wrapping_add(1);
        }
        let new = Box::into_raw(Box::new(new));
        // SAFETY: only the owner accesses `buffers`, and the caller is the owner.
        self.buffers.with_mut(|all| unsafe { &mut *all }.push(new));
        self.current.store(new, Ordering::Release);
        self.buffer()
    }

    /// Takes the hint at the head. The caller then claims the task, which may fail.
    ///
    /// # Safety
    ///
    /// The caller must be the owner of the queue.
    #[inline]
    pub(super) unsafe fn pop(&self) -> Option<Task> {
        let head = self.ends.head.load(Ordering::Relaxed);
        if head == self.ends.tail.load(Ordering::Relaxed) {
            return None;
        }
        let hint = self.buffer().at(head).load(Ordering::Relaxed);
        self.ends
            .head
            .store(head.wrapping_add(1), Ordering::Release);
        Task::from_ptr(hint)
    }

    /// Claims one of the tasks in this queue for the thread that owns `own`, and copies a few of
    /// the hints behind it to `own`. The first thread to claim one of these tasks gets it.
    ///
    /// The search begins in the middle of the queue, or behind the hints that the last thief
    /// reserved. Therefore the owner and the thieves rarely compete for the same hints.
    ///
    /// # Safety
    ///
    /// The caller must be the owner of `own`, which must be another queue.
    pub(super) unsafe fn steal(&self, own: &RunQueue) -> Option<(Task, Claim)> {
        let head = self.ends.head.load(Ordering::Acquire);
        let len = self.len();
        if len == 0 {
            return None;
        }
        let buffer = self.buffer();
        let hint = |offset: usize| {
            let hint = buffer.at(head.wrapping_add(offset)).load(Ordering::Acquire);
            Task::from_ptr(hint)
        };
        // If the thief finds no task in the first `LOOKS` hints from that offset on, it continues
        // at the head.
        let from = self.reserve(head, len);
        let mut offsets = (from..len).take(LOOKS).chain((0..from).take(LOOKS));
        let (offset, task, claim) = offsets.find_map(|offset| {
            let task = hint(offset)?;
            Some((offset, task, task.state().claim_hinted()?))
        })?;
        for task in (offset + 1..len.min(offset + 1 + COPIES)).filter_map(hint) {
            // SAFETY: the caller is the owner of `own`.
            unsafe { own.push(task) };
        }
        Some((task, claim))
    }

    /// Reserves a few hints for a thief, and returns the offset of the first one from `head`. The
    /// next thief begins behind them, if that position is still in the queue, or in the middle.
    fn reserve(&self, head: usize, len: usize) -> usize {
        let mut stolen_to = self.stolen_to.load(Ordering::Relaxed);
        loop {
            let last = stolen_to.wrapping_sub(head);
            let from = if last < len { last } else { len / 2 };
            let end = head.wrapping_add(len.min(from + 1 + COPIES));
            let reserved = self.stolen_to.compare_exchange_weak(
                stolen_to,
                end,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match reserved {
                Ok(_) => return from,
                Err(now) => stolen_to = now,
            }
        }
    }
}

impl Drop for RunQueue {
    fn drop(&mut self) {
        // SAFETY: the queue is being dropped, so no other thread uses it any more.
        let buffers = self
            .buffers
            .with_mut(|all| std::mem::take(unsafe { &mut *all }));
        for buffer in buffers {
            // SAFETY: the buffer was created by `Box::into_raw` and is listed once, and there is no
            // thief left.
            drop(unsafe { Box::from_raw(buffer) });
        }
    }
}
