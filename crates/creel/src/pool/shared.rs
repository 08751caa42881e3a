//! What a pool's owner, its workers and its handles share.

use super::{
    Balance, Builder, Wait, current,
    seat::{Job, Seat, Was},
    seating::{Offer, Seating},
    trace::Tracing,
    watch::WATCH_EVERY,
    worker,
};
use crate::{
    loops::{dispatch::Line, offers::Offers},
    net::driver::Driver,
    seat::{
        idle::{Appointed, Idle},
        life::Life,
        table::Table,
    },
    sync::{AtomicUsize, Mutex, Ordering, lock, thread},
    task::{self, Tasks},
};
use crossbeam_utils::CachePadded;
use std::{
    io,
    sync::{Arc, Weak},
    task::{Wake, Waker},
};

/// The pool itself. Threads and handles keep it alive; only its owner ends it.
pub(crate) struct Shared {
    /// Itself, for those who have only a reference.
    own: Weak<Shared>,
    /// The process that made it, and has its threads.
    process: u32,
    pub(crate) name: String,
    pub(crate) wait: Wait,
    pub(crate) balance: Balance,
    pub(crate) seats: Table<Seat>,
    pub(crate) idle: CachePadded<Idle>,
    pub(crate) life: Life,
    /// The sockets that the pool's tasks wait for.
    pub(crate) driver: Arc<Driver>,
    /// How many seats are in use: those below this index.
    workers: AtomicUsize,
    /// Held while that changes, which takes several steps.
    resizing: Mutex<()>,
    /// Away from what every loop reads.
    pub(crate) tasks: CachePadded<Tasks>,
    /// What loops are called by.
    pub(crate) line: Line,
    pub(crate) offers: CachePadded<Offers>,
    pub(crate) seating: Seating,
    /// How many sessions are under way.
    pub(crate) sessions: AtomicUsize,
    pub(crate) tracing: Tracing,
    /// How many threads can run at the same time.
    pub(crate) pus: usize,
}

