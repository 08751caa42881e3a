//! How a worker's thread sleeps and is woken. The worker and its wakers agree by a single word, the
//! state of the worker.
//!
//! | value | set by | meaning |
//! |---|---|---|
//! | `RUNNING` | the worker, before it checks for work | it will check every source of work before it sleeps |
//! | `NOTIFIED` | a waker | something has happened since the worker last began to check |
//! | `PARKED` | the worker, from `RUNNING` only | it sleeps on this word, or is about to |
//! | `POLLING` | the worker, from `RUNNING` only | it sleeps elsewhere, or is about to, and the [`Poller`] ends its sleep |
//! | `SLEEPING_QUANTUM` | the worker, from `RUNNING` only | it sleeps on this word for the rest of a throttle's quantum |
//! | `WAITING` | the worker, from `RUNNING` only | it sleeps on this word in the middle of user code that waits for others |
//!
//! No wake-up is lost, for the following reason. A thread that brings work publishes it first and
//! swaps in `NOTIFIED` afterwards. The worker swaps in `RUNNING` first and checks for work
//! afterwards. All of these are read-modify-writes of one word, so they have one order. If the
//! waker's swap comes before the worker's swap, the worker's check sees the work. If it comes
//! after, the worker's step from `RUNNING` to `PARKED` fails, or the waker finds `PARKED`, undoes
//! it, and wakes the worker with one system call.
//!
//! Work that may wait for the end of the quantum (`notify_later`) leaves `SLEEPING_QUANTUM`
//! unchanged, but also with a read-modify-write. The worker's swap at the end of the quantum comes
//! after it, and the worker then sees the work.

use crate::sync::{Ordering, WaitWord};
use std::{sync::Arc, time::Duration};

const RUNNING: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;
const POLLING: u32 = 3;
const SLEEPING_QUANTUM: u32 = 4;
const WAITING: u32 = 5;

/// A place other than the state word in which a worker may sleep, for example epoll.
pub(crate) trait Poller: Send + Sync {
    /// Ends the sleep of the worker that sleeps in the poller. If no worker does, this ends the
    /// next sleep in the poller.
    fn interrupt(&self);
}

/// The state word of a worker.
pub(crate) struct Parker {
    /// One of the values in the module's table. Every change is `AcqRel`. A waker's change to
    /// `NOTIFIED` synchronizes with the worker's next swap, so that the worker sees the work that
    /// the waker has published. Otherwise, the worker could consume the notification and miss the
    /// work.
    state: WaitWord,
    poller: Arc<dyn Poller>,
}

/// The state of a worker's thread before it was notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrevState {
    /// The thread was asleep with nothing to do.
    Asleep,
    /// The thread was asleep in the middle of user code.
    Waiting,
    /// The thread was awake. It may check for work at once, or be in user code for a long time.
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

    /// Makes the worker check for work, and wakes it if it sleeps. Returns the previous state of
    /// its thread.
    pub(crate) fn notify(&self) -> PrevState {
        self.wake_from(self.state.swap(NOTIFIED, Ordering::AcqRel))
    }

    /// Makes the worker check for work that may wait for the end of a throttle's quantum. Wakes the
    /// worker if it sleeps, unless it sleeps out the quantum. Returns the previous state of its
    /// thread.
    pub(crate) fn notify_later(&self) -> PrevState {
        let previous = |state| match state {
            SLEEPING_QUANTUM => Some(SLEEPING_QUANTUM),
            _ => Some(NOTIFIED),
        };
        let before = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, previous);
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

    /// Returns whether the thread sleeps with nothing to do. The answer may be out of date.
    pub(crate) fn sleeps(&self) -> bool {
        PrevState::of(self.state.load(Ordering::SeqCst)) == PrevState::Asleep
    }

    /// Begins a turn. If a waker brings work after this call, the worker either sees the work in
    /// this turn, or does not sleep after it.
    pub(crate) fn begin_turn(&self) {
        if self.notified() {
            self.state.swap(RUNNING, Ordering::AcqRel);
        }
    }

    /// Returns whether a waker has come since the turn began. The worker checks this repeatedly,
    /// even in the middle of a `poll`.
    pub(crate) fn notified(&self) -> bool {
        self.state.load(Ordering::Relaxed) == NOTIFIED
    }

    /// Sleeps until a waker comes or the time-out elapses, unless a waker has come since the turn
    /// began. Returns whether one has come.
    pub(crate) fn park(&self, timeout: Option<Duration>) -> bool {
        self.sleep_as(PARKED, || self.state.wait(PARKED, timeout))
    }

    /// Sleeps like [`park`](Self::park), but [`notify_later`](Self::notify_later) does not end the
    /// sleep. If it comes before the thread sleeps, the thread does not fall asleep.
    pub(crate) fn sleep_quantum(&self, timeout: Option<Duration>) -> bool {
        self.sleep_as(SLEEPING_QUANTUM, || {
            self.state.wait(SLEEPING_QUANTUM, timeout)
        })
    }

    /// Sleeps like [`park`](Self::park), in the middle of user code.
    pub(crate) fn sleep_inside(&self, timeout: Option<Duration>) {
        self.sleep_as(WAITING, || self.state.wait(WAITING, timeout));
    }

    /// Sleeps like [`park`](Self::park), but in the poller: calls `sleep`, which the poller ends.
    /// Returns whether a waker has come.
    ///
    /// The caller must check the result even if `sleep` returned at once, for example because
    /// another worker already polls. If a waker has come, the worker must not sleep elsewhere.
    #[must_use]
    pub(crate) fn poll(&self, sleep: impl FnOnce()) -> bool {
        self.sleep_as(POLLING, sleep)
    }

    /// Sleeps with `sleep` and sets the word to `state` for that time, unless a waker has come
    /// since the turn began. Returns whether a waker has come.
    fn sleep_as(&self, state: u32, sleep: impl FnOnce()) -> bool {
        let previous =
            self.state
                .compare_exchange(RUNNING, state, Ordering::AcqRel, Ordering::Acquire);
        if previous.is_ok() {
            sleep();
        }
        self.state.swap(RUNNING, Ordering::AcqRel) == NOTIFIED
    }
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;

    struct Nobody;

    impl Poller for Nobody {
        fn interrupt(&self) {}
    }

    #[test]
    fn a_wake_that_came_while_the_poller_was_taken_is_kept() {
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
