//! How a thread waits for other threads in the middle of user code. Only the `_blocking` methods of
//! the channels wait in another way (`channel/blocking.rs`).
//!
//! A thread from outside sleeps on a word of its own. A worker of any pool sleeps on its worker's
//! state word, and runs the jobs that other workers need from it while it waits. Two workers that
//! wait for each other therefore both make progress, even across pools. Apart from these jobs, a
//! waiting thread runs only what the code that waits passes as `help`, for example jobs of the
//! scope that it waits for. It runs no tasks, because a task must not run inside the poll of
//! another. A worker also runs no jobs from outside threads, because they would pile up on its
//! stack.

use super::{current, slots::WorkerSlots};
use crate::sync::{AtomicUsize, Ordering, WaitWord, local, thread_local};
use std::sync::Arc;
use std::time::Duration;

/// A thread that waits, or is about to.
#[derive(Clone)]
pub(crate) enum Waiter {
    /// A thread that is not a worker. Its word records whether it has been woken.
    Thread(Arc<WaitWord>),
    /// The worker with this index.
    Worker(Arc<WorkerSlots>, usize),
}

thread_local! {
    /// Each thread creates its word only once, so that waiting allocates nothing. A late wake-up
    /// may end a later wait too early, which is harmless because each wait checks its condition
    /// again.
    static WORD: Arc<WaitWord> = Arc::new(WaitWord::new(QUIET));
}

/// The value of a waiting thread's word if no other thread has woken it since it last checked its
/// condition.
const QUIET: u32 = 0;
/// The value of a thread's word if the thread has been woken.
const WOKEN: u32 = 1;
/// The value of a thread's word if the thread sleeps, or is about to. The thread sets it from
/// `QUIET` only.
const ASLEEP: u32 = 2;

/// The maximum time for which a waiting thread sleeps before it looks for work again, if it looks
/// at all. A wait that takes long would otherwise cost thousands of wake-ups per second.
const LOOK_MAX: Duration = Duration::from_millis(1);

impl Waiter {
    /// Returns a waiter for the calling thread.
    pub(crate) fn current() -> Self {
        if let Some((slots, index)) = current::worker() {
            return Self::Worker(slots, index);
        }
        // A thread that is ending may have lost its thread-locals, and under loom all threads share
        // them. In both cases we create a word for this wait only.
        let kept = (!cfg!(creel_loom))
            .then(|| local(&WORD, Arc::clone))
            .flatten();
        Self::Thread(kept.unwrap_or_else(|| Arc::new(WaitWord::new(QUIET))))
    }

    /// Makes the thread check its condition again. The caller has published the change before.
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

    /// Makes the thread check its condition again, like [`wake`](Self::wake). If the thread is not
    /// a worker and does not sleep, this costs only a load.
    ///
    /// For this to be correct, the change must be published by a `SeqCst` read-modify-write, and
    /// the waiter's `done` must read it with `SeqCst`. Then either this method finds the thread
    /// asleep, or the thread checks once more before it sleeps and sees the change.
    #[inline]
    pub(crate) fn wake_if_asleep(&self) {
        match self {
            Self::Thread(word) if word.load(Ordering::SeqCst) != ASLEEP => {}
            _ => self.wake(),
        }
    }

    /// Blocks the calling thread, which must be the thread of this waiter, until `done` returns
    /// true. While it waits, it calls `help` as long as that finds something to do.
    pub(crate) fn wait_until(&self, done: impl Fn() -> bool, help: impl FnMut() -> bool) {
        self.wait_looking(None, done, help);
    }

    /// Blocks like [`wait_until`](Self::wait_until), but sleeps for at most `every` before it calls
    /// `help` again. As long as `help` finds nothing to do, each sleep may be twice as long as the
    /// one before, up to [`LOOK_MAX`], or up to `every` if that is longer.
    pub(crate) fn wait_looking(
        &self,
        mut every: Option<Duration>,
        done: impl Fn() -> bool,
        mut help: impl FnMut() -> bool,
    ) {
        let first = every;
        let longer = |every: Duration| (2 * every).min(LOOK_MAX).max(every);
        match self {
            Self::Thread(word) => {
                loop {
                    word.swap(QUIET, Ordering::AcqRel);
                    if done() {
                        break;
                    }
                    if help() {
                        every = first;
                    } else {
                        sleep(word, every, &done);
                        every = every.map(longer);
                    }
                }
                // We set the word again, because this wait may have used up a wake-up that was
                // meant for a wait around it on the same thread.
                word.swap(WOKEN, Ordering::AcqRel);
            }
            Self::Worker(slots, index) => {
                if done() {
                    return;
                }
                let slot = slots.at(*index);
                // The worker sleeps in this loop, but it must not count as idle, because it cannot
                // take other work.
                slots.leave_idle_for_long(slot);
                loop {
                    slot.parker.begin_turn();
                    if done() {
                        break;
                    }
                    if help() || slot.run_nested() {
                        every = first;
                    } else {
                        slot.parker.sleep_inside(every);
                        every = every.map(longer);
                    }
                }
                // We notify the worker again, because this wait may have used up a wake-up that was
                // meant for the worker's other work.
                slot.notify();
            }
        }
    }
}

/// Sleeps until woken, or for `most`, unless the thread has been woken since the word was set to
/// `QUIET`. If there is a limit, it may return early.
fn sleep(word: &WaitWord, most: Option<Duration>, done: impl Fn() -> bool) {
    // `wake_if_asleep` relies on this `SeqCst` exchange, which is followed by another check of the
    // condition. Either its load finds `ASLEEP`, or the check here sees the change.
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

/// A latch that opens when a number of jobs are done. The thread that created it waits for that.
pub(crate) struct Latch {
    /// The number of jobs that are not done. The decrements are `AcqRel` and synchronize with the
    /// waiter's `Acquire` load of 0. Therefore everything that the jobs did happens before the
    /// waiter returns.
    pending: AtomicUsize,
    waiter: Waiter,
}

impl Latch {
    /// Creates a latch for the calling thread.
    pub(crate) fn new(pending: usize) -> Arc<Self> {
        Arc::new(Self {
            pending: AtomicUsize::new(pending),
            waiter: Waiter::current(),
        })
    }

    /// Adds one more job. If the latch may be open already, the waiter may return because it sees
    /// the open latch. The caller must then ensure in another way that the waiter does not return
    /// before this call.
    pub(crate) fn add(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that one job is done.
    pub(crate) fn done(&self) {
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.wake();
        }
    }

    /// Makes the waiter check again.
    pub(crate) fn nudge(&self) {
        self.waiter.wake();
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    /// Blocks until all jobs are done, and calls `help` while it waits.
    pub(crate) fn wait(&self, help: impl FnMut() -> bool) {
        self.wait_also(|| true, help);
    }

    /// Blocks until `also` returns true and all jobs are done, and calls `help` while it waits. It
    /// checks `also` first.
    pub(crate) fn wait_also(&self, also: impl Fn() -> bool, help: impl FnMut() -> bool) {
        let done = || also() && self.pending() == 0;
        self.waiter.wait_until(done, help);
    }
}
