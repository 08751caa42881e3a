//! A worker's slot, which is the worker's place in the pool.
//!
//! A slot contains what other threads need to know about a worker: its state word, its inbox, its
//! thread, its counters, and whether it is idle. It exists even while the worker has no thread, and
//! it never moves (`table.rs`).

use super::{
    inbox::Inbox,
    life::WorkerThread,
    parker::{Parker, Poller, PrevState},
    stats::{Counters, WorkerStats},
    trace::Spans,
};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock, loom_fence, now_ns};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// A worker's slot: its state word, its inbox, its thread and its counters.
pub(crate) struct WorkerSlot {
    pub(crate) index: usize,
    pub(crate) parker: CachePadded<Parker>,
    pub(crate) inbox: Inbox,
    pub(crate) thread: WorkerThread,
    /// Whether the worker has been notified with `Idle::notify_one`. The notifying thread stores it
    /// before it unparks the worker.
    notified: AtomicBool,
    /// Whether the worker is idle according to `Idle`. Its own thread writes it. A worker stores
    /// that it stops being idle before it checks for a new loop. A loop's caller reads the flag
    /// after it has published the loop. These two stores and two loads are `SeqCst`, so the worker
    /// sees the loop or the caller sees the flag. Otherwise, the caller could wait for a worker
    /// that has begun other code.
    idle: AtomicBool,
    /// Whether the worker has left the idle list although it only takes part in the pool's loop.
    /// `is_elsewhere` needs this to distinguish such a worker from one that runs other code. It is
    /// only a hint for the caller of the next loop.
    looping: AtomicBool,
    pub(crate) counters: CachePadded<Counters>,
    /// The other workers. They are ordered by their distance at the time when the thread was last
    /// placed, and the nearest one is first. The list is only a hint. If a loop has more workers
    /// than the list, the remaining workers follow in the order of their indices.
    near: Mutex<Arc<[usize]>>,
    /// The time at which the worker was woken with `Idle::notify_one`, or 0. The worker measures
    /// from it how long a wake-up takes. It is only a hint.
    woken_ns: AtomicU64,
    pub(crate) spans: Spans,
}

impl WorkerSlot {
    pub(crate) fn new(index: usize, poller: Arc<dyn Poller>) -> Self {
        Self {
            index,
            parker: CachePadded::new(Parker::new(poller)),
            inbox: Inbox::default(),
            thread: WorkerThread::default(),
            notified: AtomicBool::new(false),
            woken_ns: AtomicU64::new(0),
            idle: AtomicBool::new(true),
            looping: AtomicBool::new(false),
            counters: CachePadded::new(Counters::default()),
            near: Mutex::default(),
            spans: Spans::default(),
        }
    }

    /// Sets the list of the other workers. The nearest one must be first.
    pub(crate) fn set_near(&self, others: Arc<[usize]>) {
        *lock(&self.near) = others;
    }

    /// Returns the list of [`set_near`](Self::set_near), which is empty at first.
    pub(crate) fn near(&self) -> Arc<[usize]> {
        Arc::clone(&lock(&self.near))
    }

    /// Makes the worker check for work, and wakes it if it sleeps. Returns the previous state of
    /// its thread.
    pub(crate) fn notify(&self) -> PrevState {
        self.parker.notify()
    }

    /// Returns whether the worker's thread sleeps with nothing to do, or the worker has no thread.
    /// The answer may be out of date.
    pub(crate) fn sleeps(&self) -> bool {
        self.parker.sleeps() || !self.thread.is_running()
    }

    /// Records that the worker has been notified. The caller unparks it afterwards.
    pub(crate) fn set_notified(&self) {
        self.notified.store(true, Ordering::SeqCst);
    }

    /// Wakes the worker like [`notify`](Self::notify), and records when, so that the worker can
    /// measure how long the wake-up took.
    pub(crate) fn wake(&self) -> PrevState {
        self.woken_ns.store(now_ns(), Ordering::Relaxed);
        let was = self.notify();
        if was != PrevState::Asleep {
            self.woken_ns.store(0, Ordering::Relaxed);
        }
        was
    }

    /// Returns the time of the last [`wake`](Self::wake) that has ended a sleep, unless it was
    /// returned before.
    pub(crate) fn take_woken_ns(&self) -> Option<u64> {
        match self.woken_ns.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(self.woken_ns.swap(0, Ordering::Relaxed)).filter(|ns| *ns > 0),
        }
    }

    /// Returns whether the worker has been notified and has not seen it yet. Its thread must not
    /// end in that case.
    pub(crate) fn is_notified(&self) -> bool {
        self.notified.load(Ordering::SeqCst)
    }

    /// Returns whether the worker has been notified since the last call.
    pub(crate) fn take_notified(&self) -> bool {
        self.notified.load(Ordering::Relaxed) && self.notified.swap(false, Ordering::Acquire)
    }

    /// Returns whether the worker is idle, as its own thread last recorded it.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::SeqCst)
    }

    /// Returns whether the worker runs user code other than a share of the pool's loop. If so, it
    /// will not join the next loop at once.
    pub(crate) fn is_elsewhere(&self) -> bool {
        !self.is_idle() && !self.looping.load(Ordering::Relaxed)
    }

    /// Records whether the worker has left the idle list although it only takes part in the pool's
    /// loop.
    pub(crate) fn set_looping(&self, looping: bool) {
        self.looping.store(looping, Ordering::Relaxed);
    }

    /// Records whether the worker is idle. Its own thread calls this.
    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::SeqCst);
        loom_fence();
    }

    /// Runs the oldest inbox job, and returns whether there was one. The worker's thread calls
    /// this.
    pub(crate) fn run_inbox(&self) -> bool {
        self.inbox.take().map(|job| self.run(job)).is_some()
    }

    /// Runs the oldest inbox job that another worker has sent, and returns whether there was one.
    pub(crate) fn run_nested(&self) -> bool {
        self.inbox.take_nested().map(|job| self.run(job)).is_some()
    }

    fn run(&self, job: super::inbox::Job) {
        self.counters.inbox.add(1);
        job();
    }

    /// Returns the statistics of this worker so far.
    pub(crate) fn stats(&self) -> WorkerStats {
        self.counters.read(self.thread.is_running())
    }
}
