//! A worker's run queue: a growing ring of hints to scheduled tasks.
//!
//! The owner pushes at the tail and pops at the head with plain stores; nobody else writes. A
//! thief only reads, and claims what it found by the task's state word, as the owner does. So
//! taking a task costs one atomic operation, not two, and a hint may be read twice or too late:
//! it then fails to claim (`state.rs` says why that is all that can happen). So a thief may also
//! copy hints to its own queue, and takes nothing away by it.
//!
//! The ring doubles when full and keeps its old buffers, because a thief may still read one; all
//! old ones together are smaller than the new one.

use super::cell::{Header, Task};
use super::state::Claim;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering, UnsafeCell};
use crossbeam_utils::CachePadded;

/// How many hints a thief looks at to find one that is not stale.
const LOOKS: usize = 32;
/// How many it copies.
const COPIES: usize = if cfg!(loom) { 1 } else { 15 };
/// The first buffer's length.
const LEN_MIN: usize = if cfg!(loom) { 4 } else { 256 };

struct Buffer {
    /// Stored with release, loaded with acquire: a thief may find a cell newer than `tail` told it.
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

/// The queue.
pub(super) struct RunQueue {
    /// Positions. Written by the owner only, with release; a thief's acquire shows it the buffer
    /// and the hints up to there.
    ends: CachePadded<Ends>,
    /// Behind the last hint that was stolen. Advice only.
    stolen_to: AtomicUsize,
    /// The newest of `buffers`.
    current: AtomicPtr<Buffer>,
    /// Every buffer made, each a leaked box: thieves hold pointers to them. The owner's.
    buffers: UnsafeCell<Vec<*mut Buffer>>,
}

struct Ends {
    head: AtomicUsize,
    tail: AtomicUsize,
}

// SAFETY: `buffers` is the owner's, as `push` demands; the rest is atomic.
unsafe impl Send for RunQueue {}
// SAFETY: through a shared queue, `buffers` is touched by the owner only, as `push` and `pop`
// demand; the rest is atomic, and a buffer lives as long as the queue.
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

    /// How many hints there are, stale ones too; a moment ago.
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
    /// The caller is the queue's owner.
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

    /// # Safety
    ///
    /// The caller is the queue's owner.
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
        // SAFETY: the owner's.
        self.buffers.with_mut(|all| unsafe { &mut *all }.push(new));
        self.current.store(new, Ordering::Release);
        self.buffer()
    }

    /// Takes the hint at the head; the caller claims the task, which may fail.
    ///
    /// # Safety
    ///
    /// The caller is the queue's owner.
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

    /// Claims one of the tasks hinted at, from the middle on, for the thread that owns `own`, and
    /// copies a few of the hints behind it there: whoever is first claims those tasks.
    ///
    /// From the middle, so that owner and thief do not run after each other.
    ///
    /// # Safety
    ///
    /// The caller is the owner of `own`, which is another queue.
    pub(super) unsafe fn steal(&self, own: &RunQueue) -> Option<(Task, Claim)> {
        let head = self.ends.head.load(Ordering::Acquire);
        let len = self.len();
        let buffer = self.buffer();
        let hint = |offset: usize| {
            let hint = buffer.at(head.wrapping_add(offset)).load(Ordering::Acquire);
            Task::from_ptr(hint)
        };
        // Behind what the last thief took, or in the middle; and if nothing is there, at the head.
        let last = self.stolen_to.load(Ordering::Relaxed).wrapping_sub(head);
        let from = if last < len { last } else { len / 2 };
        let mut offsets = (from..len).take(LOOKS).chain((0..from).take(LOOKS));
        let (offset, task, claim) = offsets.find_map(|offset| {
            let task = hint(offset)?;
            Some((offset, task, task.state().claim_hinted()?))
        })?;
        let copied = offset + 1..len.min(offset + 1 + COPIES);
        self.stolen_to
            .store(head.wrapping_add(copied.end), Ordering::Relaxed);
        for task in copied.filter_map(hint) {
            // SAFETY: the caller is its owner.
            unsafe { own.push(task) };
        }
        Some((task, claim))
    }
}

impl Drop for RunQueue {
    fn drop(&mut self) {
        // SAFETY: nobody else has the queue any more.
        let buffers = self
            .buffers
            .with_mut(|all| std::mem::take(unsafe { &mut *all }));
        for buffer in buffers {
            // SAFETY: made by `Box::into_raw`, listed once, and no thief is left.
            drop(unsafe { Box::from_raw(buffer) });
        }
    }
}
