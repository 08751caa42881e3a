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
//! | `WAITING` | the worker, from `RUNNING` only | it sleeps on this word in the middle of somebody's code, which waits for others |
//!
//! Why no wake-up is lost: who brings work publishes it first and swaps `NOTIFIED` in after; the
//! worker swaps `RUNNING` in first and looks after. All are read-modify-writes of one word, so
//! they have one order. If the waker's swap comes before the worker's, the worker's look sees the
//! work. If it comes after, the worker's step from `RUNNING` to `PARKED` fails, or finds itself
//! undone by a waker that saw `PARKED` and pays the one system call that wakes it. What waits
//! for the quantum (`notify_later`) leaves `RESTING` as it is, by a read-modify-write, too: the
//! worker's swap at the quantum's end comes after it and sees the work.

use super::{
    stats::{Counters, WorkerStats},
    trace::Spans,
};
use crate::{
    loops::share::Share,
    net::driver::{Driver, Found},
    seat::life::SeatThread,
    sync::{AtomicBool, AtomicUsize, Mutex, Ordering, WaitWord, lock},
    task::Desk,
    time::{Clock, timers::Timers},
};
use crossbeam_utils::CachePadded;
use std::{collections::VecDeque, sync::Arc, time::Duration};

const RUNNING: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;
const POLLING: u32 = 3;
const RESTING: u32 = 4;
const WAITING: u32 = 5;

/// Work that a seat's thread runs before all else, in the order it came.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A job, and what there is to know of who asks for it.
struct Call {
    job: Job,
    /// Who waits for it may itself be waited for: it is a worker.
    nested: bool,
    /// Told to who asked, to take it back by.
    number: u64,
}

#[derive(Default)]
struct Calls {
    queue: VecDeque<Call>,
    /// How many of them are nested.
    nested: usize,
    numbers: u64,
}

/// One worker's place: its state word, its urgent jobs, its thread and its counters.
pub(crate) struct Seat {
    pub(crate) index: usize,
    /// One of the values above. Every change is `AcqRel`: a waker's swap releases the work that
    /// it published, the worker's acquires it.
    state: CachePadded<WaitWord>,
    calls: Mutex<Calls>,
    /// The length of the queue; lets the worker pass by without the lock. `SeqCst`, against its
    /// retirement.
    calls_len: AtomicUsize,
    pub(crate) thread: SeatThread,
    /// It has been called: `Idle::call`, and told. Stored before it is notified.
    called: AtomicBool,
    /// It is idle by `Idle`'s book. Its own thread's.
    idle: AtomicBool,
    /// It takes part in the pool's loop. Advice, for who calls the next one.
    looping: AtomicBool,
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

/// What a notified thread was at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    /// Asleep, with nothing to do.
    Asleep,
    /// Asleep in the middle of somebody's code.
    Waiting,
    /// Awake: it may look at once, or be in somebody's code for long.
    Awake,
}

impl Was {
    fn of(state: u32) -> Self {
        match state {
            PARKED | POLLING | RESTING => Was::Asleep,
            WAITING => Was::Waiting,
            _ => Was::Awake,
        }
    }
}

