//! What a worker has armed since anybody last looked at its wheel: a bounded ring of notes.
//!
//! One thread writes, the worker that serves the timers, with plain loads and stores. Who holds
//! the wheel's lock reads, the worker itself or another that looks after it while a poll blocks
//! its thread. So arming costs no lock, and what is armed is still no secret of the worker's.
//!
//! The invariant: places from `head` to before `tail` hold a note and are the reader's, the others
//! are empty and the writer's. Each of the two words has one writer at a time.

use crate::sync::{AtomicUsize, Ordering, UnsafeCell};
use std::mem::MaybeUninit;

/// Notes at most; a task may be polled again and again in one turn, and note its timer each time.
/// A power of two.
pub(super) const LEN: usize = if cfg!(loom) { 2 } else { 256 };

/// The ring.
pub(super) struct PendingTimers<T> {
    /// The next position to read. Stored with release once a note is out, so that the writer, who
    /// acquires it, does not write over what is still being read.
    head: AtomicUsize,
    /// The next position to write. Stored with release once a note is in.
    tail: AtomicUsize,
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a note moves from the writer to the reader, and each place is one's alone, as `head` and
// `tail` tell; so `T: Send` is enough.
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

    /// Appends a note, or gives it back if the ring is full.
    ///
    /// # Safety
    ///
    /// The caller is the only writer: what a former one wrote happened before.
    #[inline]
    pub(super) unsafe fn push(&self, note: T) -> Result<(), T> {
        let tail = self.tail.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Acquire);
        if tail.wrapping_sub(head) >= LEN {
            return Err(note);
        }
        self.place(tail).with_mut(|place| {
            // SAFETY: validity: a place of the ring, which lives, for any value. Aliasing: it lies
            // before `head` plus the length, so it is empty and the writer's, who is the caller.
            unsafe { place.write(MaybeUninit::new(note)) };
        });
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Takes the oldest note out.
    ///
    /// # Safety
    ///
    /// The caller is the only reader: what a former one read happened before.
    pub(super) unsafe fn pop(&self) -> Option<T> {
        let head = self.head.load(Ordering::Relaxed);
        if head == self.tail.load(Ordering::Acquire) {
            return None;
        }
        let note = self.place(head).with_mut(|place| {
            // SAFETY: validity: a place of the ring, which lives. Aliasing: it lies before `tail`,
            // so until `head` passes it, it is the reader's, who is the caller.
            unsafe { place.read() }
        });
        // SAFETY: validity: before `tail`, a note was written there, and no other is read from it,
        // as `head` passes it. Aliasing: moved out.
        let note = unsafe { note.assume_init() };
        self.head.store(head.wrapping_add(1), Ordering::Release);
        Some(note)
    }
}

impl<T> Drop for PendingTimers<T> {
    fn drop(&mut self) {
        // SAFETY: borrowed mutably: nobody else reads.
        while unsafe { self.pop() }.is_some() {}
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn entries_come_out_once_in_order_and_a_full_ring_rejects_more() {
        let pending = PendingTimers::new();
        for round in 0..3 {
            for n in 0..LEN {
                // SAFETY: this thread alone writes.
                assert_eq!(unsafe { pending.push(round + n) }, Ok(()));
            }
            // SAFETY: this thread alone writes.
            assert_eq!(unsafe { pending.push(7) }, Err(7));
            for n in 0..LEN {
                // SAFETY: this thread alone reads.
                assert_eq!(unsafe { pending.pop() }, Some(round + n));
            }
            // SAFETY: this thread alone reads.
            assert_eq!(unsafe { pending.pop() }, None);
        }
    }

    #[test]
    fn unread_entries_are_dropped_with_the_ring() {
        let note = Arc::new(());
        let pending = PendingTimers::new();
        for _ in 0..3 {
            // SAFETY: this thread alone writes.
            assert!(unsafe { pending.push(Arc::clone(&note)) }.is_ok());
        }
        // SAFETY: this thread alone reads.
        drop(unsafe { pending.pop() });
        assert_eq!(Arc::strong_count(&note), 3);
        drop(pending);
        assert_eq!(Arc::strong_count(&note), 1);
    }
}

/// Loom: a writer and two who read by turns under a lock, in every interleaving up to a bound.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    const COUNT: usize = LEN + 1;

    /// The ring, and the entries that were read from it.
    struct Shared {
        pending: PendingTimers<Box<usize>>,
        read: Mutex<Vec<usize>>,
    }

    impl Shared {
        fn read_all(&self) {
            let mut read = self.read.lock().unwrap();
            // SAFETY: we hold the lock.
            while let Some(note) = unsafe { self.pending.pop() } {
                read.push(*note);
            }
        }
    }

    #[test]
    fn model_of_a_writer_and_two_readers() {
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
                // SAFETY: only this thread writes.
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
    fn model_of_a_writer_that_follows_another() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let shared = Arc::new(Shared {
                pending: PendingTimers::new(),
                read: Mutex::new(Vec::new()),
            });
            // The right to write is passed on under a lock, as `Timers` does it.
            let served = Arc::new(Mutex::new(false));
            let write = |shared: &Shared, served: &Mutex<bool>, n| {
                if std::mem::replace(&mut *served.lock().unwrap(), true) {
                    return shared.read.lock().unwrap().push(n);
                }
                // SAFETY: we have just made the claim, and the next claim comes after it.
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
