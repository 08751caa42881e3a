//! A seat: one worker's place in the pool, and the protocol by which its thread sleeps.
//!
//! # The state word
//!
//! | value | who sets it | what it means |
//! |---|---|---|
//! | `RUNNING` | the worker, before it looks for work | it will look at every source of work before it sleeps |
//! | `NOTIFIED` | a waker | something came since the worker last began to look |
//! | `PARKED` | the worker, from `RUNNING` only | it sleeps on this word (or is about to) |
//! | `POLLING` | the worker, from `RUNNING` only | it sleeps in the pool's poller (or is about to) |
//! | `RESTING` | the worker, from `RUNNING` only | it sleeps out a throttle's quantum on this word |
//!
//! Why no wake-up is lost: who brings work publishes it first and swaps `NOTIFIED` in after; the
//! worker swaps `RUNNING` in first and looks after. All are read-modify-writes of one word, so
//! they have one order. If the waker's swap comes before the worker's, the worker's look sees the
//! work. If it comes after, the worker's step from `RUNNING` to `PARKED` fails, or finds itself
//! undone by a waker that saw `PARKED` and pays the one system call that wakes it. What waits
//! for the quantum (`notify_later`) leaves `RESTING` as it is, by a read-modify-write, too: the
//! worker's swap at the quantum's end comes after it and sees the work.

use super::{
    panics::quietly,
    stats::{Counters, WorkerStats},
    trace::Spans,
};
use crate::{
    loops::share::Share,
    net::driver::{Driver, Found},
    sync::{AtomicBool, AtomicUsize, Mutex, Ordering, WaitWord, lock, thread::JoinHandle},
    task::Desk,
    time::{Clock, timers::Timers},
};
use crossbeam_utils::CachePadded;
use std::{collections::VecDeque, io, mem, sync::Arc, time::Duration};

const RUNNING: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;
const POLLING: u32 = 3;
const RESTING: u32 = 4;

/// Work that a seat's thread runs before all else, in the order it came.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// One worker's place: its state word, its urgent jobs, its thread and its counters.
pub(crate) struct Seat {
    pub(crate) index: usize,
    /// One of the values above. Every change is `AcqRel`: a waker's swap releases the work that
    /// it published, the worker's acquires it.
    state: CachePadded<WaitWord>,
    urgent: Mutex<VecDeque<Job>>,
    /// The length of `urgent`; lets the worker pass by without the lock.
    urgent_len: AtomicUsize,
    /// Whether a thread serves this seat. Changed under `thread`'s lock only.
    alive: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    pub(crate) timers: Arc<Timers>,
    /// The pool's, in which this worker may sleep.
    driver: Arc<Driver>,
    pub(crate) counters: CachePadded<Counters>,
    /// The seat's lines of the loop protocol.
    pub(crate) share: CachePadded<Share>,
    /// The other workers, the nearest first, as of when the thread sat down. Advice: for a loop of
    /// more seats, the rest comes by index.
    near: Mutex<Arc<[usize]>>,
    pub(crate) spans: Spans,
    /// The seat's share of the tasks.
    pub(crate) desk: Desk,
}

