//! The list of tasks and threads that wait for a bounded channel, in the order in which they came.
//!
//! The channel accesses the list only if a task has to wait. Its fast path only checks a flag in a
//! word that it exchanges anyway. A thread that changes the list holds its lock and keeps the flag
//! equal to "the list is not empty".
//!
//! We call and drop wakers outside the lock, because they run foreign code. If a waker panics, the
//! panic reaches a caller that sends a message or closes the channel. It does not reach a caller
//! that receives a message, because that message would be lost. If a caller wakes all waiters and
//! one waker panics, the other waiters are still woken.
//!
//! The waiters are in the slots of a vector and linked by the indices of these slots. A waiter
//! knows the index of its slot. Therefore a waiter leaves in constant time, even if the list is
//! very long. For example, a receiver with a timeout may leave at any time.

use crate::sync::Mutex;
use crate::worker::panics::RunAll;
use crate::worker::stored_waker::StoredWaker;
use std::mem;
use std::task::Waker;

/// Identifies a waiting future, so that it can leave the list when it is dropped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    slot: usize,
    /// The number of the waiter, which is never reused.
    id: u64,
}

/// The list. It keeps its capacity, so that waiting does not allocate once a channel is in steady
/// use.
pub(super) struct Waiters {
    list: Mutex<List>,
}

/// The index that means "no slot".
const NONE: usize = usize::MAX;

struct List {
    slots: Vec<Slot>,
    /// The index of the first waiter.
    first: usize,
    /// The index of the last waiter.
    last: usize,
    /// The index of the first free slot. The free slots are linked by `after`.
    free: usize,
    next_id: u64,
}

struct Slot {
    id: u64,
    /// The waker. It is `None` if the slot is free.
    waker: Option<StoredWaker>,
    before: usize,
    after: usize,
}

