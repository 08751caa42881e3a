//! How a thread waits for others: the one blocking wait of the runtime.
//!
//! A thread from outside sleeps on a word of its own. A worker, of whatever pool, sleeps on its
//! worker's state word and runs what other workers want of it meanwhile, so that two that wait for
//! each other both get on, also across pools. It runs nothing else: neither a task inside
//! another's poll, nor what threads from outside want, which would pile up on its stack.

use super::{current, slots::WorkerSlots};
use crate::sync::{AtomicUsize, Ordering, WaitWord, local, thread_local};
use std::sync::Arc;
use std::time::Duration;

/// Somebody who waits, or is about to.
#[derive(Clone)]
pub(crate) enum Waiter {
    /// A thread from outside: its word counts the wakes.
    Thread(Arc<WaitWord>),
    /// The worker with this index.
    Worker(Arc<WorkerSlots>, usize),
}

thread_local! {
    /// Made once a thread, so that waiting allocates nothing. A wake that comes late ends a later
    /// wait early, which looks again.
    static WORD: Arc<WaitWord> = Arc::new(WaitWord::new(QUIET));
}

/// In a thread's word: nothing has come since it last looked.
const QUIET: u32 = 0;
/// Something has.
const WOKEN: u32 = 1;
/// The thread sleeps, or is about to. Set from `QUIET` only.
const ASLEEP: u32 = 2;

impl Waiter {
    /// The calling thread.
    pub(crate) fn current() -> Self {
        if let Some((slots, index)) = current::worker() {
            return Self::Worker(slots, index);
        }
        // At a thread's end its locals are gone, and loom's threads share theirs.
        let kept = (!cfg!(loom)).then(|| local(&WORD, Arc::clone)).flatten();
        Self::Thread(kept.unwrap_or_else(|| Arc::new(WaitWord::new(QUIET))))
    }

    /// Has it look again. What it waits for has been published before.
    pub(crate) fn wake(&self) {
        match self {
            Self::Thread(word) => {
                if word.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
                    word.wake_one();
                }
            }
            Self::Worker(slots, index) => {
                slots.at(*index).notify();
            }
        }
    }

    /// The same at the cost of a load where it does not sleep. What it waits for was published by a
    /// read-modify-write that is `SeqCst`, and its `done` reads that `SeqCst`: so either this finds
    /// it asleep, or it looks once more before it sleeps and finds what it waits for.
    #[inline]
    pub(crate) fn wake_if_asleep(&self) {
        match self {
            Self::Thread(word) if word.load(Ordering::SeqCst) != ASLEEP => {}
            _ => self.wake(),
        }
    }

    /// Blocks the calling thread, which is this one, until `done`. Meanwhile it calls `help` as
    /// long as that finds something to do.
    pub(crate) fn wait_until(&self, done: impl Fn() -> bool, help: impl FnMut() -> bool) {
        self.wait_looking(None, done, help);
    }

    /// The same, in which `help` is called again after `every` at the latest.
    pub(crate) fn wait_looking(
        &self,
        every: Option<Duration>,
        done: impl Fn() -> bool,
        mut help: impl FnMut() -> bool,
    ) {
        match self {
            Self::Thread(word) => {
                loop {
                    word.swap(QUIET, Ordering::AcqRel);
                    if done() {
                        break;
                    }
                    if !help() {
                        sleep(word, every, &done);
                    }
                }
                // A wake that was used up here may have been meant for a wait around this one.
                word.swap(WOKEN, Ordering::AcqRel);
            }
            Self::Worker(slots, index) => {
                if done() {
                    return;
                }
                let slot = slots.at(*index);
                // It is not idle, although it sleeps.
                slots.leave_idle_for_long(slot);
                loop {
                    slot.parker.begin_turn();
                    if done() {
                        break;
                    }
                    if !help() && !slot.run_nested() {
                        slot.parker.sleep_inside(every);
                    }
                }
                // A wake that was used up here may have been meant for the worker's other work.
                slot.notify();
            }
        }
    }
}

/// Sleeps until woken, or for `most`, unless something has come since the word was made quiet. May
/// end early if there is a limit.
fn sleep(word: &WaitWord, most: Option<Duration>, done: impl Fn() -> bool) {
    // `SeqCst` and a look after: see `wake_if_asleep`.
    let asleep = word.compare_exchange(QUIET, ASLEEP, Ordering::SeqCst, Ordering::Acquire);
    if asleep.is_err() || done() {
        return;
    }
    while word.load(Ordering::Acquire) == ASLEEP {
        word.wait(ASLEEP, most);
        if most.is_some() {
            break;
        }
    }
}

/// Opens when a number of things are done; the thread that made it waits for that.
pub(crate) struct Latch {
    /// What is not yet done. The last decrement acquires what the others released and is itself
    /// acquired by the waiter.
    pending: AtomicUsize,
    waiter: Waiter,
}

impl Latch {
    /// One for the calling thread.
    pub(crate) fn new(pending: usize) -> Arc<Self> {
        Arc::new(Self {
            pending: AtomicUsize::new(pending),
            waiter: Waiter::current(),
        })
    }

    /// One more thing is to be done. The latch is not open.
    pub(crate) fn add(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// One thing is done.
    pub(crate) fn done(&self) {
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.wake();
        }
    }

    /// Has the waiter look again.
    pub(crate) fn nudge(&self) {
        self.waiter.wake();
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    /// Blocks until all is done; calls `help` meanwhile.
    pub(crate) fn wait(&self, help: impl FnMut() -> bool) {
        self.waiter.wait_until(|| self.pending() == 0, help);
    }
}