impl Seat {
    pub(crate) fn new(index: usize, clock: &Clock, driver: &Arc<Driver>) -> Self {
        Self {
            index,
            state: CachePadded::new(WaitWord::new(RUNNING)),
            urgent: Mutex::new(VecDeque::new()),
            urgent_len: AtomicUsize::new(0),
            alive: AtomicBool::new(false),
            thread: Mutex::new(None),
            timers: Arc::new(Timers::new(clock.clone())),
            driver: Arc::clone(driver),
            counters: CachePadded::new(Counters::default()),
            share: CachePadded::new(Share::new()),
            near: Mutex::default(),
            spans: Spans::default(),
            desk: Desk::new(),
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

    /// Tells the worker that there is something new; wakes it if it sleeps.
    pub(crate) fn notify(&self) {
        self.notify_asleep();
    }

    /// The same, and says whether it slept: if not, it may come at once or be in a long job.
    pub(crate) fn notify_asleep(&self) -> bool {
        self.wake_from(self.state.swap(NOTIFIED, Ordering::AcqRel))
    }

    /// Tells the worker that there is something new which may wait for the end of a throttle's
    /// quantum; wakes it if it sleeps for another reason. Says whether it sleeps or slept.
    pub(crate) fn notify_later(&self) -> bool {
        let told = |state| match state {
            RESTING => Some(RESTING),
            _ => Some(NOTIFIED),
        };
        let before = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, told);
        match before.unwrap_or_else(|state| state) {
            RESTING => true,
            state => self.wake_from(state),
        }
    }

    fn wake_from(&self, state: u32) -> bool {
        match state {
            PARKED | RESTING => self.state.wake_one(),
            POLLING => self.driver.notify(),
            _ => return false,
        }
        true
    }

    /// Begins a turn: from here on, what a waker brings is either seen by this turn or keeps
    /// the worker from sleeping after it.
    pub(crate) fn begin_turn(&self) {
        if self.notified() {
            self.state.swap(RUNNING, Ordering::AcqRel);
        }
    }

    /// Whether a waker has come since the turn began.
    pub(crate) fn notified(&self) -> bool {
        self.state.load(Ordering::Relaxed) == NOTIFIED
    }

    /// Sleeps until a waker comes or the time-out passes, unless one has come since the turn
    /// began. `last_look` is asked once between "this worker is known to sleep" and the sleep:
    /// it returns true when there is work after all.
    pub(crate) fn park(&self, timeout: Option<Duration>, last_look: impl FnOnce() -> bool) {
        self.sleep_as(PARKED, || {
            if !last_look() {
                self.state.wait(PARKED, timeout);
            }
        });
    }

    /// The same, in which only [`notify`](Self::notify) counts as a waker.
    pub(crate) fn rest(&self, timeout: Option<Duration>) {
        self.sleep_as(RESTING, || self.state.wait(RESTING, timeout));
    }

    /// The same as `park`, in the pool's poller: ready sockets end it, too. None if another
    /// worker is in there or there is none: then it has not slept.
    pub(crate) fn poll(&self, timeout: Option<Duration>) -> Option<Found> {
        let mut found = Some(Found::default());
        self.sleep_as(POLLING, || found = self.driver.wait(timeout));
        found
    }

    /// Sleeps by `sleep` while the state word tells so, unless a waker has come since the turn
    /// began.
    fn sleep_as(&self, state: u32, sleep: impl FnOnce()) {
        let told = self
            .state
            .compare_exchange(RUNNING, state, Ordering::AcqRel, Ordering::Acquire);
        if told.is_ok() {
            sleep();
        }
        self.state.swap(RUNNING, Ordering::AcqRel);
    }

    /// Whether an urgent job waits.
    pub(crate) fn has_urgent(&self) -> bool {
        self.urgent_len.load(Ordering::Relaxed) > 0
    }

    /// Appends an urgent job. The caller notifies after.
    pub(crate) fn push_urgent(&self, job: Job) {
        let mut urgent = lock(&self.urgent);
        urgent.push_back(job);
        self.urgent_len.store(urgent.len(), Ordering::SeqCst);
    }

    /// Runs the oldest urgent job; says whether there was one. Called by the seat's thread.
    pub(crate) fn run_urgent(&self) -> bool {
        let Some(job) = self.pop_urgent() else {
            return false;
        };
        self.counters.urgent.add(1);
        job();
        true
    }

    fn pop_urgent(&self) -> Option<Job> {
        if self.urgent_len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut urgent = lock(&self.urgent);
        let job = urgent.pop_front();
        self.urgent_len.store(urgent.len(), Ordering::SeqCst);
        job
    }

    /// Makes sure that a thread serves this seat; `start` is called, at most once, to make it. If
    /// it cannot, the urgent jobs are dropped, which nobody would run: who waits for one learns
    /// that.
    pub(crate) fn ensure_alive(
        &self,
        start: impl FnOnce() -> io::Result<JoinHandle<()>>,
    ) -> io::Result<()> {
        if self.alive.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut thread = lock(&self.thread);
        if self.alive.load(Ordering::SeqCst) {
            return Ok(());
        }
        let started = start().map(|handle| {
            *thread = Some(handle);
            self.alive.store(true, Ordering::SeqCst);
        });
        if started.is_err() {
            let jobs = mem::take(&mut *lock(&self.urgent));
            self.urgent_len.store(0, Ordering::SeqCst);
            drop(thread);
            jobs.into_iter().for_each(|job| quietly(|| drop(job)));
        }
        started
    }

    /// Called by the seat's own thread when it wants to end. True: nobody will count on it any
    /// more. False: work came meanwhile, go on.
    ///
    /// `SeqCst` on both sides: who pushes work and then reads `alive` as true is seen here, else
    /// it reads false and starts a new thread.
    pub(crate) fn retire(&self, idle: impl FnOnce() -> bool) -> bool {
        let _thread = lock(&self.thread);
        self.alive.store(false, Ordering::SeqCst);
        let ends = self.urgent_len.load(Ordering::SeqCst) == 0 && idle();
        self.alive.store(!ends, Ordering::SeqCst);
        ends
    }

    /// Whether the seat has a thread.
    pub(crate) fn started(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// What this seat has done so far.
    pub(crate) fn stats(&self) -> WorkerStats {
        self.counters.read(self.started())
    }

    /// The handle of the seat's thread, to join it.
    pub(crate) fn take_thread(&self) -> Option<JoinHandle<()>> {
        lock(&self.thread).take()
    }
}
