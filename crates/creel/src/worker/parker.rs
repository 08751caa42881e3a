//! How a worker's thread sleeps and is woken: one word.
//!
//! | value | who sets it | what it means |
//! |---|---|---|
//! | `RUNNING` | the worker, before it looks for work | it will look at every source of work before it sleeps |
//! | `NOTIFIED` | a waker | something came since the worker last began to look |
//! | `PARKED` | the worker, from `RUNNING` only | it sleeps on this word (or is about to) |
//! | `POLLING` | the worker, from `RUNNING` only | it sleeps elsewhere, where the [`Poller`] ends its sleep (or is about to) |
//! | `SLEEPING_QUANTUM` | the worker, from `RUNNING` only | it sleeps out a throttle's quantum on this word |
//! | `WAITING` | the worker, from `RUNNING` only | it sleeps on this word in the middle of somebody's code, which waits for others |
//!
//! Why no wake-up is lost: who brings work publishes it first and swaps `NOTIFIED` in after; the
//! worker swaps `RUNNING` in first and looks after. All are read-modify-writes of one word, so
//! they have one order. If the waker's swap comes before the worker's, the worker's look sees the
//! work. If it comes after, the worker's step from `RUNNING` to `PARKED` fails, or finds itself
//! undone by a waker that saw `PARKED` and pays the one system call that wakes it. What waits
//! for the quantum (`notify_later`) leaves `SLEEPING_QUANTUM` as it is, by a read-modify-write, too: the
//! worker's swap at the quantum's end comes after it and sees the work.

use crate::sync::{Ordering, WaitWord};
use std::{sync::Arc, time::Duration};

const RUNNING: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;
const POLLING: u32 = 3;
const SLEEPING_QUANTUM: u32 = 4;
const WAITING: u32 = 5;

/// Where a worker may sleep but on its word.
pub(crate) trait Poller: Send + Sync {
    /// Ends the sleep of who is in there, or the next one.
    fn interrupt(&self);
}

/// The state word of a worker.
pub(crate) struct Parker {
    /// One of the values above. Every change is `AcqRel`: a waker's swap releases the work that
    /// it published, the worker's acquires it.
    state: WaitWord,
    poller: Arc<dyn Poller>,
}

/// What a notified thread was at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrevState {
    /// Asleep, with nothing to do.
    Asleep,
    /// Asleep in the middle of somebody's code.
    Waiting,
    /// Awake: it may look at once, or be in somebody's code for long.
    Awake,
}

impl PrevState {
    fn of(state: u32) -> Self {
        match state {
            PARKED | POLLING | SLEEPING_QUANTUM => PrevState::Asleep,
            WAITING => PrevState::Waiting,
            _ => PrevState::Awake,
        }
    }
}

impl Parker {
    pub(crate) fn new(poller: Arc<dyn Poller>) -> Self {
        Self {
            state: WaitWord::new(RUNNING),
            poller,
        }
    }

    /// Tells the worker that there is something new, wakes it if it sleeps, and says what it was
    /// at.
    pub(crate) fn notify(&self) -> PrevState {
        self.wake_from(self.state.swap(NOTIFIED, Ordering::AcqRel))
    }

    /// The same for something that may wait for the end of a throttle's quantum.
    pub(crate) fn notify_later(&self) -> PrevState {
        let told = |state| match state {
            SLEEPING_QUANTUM => Some(SLEEPING_QUANTUM),
            _ => Some(NOTIFIED),
        };
        let before = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, told);
        match before.unwrap_or_else(|state| state) {
            SLEEPING_QUANTUM => PrevState::Asleep,
            state => self.wake_from(state),
        }
    }

    fn wake_from(&self, state: u32) -> PrevState {
        match state {
            PARKED | SLEEPING_QUANTUM | WAITING => self.state.wake_one(),
            POLLING => self.poller.interrupt(),
            _ => {}
        }
        PrevState::of(state)
    }

    /// Whether the thread sleeps with nothing to do; a moment ago.
    pub(crate) fn sleeps(&self) -> bool {
        PrevState::of(self.state.load(Ordering::SeqCst)) == PrevState::Asleep
    }

    /// Begins a turn: from here on, what a waker brings is either seen by this turn or keeps
    /// the worker from sleeping after it.
    pub(crate) fn begin_turn(&self) {
        if self.notified() {
            self.state.swap(RUNNING, Ordering::AcqRel);
        }
    }

    /// Whether a waker has come since the turn began; asked again, also in the middle of a `poll`.
    pub(crate) fn notified(&self) -> bool {
        self.state.load(Ordering::Relaxed) == NOTIFIED
    }

    /// Sleeps until a waker comes or the time-out passes, unless one has come since the turn
    /// began. Says whether one has.
    pub(crate) fn park(&self, timeout: Option<Duration>) -> bool {
        self.sleep_as(PARKED, || self.state.wait(PARKED, timeout))
    }

    /// The same, in which only [`notify`](Self::notify) counts as a waker.
    pub(crate) fn rest(&self, timeout: Option<Duration>) -> bool {
        self.sleep_as(SLEEPING_QUANTUM, || {
            self.state.wait(SLEEPING_QUANTUM, timeout)
        })
    }

    /// The same as `park`, in the middle of somebody's code.
    pub(crate) fn sleep_inside(&self, timeout: Option<Duration>) {
        self.sleep_as(WAITING, || self.state.wait(WAITING, timeout));
    }

    /// The same as `park`, by a `sleep` that the poller ends. Says whether a waker has come: who has
    /// not slept there after all, because another does, must not sleep elsewhere then.
    #[must_use]
    pub(crate) fn poll(&self, sleep: impl FnOnce()) -> bool {
        self.sleep_as(POLLING, sleep)
    }

    /// Sleeps by `sleep` while the state word tells so, unless a waker has come since the turn
    /// began. Says whether one has.
    fn sleep_as(&self, state: u32, sleep: impl FnOnce()) -> bool {
        let told = self
            .state
            .compare_exchange(RUNNING, state, Ordering::AcqRel, Ordering::Acquire);
        if told.is_ok() {
            sleep();
        }
        self.state.swap(RUNNING, Ordering::AcqRel) == NOTIFIED
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    struct Nobody;

    impl Poller for Nobody {
        fn interrupt(&self) {}
    }

    #[test]
    fn a_waker_is_told_of_that_came_while_the_poller_was_taken() {
        let parker = Parker::new(Arc::new(Nobody));
        assert!(!parker.poll(|| ()));
        assert!(parker.poll(|| {
            parker.notify();
        }));
        parker.notify();
        assert!(parker.poll(|| panic!("it has been notified")));
        assert!(!parker.poll(|| ()), "that was looked for");
    }
}
