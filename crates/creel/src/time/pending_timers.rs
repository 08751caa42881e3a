//! The timers that a worker has armed since its wheel was last accessed: a bounded ring.
//!
//! One thread writes to the ring, namely the worker that serves the timers, with plain loads and
//! stores. The thread that holds the lock of the wheel reads from it. This is the worker itself, or
//! another thread that takes over its timers while a poll blocks its thread. Therefore arming a
//! timer takes no lock, and other threads can still see it.
//!
//! Invariant: the places from `head` up to, but not including, `tail` hold a pending timer and
//! belong to the reader. All other places are empty and belong to the writer. Only the reader
//! changes `head`, and only the writer changes `tail`.

use crate::sync::{AtomicUsize, Ordering, UnsafeCell};
use std::mem::MaybeUninit;

/// The maximum number of pending timers. A task can be polled several times in one turn and add a
/// pending timer each time. The number must be a power of two.
pub(super) const LEN: usize = if cfg!(creel_loom) { 2 } else { 256 };

/// The ring of pending timers, with one writer and one reader at a time.
pub(super) struct PendingTimers<T> {
    /// The next position to read. The reader's `Release` store after it has taken a pending timer
    /// out synchronizes with the writer's `Acquire` load. Otherwise, the writer could overwrite a
    /// place that is still being read.
    head: AtomicUsize,
    /// The next position to write. The writer's `Release` store after it has written a pending
    /// timer synchronizes with the reader's `Acquire` load. Otherwise, the reader could read a
    /// timer that is not completely written.
    tail: AtomicUsize,
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a pending timer moves from the writer to the reader, and each place belongs to one of
// them, according to `head` and `tail`. Therefore `T: Send` is enough.
unsafe impl<T: Send> Sync for PendingTimers<T> {}

impl<T> PendingTimers<T> {
    pub(super) fn new() -> Self {
        let place = |_| UnsafeCell::new(MaybeUninit::uninit());
        PendingTimers {
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            places: (0..LEN).map(place).collect(),
        }
    }

    fn place(&self, position: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.places[position % LEN]
    }

    /// Appends a pending timer, or returns it if the ring is full.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, and all writes of a former writer happened before this call.
    #[inline]
    pub(super) unsafe fn push(&self, timer: T) -> Result<(), T> {
        let tail = self.tail.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Acquire);
        if tail.wrapping_sub(head) >= LEN {
            return Err(timer);
        }
        self.place(tail).with_mut(|place| {
            // SAFETY: validity: this is a place of the ring, which is alive, and any value may be
            // written. Aliasing: the place is before `head` plus the length, so it is empty and
            // belongs to the writer, which is the caller.
            unsafe { place.write(MaybeUninit::new(timer)) };
        });
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Takes the oldest pending timer out.
    ///
    /// # Safety
    ///
    /// The caller is the only reader, and all reads of a former reader happened before this call.
    pub(super) unsafe fn pop(&self) -> Option<T> {
        let head = self.head.load(Ordering::Relaxed);
        if head == self.tail.load(Ordering::Acquire) {
            return None;
        }
        let note = self.place(head).with_mut(|place| {
            // SAFETY: validity: this is a place of the ring, which is alive. Aliasing: the place is
            // before `tail`, so until `head` passes it, it belongs to the reader, which is the
            // caller.
            unsafe { place.read() }
        });
        // SAFETY: validity: the place is before `tail`, so a pending timer was written there. It is
        // read only once, because `head` passes it. Aliasing: the value has been moved out.
        let note = unsafe { note.assume_init() };
        self.head.store(head.wrapping_add(1), Ordering::Release);
        Some(note)
    }
}

impl<T> Drop for PendingTimers<T> {
    fn drop(&mut self) {
        // SAFETY: the ring is borrowed mutably, so no other thread reads.
        while unsafe { self.pop() }.is_some() {}
    }
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn pending_timers_come_out_once_in_order_and_a_full_ring_rejects_more() {
        let pending = PendingTimers::new();
        for round in 0..3 {
            for n in 0..LEN {
                // SAFETY: only this thread writes to the ring.
                assert_eq!(unsafe { pending.push(round + n) }, Ok(()));
            }
            // SAFETY: only this thread writes to the ring.
            assert_eq!(unsafe { pending.push(7) }, Err(7));
            for n in 0..LEN {
                // SAFETY: only this thread reads from the ring.
                assert_eq!(unsafe { pending.pop() }, Some(round + n));
            }
            // SAFETY: only this thread reads from the ring.
            assert_eq!(unsafe { pending.pop() }, None);
        }
    }

    #[test]
    fn unread_pending_timers_are_dropped_with_the_ring() {
        let note = Arc::new(());
        let pending = PendingTimers::new();
        for _ in 0..3 {
            // SAFETY: only this thread writes to the ring.
            assert!(unsafe { pending.push(Arc::clone(&note)) }.is_ok());
        }
        // SAFETY: only this thread reads from the ring.
        drop(unsafe { pending.pop() });
        assert_eq!(Arc::strong_count(&note), 3);
        drop(pending);
        assert_eq!(Arc::strong_count(&note), 1);
    }
}

/// Loom models of one writer and two readers that take turns under a lock, in every interleaving up
/// to a bound.
#[cfg(all(test, creel_loom))]
mod model {
    use super::*;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    const COUNT: usize = LEN + 1;

    /// The ring, and the values that were read from it.
    struct Shared {
        pending: PendingTimers<Box<usize>>,
        read: Mutex<Vec<usize>>,
    }

    impl Shared {
        fn read_all(&self) {
            let mut read = self.read.lock().unwrap();
            // SAFETY: the lock is held, so this is the only reader.
            while let Some(note) = unsafe { self.pending.pop() } {
                read.push(*note);
            }
        }
    }

    #[test]
    fn two_readers_get_each_pending_timer_once_and_in_order() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let shared = Arc::new(Shared {
                pending: PendingTimers::new(),
                read: Mutex::new(Vec::new()),
            });
            let other = Arc::clone(&shared);
            let rescuer = thread::spawn(move || {
                other.read_all();
                other.read_all();
            });
            for n in 0..COUNT {
                let mut note = Box::new(n);
                // SAFETY: only this thread writes to the ring.
                while let Err(back) = unsafe { shared.pending.push(note) } {
                    note = back;
                    shared.read_all();
                }
            }
            rescuer.join().unwrap();
            shared.read_all();
            let read = shared.read.lock().unwrap();
            assert_eq!(*read, (0..COUNT).collect::<Vec<_>>());
        });
    }

    #[test]
    fn a_writer_that_follows_another_loses_no_pending_timer() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let shared = Arc::new(Shared {
                pending: PendingTimers::new(),
                read: Mutex::new(Vec::new()),
            });
            // The right to write is passed on under a lock, as in `Timers`.
            let served = Arc::new(Mutex::new(false));
            let write = |shared: &Shared, served: &Mutex<bool>, n| {
                if std::mem::replace(&mut *served.lock().unwrap(), true) {
                    return shared.read.lock().unwrap().push(n);
                }
                // SAFETY: this thread has just claimed the right to write, and the next claim
                // happens after this call.
                unsafe { shared.pending.push(Box::new(n)) }.unwrap();
                *served.lock().unwrap() = false;
            };
            let (other, theirs) = (Arc::clone(&shared), Arc::clone(&served));
            let second = thread::spawn(move || write(&other, &theirs, 1));
            write(&shared, &served, 0);
            second.join().unwrap();
            shared.read_all();
            let mut read = shared.read.lock().unwrap().clone();
            read.sort_unstable();
            assert_eq!(read, [0, 1]);
        });
    }
}
