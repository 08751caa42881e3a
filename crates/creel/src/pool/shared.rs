//! What a pool's owner, its workers and its handles share: the seats, and what is built on them.

use super::{
    Balance, BuildError, Builder, PoolStats, Wait, WorkerStats,
    observe::Window,
    seating::{Offer, Seating},
    watch::WATCH_EVERY,
    worker,
};
use crate::{
    loops::protocol::Protocol,
    net::driver::Driver,
    seat::{
        current,
        parker::Poller,
        seat::Seat,
        seats::{Seats, Work},
        table::Table,
        wakers::PollerWaker,
    },
    sync::{AtomicUsize, HAS_THREADS, Instant, Mutex, lock, thread},
    task::{Behind, Tasks, is_inside},
    time::timers::Timers,
};
use std::{
    panic::{RefUnwindSafe, UnwindSafe},
    sync::{Arc, Weak},
    time::Duration,
};

/// The pool itself. Threads and handles keep it alive; only its owner ends it.
pub(crate) struct Shared {
    pub(crate) wait: Wait,
    pub(crate) balance: Balance,
    pub(crate) seats: Arc<Seats>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) loops: Protocol,
    /// By seat.
    pub(crate) timers: Table<Arc<Timers>>,
    /// The sockets that the pool's tasks wait for.
    pub(crate) driver: Arc<Driver>,
    /// Held while the number of workers changes, which takes several steps.
    resizing: Mutex<()>,
    pub(crate) seating: Seating,
    /// By which it is seen from outside.
    pub(super) window: Mutex<Option<Window>>,
    /// Its workers that wait in other pools.
    #[cfg(feature = "tasks")]
    pub(super) absent: super::away::Absent,
    /// How many sessions are under way.
    pub(crate) sessions: AtomicUsize,
    /// How many threads can run at the same time.
    pub(crate) pus: usize,
}

// The user's code runs under `catch_unwind` or leaves the pool's own data whole.
impl UnwindSafe for Shared {}
impl RefUnwindSafe for Shared {}

impl Shared {
    pub(crate) fn new(settings: Builder, workers: usize, offer: Offer) -> Arc<Self> {
        let Builder {
            name,
            wait,
            balance,
            clock,
            seed,
            stack_size,
            ..
        } = settings;
        let driver = Arc::<Driver>::default();
        driver.set_alone(workers == 1);
        let poller: Arc<dyn Poller> = driver.clone();
        let threadless = seed.is_some() || !HAS_THREADS;
        let seats = Seats::new(name, workers, threadless, stack_size, poller);
        driver.set_rouse(PollerWaker::waker(&seats));
        let shared = Arc::new(Self {
            wait,
            balance,
            tasks: Tasks::new(Arc::clone(&seats), seed),
            loops: Protocol::new(Arc::clone(&seats)),
            timers: Table::new(move |_| Arc::new(Timers::new(clock.clone()))),
            driver,
            resizing: Mutex::new(()),
            seating: offer.seating,
            window: Mutex::default(),
            #[cfg(feature = "tasks")]
            absent: Default::default(),
            sessions: AtomicUsize::new(0),
            pus: offer.pus,
            seats,
        });
        let work: Weak<dyn Work> = Arc::<Self>::downgrade(&shared);
        shared.seats.set_work(work);
        shared
    }

    /// Changes the number of workers, one caller after the other.
    pub(crate) fn resize(&self, workers: usize) -> Result<(), BuildError> {
        let _resizing = lock(&self.resizing);
        self.seating.reseat(workers)?;
        let before = self.seats.resize(workers);
        self.driver.set_alone(workers == 1);
        self.loops.forget_threads();
        self.seats.rouse(before);
        Ok(())
    }

    /// The first loop or session of a pool seats its workers, unless the program has.
    pub(crate) fn seat_for_loops(&self) {
        self.seating.seat_for_loops(self.seats.workers());
    }

    /// What each worker has done so far and where it sits.
    pub(crate) fn stats(&self) -> PoolStats {
        let stats = |index| WorkerStats {
            cpus: self.seating.pus_of(index),
            ..self.seats.at(index).stats()
        };
        let workers = self.seats.workers();
        let retired = self.seats.made().filter(|s| s.index >= workers);
        PoolStats {
            workers: (0..workers).map(stats).collect(),
            retiring: retired
                .filter(|s| s.thread.is_running())
                .map(|s| s.index)
                .collect(),
            tasks: self.tasks.stats(),
        }
    }

