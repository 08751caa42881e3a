//! What a pool's owner, its workers and its handles share.

use super::{
    Balance, Builder, Wait, current,
    seat::{Job, Seat},
    seating::{Offer, Seating},
    table::SeatTable,
    trace::Tracing,
    worker,
};
use crate::{
    loops::dispatch::Line,
    net::driver::Driver,
    sync::{AtomicBool, AtomicUsize, Ordering, thread},
    task::{self, Tasks},
};
use crossbeam_utils::CachePadded;
use std::{
    sync::{Arc, Weak},
    task::{Wake, Waker},
};

/// The pool itself. Threads and handles keep it alive; only its owner ends it.
pub(crate) struct Shared {
    /// Itself, for those who have only a reference.
    own: Weak<Shared>,
    pub(crate) name: String,
    pub(crate) wait: Wait,
    pub(crate) balance: Balance,
    pub(crate) seats: SeatTable,
    /// The sockets that the pool's tasks wait for.
    pub(crate) driver: Arc<Driver>,
    /// How many seats are in use: those below this index.
    workers: AtomicUsize,
    /// Away from what every loop reads.
    pub(crate) tasks: CachePadded<Tasks>,
    /// Set once, when the pool is dropped: no new work is taken.
    closing: AtomicBool,
    /// What loops are called by.
    pub(crate) line: Line,
    pub(crate) seating: Seating,
    /// How many sessions are under way.
    pub(crate) sessions: AtomicUsize,
    pub(crate) tracing: Tracing,
    /// How many threads can run at the same time.
    pub(crate) pus: usize,
}

impl Shared {
    pub(crate) fn new(settings: Builder, workers: usize, offer: Offer, own: Weak<Self>) -> Self {
        let Builder {
            name,
            wait,
            balance,
            clock,
            seed,
            ..
        } = settings;
        let driver = Arc::<Driver>::default();
        driver.set_alone(workers == 1);
        Self {
            own,
            name,
            wait,
            balance,
            seats: SeatTable::new(clock, Arc::clone(&driver)),
            driver,
            workers: AtomicUsize::new(workers),
            tasks: CachePadded::new(Tasks::new(workers, seed)),
            closing: AtomicBool::new(false),
            line: Line::new(),
            seating: offer.seating,
            sessions: AtomicUsize::new(0),
            tracing: Tracing::default(),
            pus: offer.pus,
        }
    }

    /// The pool, counted.
    #[cold]
    pub(crate) fn counted(&self) -> Arc<Self> {
        let own = self.own.upgrade();
        own.unwrap_or_else(|| unreachable!("who has a reference keeps the pool"))
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers.load(Ordering::SeqCst)
    }

    pub(crate) fn set_workers(self: &Arc<Self>, workers: usize) {
        let before = self.workers.swap(workers, Ordering::SeqCst);
        self.driver.set_alone(workers == 1);
        task::resize(self, workers);
        self.line.forget_threads();
        // All, not only those that go: others may sit elsewhere now.
        (0..before).for_each(|index| self.seats.seat(index).notify());
    }

    /// Whether the pool is being dropped.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Whether the thread of this seat should end once it has nothing left to do.
    pub(crate) fn wants_gone(&self, index: usize) -> bool {
        self.is_closing() || index >= self.workers()
    }

    /// The first loop or session of a pool seats its workers, unless the program has.
    pub(crate) fn seat_for_loops(&self) {
        self.seating.seat_for_loops(self.workers());
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

    /// The seat with this index.
    ///
    /// # Panics
    /// If the pool has no such worker.
    pub(crate) fn seat_in_use(&self, index: usize) -> &Seat {
        let workers = self.workers();
        assert!(
            index < workers,
            "worker index {index} out of range: the pool has {workers} workers"
        );
        self.seats.seat(index)
    }

    /// Starts the seat's thread unless it has one.
    ///
    /// # Panics
    /// If the system refuses a thread.
    pub(crate) fn ensure_started(self: &Arc<Self>, seat: &Seat) {
        if self.tasks.is_seeded() {
            return;
        }
        let index = seat.index;
        let started = seat.ensure_alive(|| {
            let shared = Arc::clone(self);
            task::enter(self);
            thread::Builder::new()
                .name(format!("{}-{index}", self.name))
                .spawn(move || worker::run(shared, index))
                .inspect_err(|_| task::leave(self))
        });
        if let Err(error) = started {
            panic!("cannot start worker {index} of pool {}: {error}", self.name);
        }
    }

    /// Gives a seat an urgent job and sees to it that a thread runs it.
    pub(crate) fn send(self: &Arc<Self>, seat: &Seat, job: Job) {
        if self.tasks.is_seeded() {
            // No thread but the caller's.
            return job();
        }
        seat.push_urgent(job);
        self.ensure_started(seat);
        seat.notify();
    }

    /// Ends the pool: every thread finishes what it was given and ends. Waits for them, unless
    /// called by one of them, which would wait for itself.
    pub(crate) fn close(self: &Arc<Self>) {
        self.closing.store(true, Ordering::SeqCst);
        task::cancel_all(self);
        for seat in self.seats.made() {
            seat.notify();
        }
        if current::index_in(self).is_some() {
            task::leave(self);
            return;
        }
        for thread in self.seats.made().filter_map(Seat::take_thread) {
            // A worker catches what its work throws, so an error here is a defect of the pool,
            // which the thread's own panic message has told already.
            let _ = thread.join();
        }
        task::leave(self);
    }
}

/// Wakes one seat of a pool that may be gone.
pub(crate) struct Rouse {
    shared: Weak<Shared>,
    index: usize,
}

impl Rouse {
    pub(crate) fn waker(shared: &Arc<Shared>, index: usize) -> Waker {
        let shared = Arc::downgrade(shared);
        Waker::from(Arc::new(Rouse { shared, index }))
    }
}

impl Wake for Rouse {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.shared.upgrade() {
            let seat = shared.seats.seat(self.index);
            if !shared.is_closing() {
                shared.ensure_started(seat);
            }
            seat.notify();
        }
    }
}
