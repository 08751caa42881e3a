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
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, UnsafeCell, prefetch_to_write};
use crossbeam_utils::CachePadded;
use std::ops::Range;

/// The owner prefetches the task that it will take after this number of further tasks.
const AHEAD: usize = 4;
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
    /// The range of hints that thieves have reserved ([`Reserved`]). It only keeps thieves apart,
    /// because each task is claimed separately.
    reserved: CachePadded<AtomicU64>,
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
            reserved: CachePadded::new(AtomicU64::new(0)),
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
        let tail = self.ends.tail.load(Ordering::Relaxed);
        if head == tail {
            return None;
        }
        let buffer = self.buffer();
        let hint = buffer.at(head).load(Ordering::Relaxed);
        let ahead = head.wrapping_add(AHEAD);
        if (tail.wrapping_sub(ahead) as isize) > 0 {
            // Another core may have written the task.
            prefetch_to_write(buffer.at(ahead).load(Ordering::Relaxed).cast());
        }
        self.ends
            .head
            .store(head.wrapping_add(1), Ordering::Release);
        Task::from_ptr(hint)
    }

    /// Claims one of the tasks in this queue for the thread that owns `own`, and copies up to
    /// `copies` of the hints behind it to `own`. The first thread to claim one of these tasks gets
    /// it.
    ///
    /// Each hint is given to one thief only. The thief has a copy of it, which others can steal in
    /// turn.
    ///
    /// # Safety
    ///
    /// The caller must be the owner of `own`, which must be another queue.
    pub(super) unsafe fn steal(&self, own: &RunQueue, copies: usize) -> Option<(Task, Claim)> {
        while let Some((first, count)) = self.reserve(1 + copies) {
            let buffer = self.buffer();
            let mut hints = (0..count).filter_map(|offset| {
                let at = buffer.at(first.wrapping_add(offset));
                Task::from_ptr(at.load(Ordering::Acquire))
            });
            let claimed = hints.find_map(|task| {
                prefetch_to_write(task.as_ptr().cast_const().cast());
                Some((task, task.state().claim_hinted()?))
            });
            for task in hints {
                // SAFETY: the caller is the owner of `own`.
                unsafe { own.push(task) };
            }
            if claimed.is_some() {
                return claimed;
            }
        }
        None
    }

    /// Returns the number of hints that no thief has reserved. The answer may be out of date.
    pub(super) fn unreserved(&self) -> usize {
        let reserved = self.reserved.load(Ordering::Relaxed);
        let (head, len) = (self.ends.head.load(Ordering::Acquire), self.len());
        Reserved::of(reserved, head).map_or(len, |reserved| {
            len.saturating_sub(reserved.end) + len.min(reserved.first)
        })
    }

    /// Reserves up to `most` hints for a thief, and returns the position of the first one and their
    /// number. Returns `None` if thieves have reserved all hints.
    ///
    /// The reserved hints are a range. It begins in the middle of the queue, and grows towards the
    /// tail as long as there are hints, and then towards the head. Therefore the owner and the
    /// thieves rarely compete for the same hints.
    fn reserve(&self, most: usize) -> Option<(usize, usize)> {
        // If another thief comes first, we do not read the ends again. With many thieves, each of
        // them would spend most of the time on that, and rarely reserve anything.
        let (head, len) = (self.ends.head.load(Ordering::Acquire), self.len());
        let mut seen = self.reserved.load(Ordering::Relaxed);
        loop {
            let (next, taken) = match Reserved::of(seen, head) {
                Some(Reserved { first, end }) if end < len => {
                    let taken = end..len.min(end + most);
                    (first..taken.end, taken)
                }
                Some(Reserved { first, end }) => {
                    let last = first.min(len);
                    let taken = last.saturating_sub(most)..last;
                    (taken.start..end, taken)
                }
                None => {
                    let taken = len / 2..len.min(len / 2 + most);
                    (taken.clone(), taken)
                }
            };
            if taken.is_empty() {
                return None;
            }
            let reserved = self.reserved.compare_exchange_weak(
                seen,
                Reserved::word(next, head),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match reserved {
                Ok(_) => return Some((head.wrapping_add(taken.start), taken.len())),
                Err(now) => seen = now,
            }
        }
    }

    /// Forgets the reserved range if the owner has popped all of it. The owner must call this at
    /// least once while it pops two billion hints, because [`Reserved`] has only the lower halves
    /// of the positions.
    pub(super) fn forget_popped(&self) {
        let seen = self.reserved.load(Ordering::Relaxed);
        let head = self.ends.head.load(Ordering::Relaxed);
        if seen != 0 && Reserved::of(seen, head).is_none() {
            // If this fails, a thief has just reserved a new range.
            let _ = self
                .reserved
                .compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// The range of hints that thieves have reserved, as offsets from the head of the queue.
struct Reserved {
    first: usize,
    end: usize,
}

impl Reserved {
    /// Returns the range of a word, or `None` if it is empty or the owner has popped all of it.
    fn of(word: u64, head: usize) -> Option<Self> {
        let offset = |position: u64| (position as u32).wrapping_sub(head as u32) as i32;
        let end = usize::try_from(offset(word)).ok()?;
        let first = usize::try_from(offset(word >> 32)).unwrap_or(0);
        (first < end).then_some(Self { first, end })
    }

    fn word(range: Range<usize>, head: usize) -> u64 {
        let position = |offset: usize| u64::from(head.wrapping_add(offset) as u32);
        position(range.start) << 32 | position(range.end)
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

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;
    use std::ptr::NonNull;

    /// Pushes hints to no task. The test does not follow them.
    fn push(queue: &RunQueue, count: usize) {
        let task = Task::from_ptr(NonNull::dangling().as_ptr()).unwrap();
        // SAFETY: only this thread uses the queue.
        (0..count).for_each(|_| unsafe { queue.push(task) });
    }

    /// Reserves hints until there are none left, and returns their positions in order.
    fn reserve_all(queue: &RunQueue) -> Vec<usize> {
        let ranges = std::iter::from_fn(|| queue.reserve(16));
        let positions = |(at, count)| (0..count).map(move |n: usize| n.wrapping_add(at));
        let mut all: Vec<_> = ranges.flat_map(positions).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn each_hint_is_reserved_once() {
        let queue = RunQueue::new();
        push(&queue, 1000);
        assert_eq!(queue.unreserved(), 1000);
        assert!(reserve_all(&queue).into_iter().eq(0..1000));
        assert_eq!(queue.unreserved(), 0);
        push(&queue, 100);
        assert_eq!(queue.unreserved(), 100);
        assert!(reserve_all(&queue).into_iter().eq(1000..1100));
    }

    #[test]
    fn an_old_range_does_not_hide_hints_after_many_pops() {
        let queue = RunQueue::new();
        push(&queue, 10);
        reserve_all(&queue);
        for end in [&queue.ends.head, &queue.ends.tail] {
            end.store(1000, Ordering::Relaxed);
        }
        queue.forget_popped();
        // The lower halves of these positions are less than those of the range.
        for end in [&queue.ends.head, &queue.ends.tail] {
            end.store(u32::MAX as usize, Ordering::Relaxed);
        }
        push(&queue, 10);
        assert_eq!(reserve_all(&queue).len(), 10);
    }
}
