//! The life of a pool, and of the threads in it.
//!
//! # The pool
//!
//! | phase | the word | what is allowed |
//! |---|---|---|
//! | serving | users × 2 | to enter: threads may start, work is accepted |
//! | closing | users × 2 + 1, users > 0 | to leave: nobody enters any more; what was accepted is run or cancelled by those who are in |
//! | ended | 1 | nothing; who made it so has ended the tasks |
//!
//! A *user* is the pool's owner, a thread that serves a worker (counted before it starts), or a call
//! from outside that is about to accept work (a spawn). Entering and closing change one word, so
//! each enters before the close and is waited for, or is refused. The word comes to 1 once only,
//! because nobody enters after the close: who makes it so is alone with the pool's memory.
//!
//! # A worker's thread
//!
//! | state | `alive` | who changes it |
//! |---|---|---|
//! | absent | false | |
//! | starting | false | who holds the worker's `thread` lock, after it entered as a user; if the system refuses the thread it leaves again, and the state is *absent* |
//! | running | true | the same, before it lets go of the lock |
//! | retiring | false | the thread itself, under the lock: it looks whether anything was given to it, and goes on *running* or ends as *absent* |
//!
//! Who gives a worker work publishes it before it reads `alive` (`SeqCst` both sides): it finds the
//! thread running, which will look; or retiring, and then the lock makes it wait for the outcome
//! of that look; or absent, and starts one.

use super::waiter::Waiter;
use crate::sync::{AtomicBool, AtomicUsize, Instant, Mutex, Ordering, lock, thread::JoinHandle};
use std::{io, time::Duration};

const CLOSING: usize = 1;
const USER: usize = 2;

/// How many use a pool, and whether it is being dropped.
pub(crate) struct Life {
    /// See above. `SeqCst`: a closing seen by one is seen by all who look later.
    word: AtomicUsize,
    /// The owner, if it waits for the others to leave.
    owner: Mutex<Option<Waiter>>,
}

impl Life {
    /// Serving, with one user: the owner.
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicUsize::new(USER),
            owner: Mutex::new(None),
        }
    }

    /// One more user. False: the pool is closing.
    #[must_use]
    pub(crate) fn enter(&self) -> bool {
        let entered = |word: usize| (word & CLOSING == 0).then_some(word + USER);
        self.word
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, entered)
            .is_ok()
    }

    /// One user less. True: the caller was the last, and the pool has ended.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        let left = self.word.fetch_sub(USER, Ordering::SeqCst) - USER;
        if left == CLOSING | USER {
            // The one that is left may be the owner.
            lock(&self.owner).iter().for_each(Waiter::wake);
        }
        left == CLOSING
    }

    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.word.load(Ordering::SeqCst) & CLOSING != 0
    }

    /// From here on nobody enters.
    pub(crate) fn close(&self) {
        self.word.fetch_or(CLOSING, Ordering::SeqCst);
    }

    /// Blocks the owner until it is the only user, or until the deadline `until`. Calls `look` at
    /// least once every `every` meanwhile. Returns whether the owner is the only user. After
    /// [`close`](Self::close).
    pub(crate) fn wait_for_others(
        &self,
        every: Duration,
        until: Option<Instant>,
        mut look: impl FnMut(),
    ) -> bool {
        let waiter = Waiter::current();
        *lock(&self.owner) = Some(waiter.clone());
        let alone = || self.word.load(Ordering::SeqCst) == CLOSING | USER;
        let late = || until.is_some_and(|until| Instant::now() >= until);
        let help = || {
            look();
            false
        };
        waiter.wait_looking(Some(every), || alone() || late(), help);
        *lock(&self.owner) = None;
        alone()
    }
}

/// The thread of a worker.
#[derive(Default)]
pub(crate) struct WorkerThread {
    /// See above. Changed under the lock only.
    alive: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WorkerThread {
    /// Whether a thread runs.
    pub(crate) fn is_running(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }

    /// One runs that nobody started here.
    #[cfg(all(test, loom))]
    pub(crate) fn mark_running(&self) {
        self.alive.store(true, Ordering::SeqCst);
    }

    /// Ensures that a thread runs; `start` makes it. True if it has been made.
    pub(crate) fn ensure(
        &self,
        start: impl FnOnce() -> io::Result<JoinHandle<()>>,
    ) -> io::Result<bool> {
        if self.is_running() {
            return Ok(false);
        }
        let mut thread = lock(&self.thread);
        // Again, under the lock that it changes under.
        let starts = !self.is_running();
        if starts {
            *thread = Some(start()?);
            self.alive.store(true, Ordering::SeqCst);
        }
        Ok(starts)
    }

    /// Called by the thread itself when it wants to end; `free` says whether nothing is left that
    /// it alone could do. True: it ends. False: it goes on.
    pub(crate) fn retire(&self, free: impl FnOnce() -> bool) -> bool {
        let _thread = lock(&self.thread);
        self.alive.store(false, Ordering::SeqCst);
        let ends = free();
        self.alive.store(!ends, Ordering::SeqCst);
        ends
    }

    /// Calls `f` while there is no thread; one that starts later does so after `f`. Returns false
    /// without a call if there is one.
    pub(crate) fn while_absent(&self, f: impl FnOnce() -> bool) -> bool {
        let _thread = lock(&self.thread);
        !self.is_running() && f()
    }

    /// The handle, to join it.
    pub(crate) fn take(&self) -> Option<JoinHandle<()>> {
        lock(&self.thread).take()
    }
}
