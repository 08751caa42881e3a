//! The phases of a pool from its creation to its end, and the states of its worker threads.
//!
//! # The pool
//!
//! | phase | the word | allowed |
//! |---|---|---|
//! | serving | users × 2 | to enter, so that threads may start and work is accepted |
//! | closing | users × 2 + 1, users > 0 | to leave, but not to enter; the remaining users run or cancel the accepted work |
//! | ended | 1 | nothing; the thread that left last has ended the tasks |
//!
//! A *user* is one of three: the pool's owner, a thread that serves workers (which is counted
//! before it starts), or a call from outside. A spawn is a user while it hands over its task, and a
//! `block_on` until it returns. Entering and closing change the same word. Therefore each user
//! either enters before the close, and the owner waits for it, or it is rejected. The word becomes
//! 1 only once, because no user enters after the close. The thread that makes it 1 can end the
//! tasks alone, because no user is left.
//!
//! # A worker's thread
//!
//! | state | `alive` | which thread changes it |
//! |---|---|---|
//! | absent | false | |
//! | starting | false | the thread that holds the worker's `thread` lock, after it entered as a user; if the OS refuses the thread, it leaves again and the state is *absent* |
//! | running | true | the same thread, before it releases the lock |
//! | retiring | false | the worker's thread itself, under the lock; it checks whether it was given work, and then continues as *running* or ends as *absent* |
//!
//! A thread that gives work to a worker publishes the work before it reads `alive` (`SeqCst` on
//! both sides). If it finds the worker's thread running, that thread will see the work. If the
//! thread is retiring, the lock makes the publisher wait for the result of its check. If it is
//! absent, the publisher starts one.

use super::waiter::Waiter;
use crate::sync::{AtomicBool, AtomicUsize, Instant, Mutex, Ordering, lock, thread::JoinHandle};
use std::{io, time::Duration};

const CLOSING: usize = 1;
const USER: usize = 2;

/// The number of users of a pool, and whether the pool is being dropped.
pub(crate) struct Life {
    /// The word of the first table in the module's documentation. It is `SeqCst`, so that once one
    /// thread sees the pool closing, every later reader does.
    word: AtomicUsize,
    /// The owner, if it waits for the other users to leave.
    owner: Mutex<Option<Waiter>>,
}

impl Life {
    /// Creates the life of a pool that is serving. It has one user, which is the owner.
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicUsize::new(USER),
            owner: Mutex::new(None),
        }
    }

    /// Adds a user. Returns false if the pool is closing.
    #[must_use]
    pub(crate) fn enter(&self) -> bool {
        let entered = |word: usize| (word & CLOSING == 0).then_some(word + USER);
        self.word
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, entered)
            .is_ok()
    }

    /// Removes a user. Returns true if the caller was the last one, which ends the pool.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        let left = self.word.fetch_sub(USER, Ordering::SeqCst) - USER;
        if left == CLOSING | USER {
            // One user remains. It may be the owner, which waits for all other users to leave, so
            // we wake it.
            lock(&self.owner).iter().for_each(Waiter::wake);
        }
        left == CLOSING
    }

    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.word.load(Ordering::SeqCst) & CLOSING != 0
    }

    /// Closes the pool, so that no user can enter any more.
    pub(crate) fn close(&self) {
        self.word.fetch_or(CLOSING, Ordering::SeqCst);
    }

    /// Blocks the owner until it is the only user, or until the deadline `until`. While it waits,
    /// it calls `look` again and again, and sleeps for at most `every` in between, or for at most 1
    /// ms if that is longer. Returns whether the owner is the only user. It must be called after
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
    /// Whether the thread is running. The table in the module's documentation lists the values. It
    /// is changed only under the lock.
    alive: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WorkerThread {
    /// Returns whether a thread is running.
    pub(crate) fn is_running(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }

    /// Records that a thread is running that was not started with [`ensure`](Self::ensure).
    #[cfg(all(test, creel_loom))]
    pub(crate) fn mark_running(&self) {
        self.alive.store(true, Ordering::SeqCst);
    }

    /// Ensures that a thread is running, and calls `start` to start one if needed. `start` returns
    /// no handle if the program has started the thread. Returns whether this call has started it.
    pub(crate) fn ensure(
        &self,
        start: impl FnOnce() -> io::Result<Option<JoinHandle<()>>>,
    ) -> io::Result<bool> {
        if self.is_running() {
            return Ok(false);
        }
        let mut thread = lock(&self.thread);
        // We check again under the lock, because another caller may have started the thread since
        // the first check.
        let starts = !self.is_running();
        if starts {
            *thread = start()?;
            self.alive.store(true, Ordering::SeqCst);
        }
        Ok(starts)
    }

    /// Retires the thread, which calls this itself when it wants to end. `free` returns whether
    /// nothing is left that only this thread could do. Returns true if the thread must end, and
    /// false if it must continue.
    pub(crate) fn retire(&self, free: impl FnOnce() -> bool) -> bool {
        let _thread = lock(&self.thread);
        self.alive.store(false, Ordering::SeqCst);
        let ends = free();
        self.alive.store(!ends, Ordering::SeqCst);
        ends
    }

    /// Calls `f` while there is no thread, and returns its result. A thread that starts later does
    /// so after `f`. Returns false without calling `f` if there is a thread.
    pub(crate) fn while_absent(&self, f: impl FnOnce() -> bool) -> bool {
        let _thread = lock(&self.thread);
        !self.is_running() && f()
    }

    /// Takes the handle of the worker's thread, so that the caller can join the thread.
    pub(crate) fn take(&self) -> Option<JoinHandle<()>> {
        lock(&self.thread).take()
    }
}
