//! The tasks and threads that wait for a ring, first come first served.
//!
//! Only touched when somebody has to wait: the ring's fast path looks at a flag in a word that
//! it exchanges anyway. Who changes the list holds its lock and keeps the flag equal to "the list
//! is not empty"; wakers are called and dropped outside the lock, since they are foreign code. One
//! that panics does so to the caller who wakes it alone; where all are woken, it must not cost the
//! others their wake.

use crate::pool::panics::quietly;
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::task::Waker;

/// What a waiting future knows itself by.
pub(super) type Ticket = u64;

/// The list. It keeps its capacity, so a channel in steady use allocates nothing to wait.
pub(super) struct Waiters {
    list: Mutex<List>,
}

struct List {
    queue: VecDeque<(Ticket, Waker)>,
    next: Ticket,
}

impl Waiters {
    pub(super) fn new() -> Self {
        Self {
            list: Mutex::new(List {
                queue: VecDeque::new(),
                next: 0,
            }),
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut List) -> R) -> R {
        // Nothing foreign runs under the lock but `Waker::clone`, and that before the change.
        let mut list = self.list.lock().unwrap_or_else(|e| e.into_inner());
        f(&mut list)
    }

    /// Adds the waiter, or renews its waker if it still waits, and then calls `raise`.
    pub(super) fn add(&self, ticket: &mut Option<Ticket>, waker: &Waker, raise: impl FnOnce()) {
        let fresh = waker.clone();
        let old = self.with(|list| {
            let known = ticket.and_then(|t| list.queue.iter_mut().find(|(id, _)| *id == t));
            let old = match known {
                Some((_, stored)) => Some(std::mem::replace(stored, fresh)),
                None => {
                    *ticket = Some(list.next);
                    list.queue.push_back((list.next, fresh));
                    list.next += 1;
                    None
                }
            };
            raise();
            old
        });
        drop(old);
    }

    /// Wakes the first waiter; `lower` is called if none is left.
    pub(super) fn wake_one(&self, lower: impl FnOnce()) {
        let first = self.with(|list| {
            let first = list.queue.pop_front();
            if list.queue.is_empty() {
                lower();
            }
            first
        });
        if let Some((_, waker)) = first {
            waker.wake();
        }
    }

    /// Wakes everybody, also if a waker panics.
    pub(super) fn wake_all(&self, lower: impl FnOnce()) {
        let all = self.with(|list| {
            lower();
            std::mem::take(&mut list.queue)
        });
        for (_, waker) in all {
            quietly(|| waker.wake());
        }
    }

    /// Takes a waiter out. False: it had been woken already, and that wake is now the caller's to
    /// use or to pass on.
    pub(super) fn remove(&self, ticket: Ticket, lower: impl FnOnce()) -> bool {
        let removed = self.with(|list| {
            let at = list.queue.iter().position(|(id, _)| *id == ticket);
            let removed = at.and_then(|at| list.queue.remove(at));
            if removed.is_some() && list.queue.is_empty() {
                lower();
            }
            removed
        });
        removed.is_some()
    }
}
