//! Whether an operation in one direction of a socket is worth trying, and who waits for that.
//!
//! The rule that no readiness is lost: an operation clears the flag *before* it tries, and an event
//! sets the flag before it takes the waiting wakers. So an event between the try and the wait is
//! seen by the second look at the flag in [`Readiness::poll`].
//!
//! Who waits has a [`Ticket`] and takes its waker back with it, at once wherever it lies: a future
//! that is given up leaves nothing behind. An event wakes all who wait, so nobody's wake needs to
//! be passed on.

use crate::worker::stored_waker::StoredWaker;
use crate::worker::woken::Woken;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Whether an operation in one direction is worth trying, and who waits for that.
#[derive(Default)]
pub(super) struct Readiness {
    ready: AtomicBool,
    /// A poller looks at this direction. Changed while the source's place is held: set before the
    /// poller looks, unset before who waits is woken for the driver's end.
    pub(super) armed: AtomicBool,
    /// Of `waiters`, for a look without the lock: a ticket of another round has been served.
    round: AtomicU64,
    waiters: Mutex<Waiters>,
}

/// Those who wait. Most sockets have one in each direction, which needs no memory but this.
#[derive(Default)]
struct Waiters {
    /// Counts the events that have woken all.
    round: u64,
    /// The last who waits without a ticket.
    nameless: Option<StoredWaker>,
    first: Option<StoredWaker>,
    /// By place; the places that are free are linked from `free` on.
    others: Vec<Slot>,
    free: Option<usize>,
}

enum Slot {
    Waits(StoredWaker),
    /// And the next free one.
    Free(Option<usize>),
}

/// What one who waits knows itself by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    round: u64,
    /// Among the others; none: the first.
    place: Option<usize>,
}

/// How an operation waits.
pub(super) enum Waiting<'a> {
    /// Until its future, which keeps the ticket, is dropped.
    Ticket(&'a mut Option<Ticket>),
    /// Until the next that waits so in the same direction: nobody tells when it is given up.
    Nameless,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Readiness {
    pub(super) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    /// Worth trying from now on. Says whether it was before.
    pub(super) fn set(&self, due: &mut Woken) -> bool {
        let before = self.ready.swap(true, Ordering::AcqRel);
        let mut waiters = lock(&self.waiters);
        waiters.take_all(due);
        self.round.store(waiters.round, Ordering::Relaxed);
        before
    }

    /// An operation is tried. Acquire: it sees in which mode the poller was when it set the flag,
    /// and whether it was for the driver's end.
    pub(super) fn clear(&self) {
        self.take();
    }

    /// The same, and says whether it is worth it.
    pub(super) fn take(&self) -> bool {
        self.ready.swap(false, Ordering::AcqRel)
    }

    /// There may be more.
    pub(super) fn keep(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Ready when an operation is worth trying; the caller clears the flag before it does.
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

    /// Puts the waker among those who wait, or renews it.
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

    /// Who has this ticket waits no longer.
    pub(super) fn give_up(&self, ticket: Ticket) {
        // A round that has passed does not come back.
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

    /// The waker there is for who waits so.
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

    /// Puts a waker in, and gives back the one that it replaces.
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

    /// Puts a waker among the others.
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

    /// Several waiting tasks, each with its own waker and ticket.
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
            // Their tickets belong to a round that has passed. Other tasks have their slots now.
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
