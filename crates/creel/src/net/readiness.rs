//! The readiness of one direction of a socket (reading or writing): whether an operation is worth
//! trying, and which tasks wait until it is.
//!
//! No readiness is lost, because of this rule: an operation clears the flag *before* it makes its
//! attempt, and an event sets the flag before it takes the waiting wakers. Therefore the second
//! check of the flag in [`Readiness::poll`] sees an event that happens between the attempt and the
//! wait.
//!
//! Each waiting future has a [`Ticket`], with which it can remove its waker immediately, wherever
//! it is in the list. Therefore a future that is dropped leaves nothing behind. An event wakes all
//! waiting tasks, so a task that stops waiting does not need to pass on its wake-up.

use crate::worker::stored_waker::StoredWaker;
use crate::worker::woken::Woken;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Whether it is worth trying an operation in one direction, and which tasks wait until it is.
#[derive(Default)]
pub(super) struct Readiness {
    ready: AtomicBool,
    /// Whether a poller reports this direction. It is changed only under the lock of the source's
    /// place. It is set before the poller reports the direction. It is cleared before the end of
    /// the driver wakes the waiting tasks.
    pub(super) armed: AtomicBool,
    /// A copy of the round of `waiters` (the number of events so far), so that a check does not
    /// need the lock. The waiter of a ticket with a different round has been woken.
    round: AtomicU64,
    waiters: Mutex<Waiters>,
}

/// The waiting tasks. Most sockets have at most one in each direction, which needs no further
/// memory.
#[derive(Default)]
struct Waiters {
    /// The *round*: the number of events that have woken all waiters so far.
    round: u64,
    /// The waker of the last operation that waits without a [`Ticket`], because its future is
    /// written by hand.
    nameless: Option<StoredWaker>,
    first: Option<StoredWaker>,
    /// All waiters except `first`. A waiter keeps its place in this vector while it waits. The free
    /// places are linked, starting at `free`.
    others: Vec<Slot>,
    free: Option<usize>,
}

enum Slot {
    Waits(StoredWaker),
    /// A free place, with the index of the next free place.
    Free(Option<usize>),
}

/// Identifies a waiting future, so that it can remove its waker when it is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    round: u64,
    /// The index of the waiter in `others`. `None` means that the waiter is in `first`.
    place: Option<usize>,
}