impl Seat {
    pub(crate) fn new(index: usize, clock: &Clock, driver: &Arc<Driver>) -> Self {
        Self {
            index,
            state: CachePadded::new(WaitWord::new(RUNNING)),
            calls: Mutex::default(),
            calls_len: AtomicUsize::new(0),
            thread: SeatThread::default(),
            called: AtomicBool::new(false),
            idle: AtomicBool::new(true),
            looping: AtomicBool::new(false),
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

    /// Tells the worker that there is something new, wakes it if it sleeps, and says what it was
    /// at.
    pub(crate) fn notify(&self) -> Was {
        self.wake_from(self.state.swap(NOTIFIED, Ordering::AcqRel))
    }

    /// The same for something that may wait for the end of a throttle's quantum.
    pub(crate) fn notify_later(&self) -> Was {
        let told = |state| match state {
            RESTING => Some(RESTING),
            _ => Some(NOTIFIED),
        };
        let before = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, told);
        match before.unwrap_or_else(|state| state) {
            RESTING => Was::Asleep,
            state => self.wake_from(state),
        }
    }

    fn wake_from(&self, state: u32) -> Was {
        match state {
            PARKED | RESTING | WAITING => self.state.wake_one(),
            POLLING => self.driver.notify(),
            _ => {}
        }
        Was::of(state)
    }

    /// Whether its thread sleeps with nothing to do, or has not started; a moment ago.
    pub(crate) fn sleeps(&self) -> bool {
        let state = self.state.load(Ordering::SeqCst);
        Was::of(state) == Was::Asleep || !self.thread.is_running()
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
    /// began.
    pub(crate) fn park(&self, timeout: Option<Duration>) {
        self.sleep_as(PARKED, || self.state.wait(PARKED, timeout));
    }

    /// The same, in which only [`notify`](Self::notify) counts as a waker.
    pub(crate) fn rest(&self, timeout: Option<Duration>) {
        self.sleep_as(RESTING, || self.state.wait(RESTING, timeout));
    }

    /// The same as `park`, in the middle of somebody's code.
    pub(crate) fn sleep_inside(&self, timeout: Option<Duration>) {
        self.sleep_as(WAITING, || self.state.wait(WAITING, timeout));
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

    /// Tells the worker that it has been called. The caller notifies it after.
    pub(crate) fn set_called(&self) {
        self.called.store(true, Ordering::SeqCst);
    }

    /// Whether it has been called and has not noticed: then its thread may not end.
    pub(crate) fn is_called(&self) -> bool {
        self.called.load(Ordering::SeqCst)
    }

    /// Whether it has been called since this was last asked.
    pub(crate) fn take_called(&self) -> bool {
        self.called.load(Ordering::Relaxed) && self.called.swap(false, Ordering::Acquire)
    }

    /// Whether it is idle by the book, as its own thread last wrote there.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
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
        self.idle.store(idle, Ordering::Relaxed);
    }

    /// Whether an urgent job waits.
    pub(crate) fn has_urgent(&self) -> bool {
        self.calls_len.load(Ordering::SeqCst) > 0
    }

    /// Appends an urgent job, and gives its number; `nested` says whether a worker waits for it.
    /// The caller notifies after.
    pub(crate) fn push_urgent(&self, job: Job, nested: bool) -> u64 {
        let mut calls = lock(&self.calls);
        calls.numbers += 1;
        let number = calls.numbers;
        calls.nested += usize::from(nested);
        calls.queue.push_back(Call {
            job,
            nested,
            number,
        });
        self.calls_len.store(calls.queue.len(), Ordering::SeqCst);
        number
    }

    /// Runs the oldest urgent job; says whether there was one. Called by the seat's thread.
    pub(crate) fn run_urgent(&self) -> bool {
        self.run_first(|_| true)
    }

    /// The same, of those that a worker waits for.
    pub(crate) fn run_nested(&self) -> bool {
        self.has_urgent() && lock(&self.calls).nested > 0 && self.run_first(|call| call.nested)
    }

    fn run_first(&self, fits: impl Fn(&Call) -> bool) -> bool {
        let Some(job) = self.take_first(fits) else {
            return false;
        };
        self.counters.urgent.add(1);
        job();
        true
    }

    /// Takes an urgent job back, unless it has begun.
    pub(crate) fn take_back(&self, number: u64) -> Option<Job> {
        self.take_first(|call| call.number == number)
    }

    fn take_first(&self, fits: impl Fn(&Call) -> bool) -> Option<Job> {
        if !self.has_urgent() {
            return None;
        }
        let mut calls = lock(&self.calls);
        let at = calls.queue.iter().position(fits)?;
        let call = calls.queue.remove(at)?;
        calls.nested -= usize::from(call.nested);
        self.calls_len.store(calls.queue.len(), Ordering::SeqCst);
        Some(call.job)
    }

    /// What this seat has done so far.
    pub(crate) fn stats(&self) -> WorkerStats {
        self.counters.read(self.thread.is_running())
    }
}