impl List {
    const fn new() -> Self {
        List {
            slots: Vec::new(),
            first: NONE,
            last: NONE,
            free: NONE,
            next_id: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Returns the waker of the waiter with this ticket, if it still waits.
    fn known(&mut self, ticket: Ticket) -> Option<&mut StoredWaker> {
        let slot = self.slots.get_mut(ticket.slot)?;
        slot.waker.as_mut().filter(|_| slot.id == ticket.id)
    }

    fn push_back(&mut self, waker: StoredWaker) -> Ticket {
        let ticket = Ticket {
            slot: if self.free == NONE {
                self.slots.len()
            } else {
                self.free
            },
            id: self.next_id,
        };
        self.next_id += 1;
        let slot = Slot {
            id: ticket.id,
            waker: Some(waker),
            before: self.last,
            after: NONE,
        };
        match self.slots.get_mut(ticket.slot) {
            Some(place) => self.free = mem::replace(place, slot).after,
            None => self.slots.push(slot),
        }
        match self.slots.get_mut(self.last) {
            Some(last) => last.after = ticket.slot,
            None => self.first = ticket.slot,
        }
        self.last = ticket.slot;
        ticket
    }

    fn pop_front(&mut self) -> Option<StoredWaker> {
        self.take(self.first)
    }

    /// Takes the waiter out of a slot, if the slot has a waiter.
    fn take(&mut self, index: usize) -> Option<StoredWaker> {
        let slot = self.slots.get_mut(index)?;
        let waker = slot.waker.take()?;
        let (before, after) = (slot.before, mem::replace(&mut slot.after, self.free));
        self.free = index;
        match self.slots.get_mut(before) {
            Some(before) => before.after = after,
            None => self.first = after,
        }
        match self.slots.get_mut(after) {
            Some(after) => after.before = before,
            None => self.last = before,
        }
        Some(waker)
    }
}

impl Waiters {
    pub(super) fn new() -> Self {
        Self {
            list: Mutex::new(List::new()),
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut List) -> R) -> R {
        // We ignore poisoning, because no code of the program runs under this lock, so the list is
        // always valid.
        let mut list = self.list.lock().unwrap_or_else(|e| e.into_inner());
        f(&mut list)
    }

    /// Adds the waiter, or replaces its waker if it still waits. Then calls `raise` under the lock,
    /// which sets the channel's flag.
    pub(super) fn add(&self, ticket: &mut Option<Ticket>, waker: &Waker, raise: impl FnOnce()) {
        let fresh = StoredWaker::new(waker);
        let old = self.with(|list| {
            let known = ticket.and_then(|ticket| list.known(ticket));
            let old = match known {
                Some(stored) => Some(mem::replace(stored, fresh)),
                None => {
                    *ticket = Some(list.push_back(fresh));
                    None
                }
            };
            raise();
            old
        });
        drop(old);
    }

    /// Takes out the first waiter, which the caller must wake. If the list is then empty, calls
    /// `lower` under the lock, which clears the channel's flag.
    pub(super) fn pop(&self, lower: impl FnOnce()) -> Option<StoredWaker> {
        self.with(|list| {
            let first = list.pop_front();
            if list.is_empty() {
                lower();
            }
            first
        })
    }

    /// Calls `lower`, takes all waiters out, and wakes them in order. The series `woken` keeps the
    /// first panic of a waker, so that all waiters are woken.
    pub(super) fn wake_all(&self, woken: &mut RunAll, lower: impl FnOnce()) {
        let mut all = self.with(|list| {
            lower();
            // The new list continues with the numbers of tickets, so that an existing ticket never
            // matches a new waiter.
            let next_id = list.next_id;
            let all = mem::replace(list, List::new());
            list.next_id = next_id;
            all
        });
        woken.wake(std::iter::from_fn(|| all.pop_front()));
    }

    /// Takes a waiter out, and calls `lower` if the list is then empty. Returns false if the waiter
    /// had already been woken. The caller must then use that wake-up or pass it on.
    pub(super) fn remove(&self, ticket: Ticket, lower: impl FnOnce()) -> bool {
        let removed = self.with(|list| {
            let waits = list.known(ticket).is_some();
            let removed = waits.then(|| list.take(ticket.slot));
            if removed.is_some() && list.is_empty() {
                lower();
            }
            removed
        });
        removed.is_some()
    }
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex as Log};
    use std::task::Wake;

    /// A waker that appends its number to a log when it is woken.
    struct Note(usize, Arc<Log<Vec<usize>>>);

    impl Wake for Note {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn waiters_are_woken_in_order_and_removed_ones_are_not() {
        let (waiters, log) = (Waiters::new(), Arc::new(Log::new(Vec::new())));
        let waker = |n| Waker::from(Arc::new(Note(n, Arc::clone(&log))));
        let mut lowered = 0;
        for _ in 0..3 {
            let mut tickets = [None; 8];
            for (n, ticket) in tickets.iter_mut().enumerate() {
                waiters.add(ticket, &waker(n), || ());
                waiters.add(ticket, &waker(n), || ());
            }
            for gone in [0, 7, 3, 4] {
                let ticket = tickets[gone].expect("it waits");
                assert!(waiters.remove(ticket, || unreachable!("others wait")));
                assert!(!waiters.remove(ticket, || ()), "twice");
            }
            waiters.add(&mut tickets[3], &waker(3), || ());
            for _ in 0..6 {
                if let Some(waker) = waiters.pop(|| lowered += 1) {
                    waker.wake();
                }
            }
            assert_eq!(mem::take(&mut *log.lock().unwrap()), [1, 2, 5, 6, 3]);
            let late = tickets[5].expect("it waited");
            assert!(!waiters.remove(late, || ()), "it has been woken");
        }
        assert_eq!(lowered, 6, "by the last, and by one more who finds nobody");
        assert!(waiters.with(|list| list.slots.len()) <= 8);
    }

    #[test]
    fn a_ticket_from_before_wake_all_does_not_remove_a_later_waiter() {
        let (waiters, log) = (Waiters::new(), Arc::new(Log::new(Vec::new())));
        let waker = |n| Waker::from(Arc::new(Note(n, Arc::clone(&log))));
        let mut tickets = [None; 2];
        waiters.add(&mut tickets[0], &waker(0), || ());
        let mut woken = RunAll::default();
        waiters.wake_all(&mut woken, || ());
        woken.finish();
        waiters.add(&mut tickets[1], &waker(1), || ());
        assert!(!waiters.remove(tickets[0].expect("it waited"), || ()));
        if let Some(waker) = waiters.pop(|| ()) {
            waker.wake();
        }
        assert_eq!(*log.lock().unwrap(), [0, 1]);
    }
}