/// How a called worker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Now,
    /// Under a throttle, at the end of the quantum.
    Later,
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
        let seats_driver = Arc::clone(&driver);
        Self {
            own,
            process: std::process::id(),
            name,
            wait,
            balance,
            seats: Table::new(move |index| Seat::new(index, &clock, &seats_driver)),
            idle: CachePadded::new(Idle::new(workers)),
            life: Life::new(),
            driver,
            workers: AtomicUsize::new(workers),
            resizing: Mutex::new(()),
            tasks: CachePadded::new(Tasks::new(seed)),
            line: Line::new(),
            offers: CachePadded::new(Offers::new()),
            seating: offer.seating,
            sessions: AtomicUsize::new(0),
            tracing: Tracing::default(),
            pus: offer.pus,
        }
    }

    /// Whether this process was forked from the one that made the pool.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
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

    /// Changes the number of workers, one caller after the other.
    pub(crate) fn resize(self: &Arc<Self>, workers: usize) -> Result<(), super::BuildError> {
        let _resizing = lock(&self.resizing);
        self.seating.reseat(workers)?;
        let before = self.workers.swap(workers, Ordering::SeqCst);
        self.driver.set_alone(workers == 1);
        self.idle.resize(workers);
        self.line.forget_threads();
        // All, not only those that go: others may sit elsewhere now.
        (0..before).for_each(|index| {
            self.seats.at(index).notify();
        });
        // What waits for a worker may have one now.
        self.see_to_a_watch();
        self.call_if_work();
        Ok(())
    }

    /// Whether the pool is being dropped.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.life.is_closing()
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
        self.seats.at(index)
    }

    /// Starts the seat's thread unless it has one.
    ///
    /// # Errors
    /// If the system refuses a thread, or the pool is closing.
    pub(crate) fn ensure_started(self: &Arc<Self>, seat: &Seat) -> io::Result<()> {
        if self.tasks.is_seeded() {
            return Ok(());
        }
        let index = seat.index;
        seat.thread.ensure(|| {
            if !self.life.enter() {
                return Err(io::Error::other("the pool is being dropped"));
            }
            let shared = Arc::clone(self);
            thread::Builder::new()
                .name(format!("{}-{index}", self.name.replace('\0', "")))
                .spawn(move || worker::run(shared, index))
                .inspect_err(|_| self.leave())
        })
    }

    /// One user less; the last one ends the tasks.
    pub(crate) fn leave(self: &Arc<Self>) {
        if self.life.leave() {
            task::end(self);
        }
    }

    /// Gives a seat an urgent job and sees to it that a thread runs it.
    ///
    /// # Panics
    /// If the seat has no thread and the system refuses one. The job has been dropped then.
    pub(crate) fn send(self: &Arc<Self>, seat: &Seat, job: Job) {
        if self.tasks.is_seeded() {
            // No thread but the caller's.
            return job();
        }
        let number = seat.push_urgent(job, current::may_be_waited_for());
        if let Err(error) = self.ensure_started(seat)
            && let Some(job) = seat.take_back(number)
        {
            drop(job);
            self.panic_refused(seat.index, &error);
        }
        seat.notify();
    }

    /// Tells that the system refuses a thread.
    pub(crate) fn panic_refused(&self, index: usize, error: &io::Error) -> ! {
        panic!("cannot start worker {index} of pool {}: {error}", self.name);
    }

    /// Ends the pool: every thread finishes what it was given and ends. Waits for them, unless
    /// called by one of them, which would wait for itself.
    pub(crate) fn close(self: &Arc<Self>) {
        self.life.close();
        task::cancel_all(self);
        for seat in self.seats.made() {
            seat.notify();
        }
        if current::index_in(self).is_none() {
            // Workers whose code blocks them may wait for what lies behind them.
            let mut last = task::Behind::default();
            self.life
                .wait_for_others(WATCH_EVERY, || task::cancel_behind(self, &mut last));
            for thread in self.seats.made().filter_map(|seat| seat.thread.take()) {
                // A worker catches what its work throws, so an error here is a defect of the
                // pool, which the thread's own panic message has told already.
                let _ = thread.join();
            }
            self.leave();
            self.let_go();
        } else {
            self.leave();
        }
    }

    /// Has one of the idle come for work that any worker may take, which has been published.
    /// `first`: a seat below it is not called.
    ///
    /// # Errors
    /// If the system refuses a thread and the pool has none.
    pub(crate) fn call(self: &Arc<Self>, first: usize, when: When) -> io::Result<()> {
        // While the pool ends, its threads come by themselves and none is started.
        if self.is_closing() || self.tasks.is_seeded() {
            return Ok(());
        }
        if !self.idle.any_listed() {
            // All work, but one who idles may have to run the tasks of one who is stood in for.
            self.see_to_a_watch();
            return Ok(());
        }
        while self.idle.begin_search() {
            if let Some(index) = self.idle.call(first) {
                return self.tell(index, first, when);
            }
            self.idle.end_search();
            // Who published something meanwhile has called nobody, because of this search.
            if first > 0 || !self.has_work() || !self.idle.any_listed() {
                break;
            }
        }
        self.see_to_a_watch();
        Ok(())
    }

    /// Tells a seat that it has been called. The search is its own from here on.
    fn tell(self: &Arc<Self>, index: usize, first: usize, when: When) -> io::Result<()> {
        let seat = self.seats.at(index);
        seat.set_called();
        let Err(error) = self.ensure_started(seat) else {
            let was = match when {
                When::Now => seat.notify(),
                When::Later => seat.notify_later(),
            };
            if was != Was::Asleep {
                // It spins, or is in a loop and will not come for a while.
                self.see_to_a_watch();
            }
            return Ok(());
        };
        seat.take_called();
        self.idle.uncall(index);
        self.idle.end_search();
        match self.running_idle(first) {
            // It looks at all sources before it sleeps again, as if it had been called.
            Some(other) => {
                self.seats.at(other).notify();
                Ok(())
            }
            None if self.seats.made().any(|seat| seat.thread.is_running()) => Ok(()),
            None => Err(error),
        }
    }

    /// The seat, from `first` on, of a thread that sleeps with nothing to do.
    fn running_idle(&self, first: usize) -> Option<usize> {
        let seats = (first..self.workers()).filter(|index| {
            let seat = self.seats.at(*index);
            seat.thread.is_running() && seat.sleeps()
        });
        seats.min()
    }

    /// Whether there is work that any worker may take. What a worker publishes before it looks for
    /// the idle is seen by one that has said that it is idle.
    pub(crate) fn has_work(&self) -> bool {
        self.tasks.outside.len() > 0 || self.offers.left() > 0
    }

    /// The same as [`call`](Self::call) if there is work, by one who has none to answer for.
    pub(crate) fn call_if_work(self: &Arc<Self>) {
        if self.has_work() {
            // Who cannot start a thread now leaves it to the next who tries.
            let _ = self.call(0, When::Now);
        }
    }

    /// Sees to it that one of the idle watches, if somebody works.
    #[inline]
    pub(crate) fn see_to_a_watch(&self) {
        if self.idle.wants_a_watch() {
            self.appoint();
        }
    }

    #[cold]
    fn appoint(&self) {
        if self.is_closing() || self.tasks.is_seeded() {
            return;
        }
        loop {
            match self.idle.appoint(|index| self.seats.at(index).sleeps()) {
                Appointed::Nobody => return,
                Appointed::Seat(index) => {
                    let seat = self.seats.at(index);
                    let started = self.counted().ensure_started(seat);
                    if started.is_ok() && seat.notify() == Was::Asleep {
                        return;
                    }
                    // One that has just started looks whether it is the watch before it sleeps.
                    let starts = started.is_ok() && seat.is_idle();
                    if starts && self.idle.is_watch(index) {
                        return;
                    }
                    self.idle.unappoint(index, started.is_err());
                }
                Appointed::Spinners => {
                    let seats = (0..self.workers()).map(|index| self.seats.at(index));
                    for seat in seats.filter(|seat| seat.is_idle()) {
                        seat.notify();
                    }
                    return;
                }
            }
        }
    }

    /// Called by the seat's own thread before it runs anybody's code: it does not idle any more.
    /// True: it had been called, and the search is its own.
    #[must_use]
    pub(crate) fn leave_idle(&self, seat: &Seat) -> bool {
        if !seat.is_idle() {
            return false;
        }
        seat.set_idle(false);
        let left = self.idle.leave(seat.index);
        seat.take_called();
        if left.watched || self.hides(seat) {
            self.see_to_a_watch();
        }
        left.called
    }

    /// The same for code that is no task, and not what it was called for: the next one is called.
    pub(crate) fn leave_idle_for_long(self: &Arc<Self>, seat: &Seat) {
        if self.leave_idle(seat) {
            self.end_search();
        }
    }

    /// Called by the seat's own thread when it has nothing more to do: it looks for work once more
    /// after this.
    pub(crate) fn enter_idle(&self, seat: &Seat) {
        if !seat.is_idle() {
            seat.set_idle(true);
            self.idle.enter(seat.index);
        }
    }

    /// Whether something that only this thread looks at may become ready while it is in somebody's
    /// code.
    pub(crate) fn hides(&self, seat: &Seat) -> bool {
        seat.timers.is_used() || !self.driver.is_empty()
    }

    /// The search is over; if there is still work, the next one is called. Who published some
    /// during the search has called nobody.
    pub(crate) fn end_search(&self) {
        self.idle.end_search();
        if self.has_work() {
            self.counted().call_if_work();
        }
    }

    /// Gives back what the system and a driven clock keep for the pool, which has no thread any
    /// more.
    fn let_go(&self) {
        self.driver.end();
        self.seats.made().for_each(|seat| seat.timers.end());
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Of a pool that ended on one of its own workers, which nobody waited for.
        self.let_go();
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
    /// # Panics
    ///
    /// If the seat has no thread and the system refuses one.
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.shared.upgrade() {
            let seat = shared.seats.at(self.index);
            if let Err(error) = shared.ensure_started(seat)
                && !shared.is_closing()
            {
                shared.panic_refused(self.index, &error);
            }
            seat.notify();
            // It may be in somebody's code that it began when it had nothing to hide.
            shared.see_to_a_watch();
        }
    }
}

/// Has a worker of a pool, which may be gone, look after its sockets: one that sleeps elsewhere.
pub(crate) struct Attend(Weak<Shared>);

impl Attend {
    pub(crate) fn waker(shared: &Arc<Shared>) -> Waker {
        Waker::from(Arc::new(Attend(Arc::downgrade(shared))))
    }
}

impl Wake for Attend {
    /// # Panics
    ///
    /// If no worker has a thread and the system refuses one.
    fn wake(self: Arc<Self>) {
        let Some(shared) = self.0.upgrade().filter(|shared| !shared.is_closing()) else {
            return;
        };
        // Workers that are awake look by themselves, or hide what they do not look at.
        shared.see_to_a_watch();
        let seats = || (0..shared.workers()).map(|index| shared.seats.at(index));
        let asleep = seats().find(|seat| seat.thread.is_running() && seat.sleeps());
        let Some(seat) = asleep.or_else(|| seats().find(|seat| !seat.thread.is_running())) else {
            return;
        };
        match shared.ensure_started(seat) {
            Err(error) if !shared.is_closing() && seats().all(|seat| !seat.thread.is_running()) => {
                shared.panic_refused(seat.index, &error);
            }
            _ => {
                seat.notify();
            }
        }
    }
}
