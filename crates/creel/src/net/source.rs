//! A socket, what its operations wait for, and how the poller looks at it.
//!
//! The rule that no readiness is lost: an operation clears the direction's flag *before* it
//! tries, and an event sets the flag before it takes the waiting wakers. So an event between the
//! try and the wait is seen by the second look at the flag in [`Readiness::poll`].

use super::habit::{Habit, Report};
use crate::pool::woken::Woken;
use polling::{AsSource, Event, PollMode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// A socket of a driver.
pub(super) struct Source<S: ?Sized> {
    pub(super) read: Readiness,
    pub(super) write: Readiness,
    /// The reading direction is reported as long as there is something to read; else once
    /// for each arrival.
    pub(super) level: AtomicBool,
    pub(super) habit: Habit,
    /// How the poller looks at the socket, if it does. Held while that or the directions change.
    pub(super) mode: Mutex<Option<PollMode>>,
    pub(super) socket: S,
}

/// A source of any kind of socket.
pub(super) type AnySource = Source<dyn AsSource + Send + Sync>;

/// Whether an operation in one direction is worth trying, and who waits for that.
#[derive(Default)]
pub(super) struct Readiness {
    ready: AtomicBool,
    /// The poller looks at this direction. Set once, before it does.
    pub(super) armed: AtomicBool,
    waiters: Mutex<Waiters>,
}

/// Most sockets have one in each direction, which needs no memory but this.
#[derive(Default)]
struct Waiters {
    first: Option<Waker>,
    others: Vec<Waker>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> Source<S> {
    pub(super) fn new(socket: S) -> Self {
        Source {
            read: Readiness::default(),
            write: Readiness::default(),
            level: AtomicBool::new(false),
            habit: Habit::default(),
            mode: Mutex::new(None),
            socket,
        }
    }
}

impl<S: ?Sized> Source<S> {
    pub(super) fn readiness(&self, direction: Direction) -> &Readiness {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    /// What the poller is told to look at.
    pub(super) fn interest(&self, key: usize) -> Event {
        Event::new(key, self.read.is_armed(), self.write.is_armed())
    }

    /// Notes what the poller has reported in an answer of this row, and moves the wakers of those
    /// who wait for it to `due`.
    pub(super) fn report(&self, event: Event, row: u32, due: &mut Woken) -> Report {
        let mut report = Report::default();
        if event.readable {
            let unheard = self.read.set(due);
            if self.is_level() {
                report = self.habit.reported(row, unheard);
            }
        }
        if event.writable {
            self.write.set(due);
        }
        report
    }

    pub(super) fn is_level(&self) -> bool {
        self.level.load(Ordering::Relaxed)
    }
}

impl Readiness {
    pub(super) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    /// Worth trying from now on. Says whether it was before.
    fn set(&self, due: &mut Woken) -> bool {
        let before = self.ready.swap(true, Ordering::AcqRel);
        let mut waiters = lock(&self.waiters);
        due.extend(waiters.first.take());
        due.extend(waiters.others.drain(..));
        before
    }

    /// An operation is tried. Acquire: it sees in which mode the poller was when it set the flag.
    pub(super) fn clear(&self) {
        self.ready.swap(false, Ordering::AcqRel);
    }

    /// There may be more.
    pub(super) fn keep(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Ready when an operation is worth trying; the caller clears the flag before it does.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ready.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        lock(&self.waiters).add(cx.waker());
        match self.ready.load(Ordering::Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Waiters {
    fn add(&mut self, waker: &Waker) {
        let mut all = self.first.iter().chain(&self.others);
        if all.any(|waiter| waiter.will_wake(waker)) {
            return;
        }
        match self.first {
            None => self.first = Some(waker.clone()),
            Some(_) => self.others.push(waker.clone()),
        }
    }
}