/// The way in which an operation waits.
pub(super) enum Waiting<'a> {
    /// The operation has a ticket, which its future owns. It stops waiting when the future is
    /// dropped.
    Ticket(&'a mut Option<Ticket>),
    /// The operation has no ticket. `Io::poll` uses this for futures that are written by hand,
    /// because we cannot detect when they are dropped. The waker stays registered until an event
    /// wakes it, or until the next operation without a ticket in the same direction replaces it.
    Nameless,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Readiness {
    pub(super) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    /// Marks the direction as worth trying and collects the wakers of all waiters. Returns whether
    /// it was already marked.
    pub(super) fn set(&self, due: &mut Woken) -> bool {
        let before = self.ready.swap(true, Ordering::AcqRel);
        let mut waiters = lock(&self.waiters);
        waiters.take_all(due);
        self.round.store(waiters.round, Ordering::Relaxed);
        before
    }

    /// Clears the mark before an operation makes its attempt. The swap synchronizes with the swap
    /// of `set` whose mark it takes. Therefore the operation sees in which mode the poller was at
    /// that time, and whether the driver had ended.
    pub(super) fn clear(&self) {
        self.take();
    }

    /// Clears the mark and returns whether it was set.
    pub(super) fn take(&self) -> bool {
        self.ready.swap(false, Ordering::AcqRel)
    }

    /// Marks the direction as worth trying again, because the socket may have more data.
    pub(super) fn keep(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Returns ready if an operation is worth trying. The caller must clear the flag before its
    /// attempt.
    pub(super) fn poll(&self, cx: &mut Context<'_>, waiting: &mut Waiting<'_>) -> Poll<()> {
        if self.ready.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        self.wait(cx.waker(), waiting);
        match self.ready.load(Ordering::Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Adds the waker to the waiters, or replaces the waker that this future added before.
    fn wait(&self, waker: &Waker, waiting: &mut Waiting<'_>) {
        let waits = match waiting {
            Waiting::Ticket(None) => false,
            Waiting::Ticket(Some(_)) | Waiting::Nameless => {
                let mut waiters = lock(&self.waiters);
                let known = waiters.known(waiting);
                known.is_some_and(|known| known.will_wake(waker))
            }
        };
        if waits {
            return;
        }
        let fresh = StoredWaker::new(waker);
        let old = lock(&self.waiters).put(fresh, waiting);
        drop(old);
    }

    /// Removes the waiter with this ticket.
    pub(super) fn give_up(&self, ticket: Ticket) {
        // If the rounds differ, the waiter has been woken already, because a round never comes
        // back.
        if self.round.load(Ordering::Relaxed) == ticket.round {
            let old = lock(&self.waiters).remove(ticket);
            drop(old);
        }
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        let waiters = lock(&self.waiters);
        let taken = |slot: &&Slot| matches!(slot, Slot::Waits(_));
        let others = waiters.others.iter().filter(taken).count();
        others + usize::from(waiters.first.is_some()) + usize::from(waiters.nameless.is_some())
    }
}

impl Waiters {
    fn take_all(&mut self, due: &mut Woken) {
        self.round += 1;
        due.extend(self.first.take());
        due.extend(self.nameless.take());
        self.free = None;
        due.extend(self.others.drain(..).filter_map(|slot| match slot {
            Slot::Waits(waker) => Some(waker),
            Slot::Free(_) => None,
        }));
    }

    /// Returns the waker that this future has added before, if it still waits.
    fn known(&mut self, waiting: &Waiting<'_>) -> Option<&mut StoredWaker> {
        let ticket = match waiting {
            Waiting::Nameless => return self.nameless.as_mut(),
            Waiting::Ticket(ticket) => (**ticket)?,
        };
        match ticket.place {
            _ if ticket.round != self.round => None,
            None => self.first.as_mut(),
            Some(place) => match &mut self.others[place] {
                Slot::Waits(waker) => Some(waker),
                Slot::Free(_) => None,
            },
        }
    }

    /// Adds a waker, and returns the waker that it replaces.
    fn put(&mut self, waker: StoredWaker, waiting: &mut Waiting<'_>) -> Option<StoredWaker> {
        if let Some(known) = self.known(waiting) {
            return Some(mem::replace(known, waker));
        }
        let place = match waiting {
            Waiting::Nameless => {
                self.nameless = Some(waker);
                return None;
            }
            Waiting::Ticket(_) if self.first.is_none() => {
                self.first = Some(waker);
                None
            }
            Waiting::Ticket(_) => Some(self.insert(waker)),
        };
        if let Waiting::Ticket(ticket) = waiting {
            let round = self.round;
            **ticket = Some(Ticket { round, place });
        }
        None
    }

    /// Adds a waker to `others`.
    fn insert(&mut self, waker: StoredWaker) -> usize {
        let Some(place) = self.free else {
            self.others.push(Slot::Waits(waker));
            return self.others.len() - 1;
        };
        if let Slot::Free(next) = mem::replace(&mut self.others[place], Slot::Waits(waker)) {
            self.free = next;
        }
        place
    }

    fn remove(&mut self, ticket: Ticket) -> Option<StoredWaker> {
        match ticket.place {
            _ if ticket.round != self.round => None,
            None => self.first.take(),
            Some(place) => {
                let free = Slot::Free(self.free.replace(place));
                match mem::replace(&mut self.others[place], free) {
                    Slot::Waits(waker) => Some(waker),
                    Slot::Free(_) => None,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Several waiters, each with a waker and a ticket of its own.
    struct Crowd {
        readiness: Readiness,
        counts: Vec<Arc<Count>>,
        tickets: Vec<Option<Ticket>>,
    }

    impl Crowd {
        fn new(size: usize) -> Self {
            Crowd {
                readiness: Readiness::default(),
                counts: (0..size).map(|_| Arc::default()).collect(),
                tickets: vec![None; size],
            }
        }

        fn wait(&mut self, who: usize) {
            let waker = Waker::from(Arc::clone(&self.counts[who]));
            let mut waiting = Waiting::Ticket(&mut self.tickets[who]);
            let mut cx = Context::from_waker(&waker);
            assert!(self.readiness.poll(&mut cx, &mut waiting).is_pending());
        }

        fn give_up(&mut self, who: usize) {
            let ticket = self.tickets[who].take();
            self.readiness.give_up(ticket.expect("it waits"));
        }

        fn event(&mut self) -> Vec<usize> {
            let mut due = Woken::default();
            self.readiness.set(&mut due);
            due.run(crate::worker::woken::wake_all);
            self.readiness.clear();
            let counts = self.counts.iter().map(|count| &count.0);
            counts
                .map(|count| count.swap(0, Ordering::SeqCst))
                .collect()
        }
    }

    #[test]
    fn a_removed_waiter_is_forgotten_and_the_others_are_woken() {
        let mut crowd = Crowd::new(4);
        for _ in 0..3 {
            (0..4).for_each(|who| crowd.wait(who));
            (0..4).for_each(|who| crowd.wait(who)); // polled again
            assert_eq!(crowd.readiness.waiting(), 4);
            crowd.give_up(0);
            crowd.give_up(2);
            assert_eq!(crowd.readiness.waiting(), 2);
            crowd.wait(2);
            assert_eq!(crowd.event(), [0, 1, 1, 1]);
            assert_eq!(crowd.readiness.waiting(), 0);
            // The tickets of the woken waiters belong to a round that has passed, so other waiters
            // may have their places now.
            crowd.wait(0);
            crowd.give_up(1);
            crowd.give_up(2);
            crowd.wait(3);
            assert_eq!(crowd.event(), [1, 0, 0, 1]);
        }
        assert!(crowd.readiness.waiters.lock().unwrap().others.capacity() <= 4);
    }

    #[test]
    fn a_waiter_moved_to_another_task_wakes_that_task() {
        let mut crowd = Crowd::new(3);
        (0..2).for_each(|who| crowd.wait(who));
        crowd.tickets.swap(1, 2);
        crowd.wait(2);
        assert_eq!(crowd.event(), [1, 0, 1]);
    }

    #[test]
    fn the_last_waiter_without_a_ticket_is_woken() {
        let crowd = Crowd::new(3);
        for count in &crowd.counts {
            let waker = Waker::from(Arc::clone(count));
            let mut cx = Context::from_waker(&waker);
            for _ in 0..2 {
                let poll = crowd.readiness.poll(&mut cx, &mut Waiting::Nameless);
                assert!(poll.is_pending());
            }
            assert_eq!(crowd.readiness.waiting(), 1);
        }
        let mut crowd = crowd;
        assert_eq!(crowd.event(), [0, 0, 1]);
    }
}
