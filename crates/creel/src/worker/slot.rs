//! A worker: one worker's place in the pool.

use super::{
    inbox::Inbox,
    life::WorkerThread,
    parker::{Parker, Poller, PrevState},
    stats::{Counters, WorkerStats},
    trace::Spans,
};
use crate::sync::{AtomicBool, Mutex, Ordering, lock, loom_fence};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// One worker's place: its state word, its urgent jobs, its thread and its counters.
pub(crate) struct WorkerSlot {
    pub(crate) index: usize,
    pub(crate) parker: CachePadded<Parker>,
    pub(crate) inbox: Inbox,
    pub(crate) thread: WorkerThread,
    /// It has been called: `Idle::call`, and told. Stored before it is notified.
    notified: AtomicBool,
    /// It is idle by `Idle`'s book. Its own thread's. `SeqCst`: a worker stores that it leaves
    /// idleness before it looks for a loop that has been called; a loop's caller looks here after it
    /// has published the loop. So one of the two sees the other.
    idle: AtomicBool,
    /// It takes part in the pool's loop. Advice, for who calls the next one.
    looping: AtomicBool,
    pub(crate) counters: CachePadded<Counters>,
    /// The other workers, the nearest first, as of when the thread sat down. Advice: for a loop of
    /// more workers, the rest comes by index.
    near: Mutex<Arc<[usize]>>,
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
            idle: AtomicBool::new(true),
            looping: AtomicBool::new(false),
            counters: CachePadded::new(Counters::default()),
            near: Mutex::default(),
            spans: Spans::default(),
        }
    }

    /// The other workers as they are near to this one now.
    pub(crate) fn set_near(&self, others: Arc<[usize]>) {
        *lock(&self.near) = others;
    }

    /// The other workers that are known, the nearest first.
    pub(crate) fn near(&self) -> Arc<[usize]> {
        Arc::clone(&lock(&self.near))
    }

    /// Tells the worker that there is something new, wakes it if it sleeps, and says what it was
    /// at.
    pub(crate) fn notify(&self) -> PrevState {
        self.parker.notify()
    }

    /// Whether its thread sleeps with nothing to do, or has not started; a moment ago.
    pub(crate) fn sleeps(&self) -> bool {
        self.parker.sleeps() || !self.thread.is_running()
    }

    /// Tells the worker that it has been called. The caller notifies it after.
    pub(crate) fn set_notified(&self) {
        self.notified.store(true, Ordering::SeqCst);
    }

    /// Whether it has been called and has not noticed: then its thread may not end.
    pub(crate) fn is_notified(&self) -> bool {
        self.notified.load(Ordering::SeqCst)
    }

    /// Whether it has been called since this was last asked.
    pub(crate) fn take_notified(&self) -> bool {
        self.notified.load(Ordering::Relaxed) && self.notified.swap(false, Ordering::Acquire)
    }

    /// Whether it is idle by the book, as its own thread last wrote there.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::SeqCst)
    }

    /// Whether it is in somebody's code, but for a share of the pool's loop: it will not come at
    /// once for the next one.
    pub(crate) fn is_elsewhere(&self) -> bool {
        !self.is_idle() && !self.looping.load(Ordering::Relaxed)
    }

    /// It takes part in a loop, and may not idle by the book.
    pub(crate) fn set_looping(&self, looping: bool) {
        self.looping.store(looping, Ordering::Relaxed);
    }

    /// Its own thread has written that.
    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::SeqCst);
        loom_fence();
    }

    /// Runs the oldest urgent job; says whether there was one. Called by the worker's thread.
    pub(crate) fn run_inbox(&self) -> bool {
        self.inbox.take().map(|job| self.run(job)).is_some()
    }

    /// The same, of those that a worker waits for.
    pub(crate) fn run_nested(&self) -> bool {
        self.inbox.take_nested().map(|job| self.run(job)).is_some()
    }

    fn run(&self, job: super::inbox::Job) {
        self.counters.inbox.add(1);
        job();
    }

    /// What this worker has done so far.
    pub(crate) fn stats(&self) -> WorkerStats {
        self.counters.read(self.thread.is_running())
    }
}