    /// How long a loop's caller spins for a worker that is still at it before it sleeps.
    pub(crate) fn join_spin_ns(&self) -> u64 {
        match self.wait {
            Wait::Park | Wait::Throttle(_) => 1_000,
            Wait::Spin(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Wait::Adaptive if self.pus < 2 => 0,
            Wait::Adaptive => 50_000,
        }
    }

    /// Whether worker `index`, which is not wanted any more, leaves nobody waiting: for what this
    /// pool still has to do there is another worker with a thread, or one can be had.
    pub(super) fn is_served_without(&self, index: usize) -> bool {
        let seats = &self.seats;
        if seats.is_closing() || self.driver.is_empty() && !self.tasks.any_outside() {
            return true;
        }
        let in_use = || (0..seats.workers()).filter(|other| *other != index);
        let runs = |other: usize| seats.at(other).thread.is_running();
        let starts = |other: usize| seats.ensure_started(seats.at(other)).is_ok();
        in_use().any(runs) || in_use().any(starts)
    }

    /// Ends the pool, which is closing: every thread finishes what it was given and ends. Waits for
    /// them, unless called by one of them, inside its `block_on`, or in the middle of one of its
    /// verbs, which would wait for itself: then a thread made for it waits. The same thread waits
    /// once the caller has waited for `within`.
    pub(crate) fn close(self: &Arc<Self>, within: Option<Duration>) {
        let seats = &self.seats;
        self.tasks.cancel_all();
        for seat in seats.made() {
            seat.notify();
        }
        let owned = current::index_in(seats).is_some() || current::is_amid(seats);
        if !owned && !is_inside(&self.tasks) && self.wait_for_the_end(within) {
            return;
        }
        let shared = Arc::clone(self);
        let waits = thread::Builder::new().spawn(move || shared.wait_for_the_end(None));
        if waits.is_err() {
            // The last thread to leave ends the tasks; what lies behind one that blocks waits.
            seats.leave();
        }
    }

    /// Waits until all have left, by the owner or in its stead, and ends the tasks. Returns false
    /// if that takes longer than `within`; then the caller is still a user of the pool.
    fn wait_for_the_end(&self, within: Option<Duration>) -> bool {
        let seats = &self.seats;
        // A time beyond the clock's range is no limit.
        let until = within.and_then(|within| Instant::now().checked_add(within));
        // Workers whose code blocks them may wait for what lies behind them.
        let mut last = Behind::default();
        let look = || {
            self.tasks.run_behind(&mut last, true);
            // The workers end, but a caller of `block_on` may still wait.
            #[cfg(feature = "tasks")]
            super::block_on::serve_callers(self);
        };
        if !seats.life.wait_for_others(WATCH_EVERY, until, look) {
            return false;
        }
        for thread in seats.made().filter_map(|seat| seat.thread.take()) {
            // A worker catches what its work throws, so an error here is a defect of the pool,
            // which the thread's own panic message has told already.
            let _ = thread.join();
        }
        seats.leave();
        self.let_go();
        true
    }

    /// Gives back what the system and a driven clock keep for the pool, which has no thread any
    /// more.
    fn let_go(&self) {
        self.driver.end();
        self.timers.made().for_each(|timers| timers.end());
    }
}

impl Work for Shared {
    fn serve(self: Arc<Self>, seat: usize) {
        worker::run(&self, seat);
    }

    fn is_ready(&self) -> bool {
        self.tasks.any_outside() || self.loops.offers.left() > 0
    }

    fn hides(&self, seat: usize) -> bool {
        self.timers.at(seat).is_used() || !self.driver.is_empty()
    }

    fn has_share(&self, seat: &Seat) -> bool {
        self.loops.has_part(seat)
    }

    fn take_share(&self, seat: &Seat) {
        self.loops.take_part(seat);
    }

    fn end(&self) {
        self.tasks.end();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Of a pool that ended on one of its own workers, where no thread could be had to wait.
        self.let_go();
    }
}
