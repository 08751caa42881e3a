//! The seats of a pool: what they know of each other, and how an idle one is called.
//!
//! The law of liveness (docs/design/pool.md) is kept here: [`Seats::call`] for what any worker may
//! take, [`Seats::see_to_a_watch`] for what lies behind one that works. `idle.rs` has the book that
//! both go by.

use super::{
    current,
    idle::{Appointed, Called, Idle, Search},
    life::Life,
    parker::{Poller, Was},
    seat::Seat,
    table::Table,
    trace::Tracing,
    urgent::Job,
};
use crate::sync::{AtomicUsize, Ordering, process_id, thread};
use crossbeam_utils::CachePadded;
use std::{
    any::Any,
    io,
    sync::{Arc, OnceLock, Weak},
};

/// What the seats are for: all that they know of what is built on them.
pub(crate) trait Work: Any + Send + Sync {
    /// The body of a seat's thread, which leaves the pool's life in the end.
    fn serve(self: Arc<Self>, seat: usize);

    /// Whether there is work that any worker may take. What a worker publishes before it looks for
    /// the idle is seen by one that has said that it is idle.
    fn is_ready(&self) -> bool;

    /// Whether something that only this seat's thread looks at may become ready while it is in
    /// somebody's code.
    fn hides(&self, seat: usize) -> bool;

    /// Whether a loop has been called that this seat has a share in and has not looked at. The
    /// seat's thread asks after it has stored that it does not idle (`SeqCst`).
    fn has_share(&self, seat: &Seat) -> bool;

    /// Takes part in that loop. Called by the seat's own thread.
    fn take_share(&self, seat: &Seat);

    /// Called once, after the last user has left.
    fn end(&self);
}

/// How a called worker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Now,
    /// Under a throttle, at the end of the quantum.
    Later,
}

/// The seats of a pool.
pub(crate) struct Seats {
    /// Set once the pool is made.
    work: OnceLock<Weak<dyn Work>>,
    /// The process that made it, and has its threads.
    process: u32,
    pub(crate) name: String,
    /// No seat has a thread: the deterministic mode, or the system has none.
    threadless: bool,
    /// Of a seat's thread, in bytes; none: as the system has it.
    stack_size: Option<usize>,
    table: Table<Seat>,
    pub(crate) idle: CachePadded<Idle>,
    pub(crate) life: Life,
    /// How many seats are in use: those below this index.
    workers: AtomicUsize,
    pub(crate) tracing: Tracing,
}

impl Seats {
    pub(crate) fn new(
        name: String,
        workers: usize,
        threadless: bool,
        stack_size: Option<usize>,
        poller: Arc<dyn Poller>,
    ) -> Arc<Self> {
        Arc::new(Self {
            work: OnceLock::new(),
            process: process_id(),
            name,
            threadless,
            stack_size,
            table: Table::new(move |index| Seat::new(index, Arc::clone(&poller))),
            idle: CachePadded::new(Idle::new(workers)),
            life: Life::new(),
            workers: AtomicUsize::new(workers),
            tracing: Tracing::default(),
        })
    }

    /// Tells what they are for.
    pub(crate) fn set_work(&self, work: Weak<dyn Work>) {
        let set = self.work.set(work);
        debug_assert!(set.is_ok(), "seats work for one pool");
    }

    /// None once the pool is gone.
    pub(crate) fn work(&self) -> Option<Arc<dyn Work>> {
        self.work.get()?.upgrade()
    }

    /// Whether this process was forked from the one that made the pool.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != process_id()
    }

    /// The seat with this index, in use or not.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &Seat {
        self.table.at(index)
    }

    /// All seats that there ever were, and a few that were not.
    pub(crate) fn made(&self) -> impl Iterator<Item = &Seat> {
        self.table.made()
    }

    fn in_use(&self) -> impl Iterator<Item = &Seat> {
        (0..self.workers()).map(|index| self.at(index))
    }

    #[inline]
    pub(crate) fn workers(&self) -> usize {
        self.workers.load(Ordering::SeqCst)
    }

    /// Whether no seat has a thread: the deterministic mode, or the system has none.
    pub(crate) fn is_threadless(&self) -> bool {
        self.threadless
    }

    /// Changes the number of seats in use, and gives the one before. One caller at a time.
    pub(crate) fn resize(&self, workers: usize) -> usize {
        // Whom the idle may call is in use meanwhile: one that is not would pass the call on, and get
        // it back, until this thread is done here.
        let before = self.workers();
        if workers < before {
            self.idle.resize(workers);
        }
        self.workers.store(workers, Ordering::SeqCst);
        if workers > before {
            self.idle.resize(workers);
        }
        before
    }

    /// Has all come that are or were in use, and calls for what waits for a worker.
    pub(crate) fn rouse(&self, before: usize) {
        // All, not only those that go: others may sit elsewhere now.
        (0..before).for_each(|index| {
            self.at(index).notify();
        });
        self.see_to_a_watch();
        self.call_if_work();
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

    /// The seat with this index.
    ///
    /// # Panics
    /// If the pool has no such worker.
    #[track_caller]
    pub(crate) fn seat_in_use(&self, index: usize) -> &Seat {
        let workers = self.workers();
        assert!(
            index < workers,
            "worker index {index} out of range: the pool has {workers} workers"
        );
        self.at(index)
    }

    /// Starts the seat's thread unless it has one.
    ///
    /// # Errors
    /// If the system refuses a thread, or the pool is closing.
    pub(crate) fn ensure_started(&self, seat: &Seat) -> io::Result<()> {
        self.start(seat).map(|_| ())
    }

    /// The same; true if it is this call that has started the thread.
    fn start(&self, seat: &Seat) -> io::Result<bool> {
        if self.threadless {
            return Ok(false);
        }
        let index = seat.index;
        seat.thread.ensure(|| {
            let closing = || io::Error::other("the pool is being dropped");
            let work = self.work().ok_or_else(closing)?;
            // The end needs it, if this was the last user.
            let serves = Arc::clone(&work);
            if !self.life.enter() {
                return Err(closing());
            }
            let name = format!("{}-{index}", self.name.replace('\0', ""));
            let thread = thread::Builder::new().name(name);
            let thread = match self.stack_size {
                Some(bytes) => thread.stack_size(bytes),
                None => thread,
            };
            thread
                .spawn(move || serves.serve(index))
                .inspect_err(|_| self.leave())
        })
    }

    /// One user less; the last one ends the work.
    pub(crate) fn leave(&self) {
        if self.life.leave()
            && let Some(work) = self.work()
        {
            work.end();
        }
    }

    /// Gives a seat an urgent job and ensures that a thread runs it.
    ///
    /// # Errors
    /// If the seat has no thread and the system refuses one, or the pool has ended. The job has been
    /// dropped then.
    pub(crate) fn send(&self, seat: &Seat, job: Job) -> io::Result<()> {
        if self.threadless {
            // No thread but the caller's.
            job();
            return Ok(());
        }
        let number = seat.urgent.push(job, current::may_be_waited_for());
        if let Err(error) = self.ensure_started(seat)
            && let Some(job) = seat.urgent.take_back(number)
        {
            drop(job);
            return Err(error);
        }
        seat.notify();
        Ok(())
    }

    /// Panics with the reason why worker `index` has no thread.
    #[track_caller]
    pub(crate) fn panic_refused(&self, index: usize, error: &io::Error) -> ! {
        if self.is_closing() {
            panic!(
                "pool {} has ended: worker {index} takes no more work",
                self.name
            );
        }
        panic!("cannot start worker {index} of pool {}: {error}", self.name);
    }

    /// Has one of the idle come for work that any worker may take, which has been published.
    /// `first`: a seat below it is not called.
    ///
    /// # Errors
    /// If the system refuses a thread and the pool has none.
    pub(crate) fn call(&self, first: usize, when: When) -> io::Result<()> {
        // While the pool ends, its threads come by themselves and none is started.
        if self.is_closing() || self.threadless {
            return Ok(());
        }
        if !self.idle.any_listed() {
            // All work, but one who idles may have to run the tasks of one who is stood in for.
            self.see_to_a_watch();
            return Ok(());
        }
        while let Some(search) = self.idle.begin_search() {
            match self.idle.call(first, search) {
                Ok(called) => return self.tell(called, first, when),
                Err(search) => self.idle.end_search(search),
            }
            // Who published something meanwhile has called nobody, because of this search.
            if first > 0 || !self.is_ready() || !self.idle.any_listed() {
                break;
            }
        }
        self.see_to_a_watch();
        Ok(())
    }

    /// Tells a seat that it has been called.
    fn tell(&self, called: Called, first: usize, when: When) -> io::Result<()> {
        let seat = self.at(called.seat);
        seat.set_called();
        let Err(error) = self.ensure_started(seat) else {
            let was = match when {
                When::Now => seat.notify(),
                When::Later => seat.parker.notify_later(),
            };
            if was != Was::Asleep {
                // It spins, or is in a loop and will not come for a while.
                self.see_to_a_watch();
            }
            return Ok(());
        };
        seat.take_called();
        // Unless the watch has given it up already, or another thread has started the seat's.
        if let Some(search) = self.idle.give_up(called) {
            self.idle.end_search(search);
        }
        match self.running_idle(first) {
            // It looks at all sources before it sleeps again, as if it had been called.
            Some(other) => {
                self.at(other).notify();
                Ok(())
            }
            None if self.made().any(|seat| seat.thread.is_running()) => Ok(()),
            None => Err(error),
        }
    }

    /// The seat, from `first` on, of a thread that sleeps with nothing to do.
    fn running_idle(&self, first: usize) -> Option<usize> {
        let seats = (first..self.workers()).filter(|index| {
            let seat = self.at(*index);
            seat.thread.is_running() && seat.sleeps()
        });
        seats.min()
    }

    fn is_ready(&self) -> bool {
        self.work().is_some_and(|work| work.is_ready())
    }

    /// The same as [`call`](Self::call) if there is work, by one who has none to answer for.
    pub(crate) fn call_if_work(&self) {
        if self.is_ready() {
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
        if self.is_closing() || self.threadless {
            return;
        }
        loop {
            match self.idle.appoint(|index| self.at(index).sleeps()) {
                Appointed::Nobody => return,
                Appointed::Seat(index) => {
                    let seat = self.at(index);
                    let started = self.start(seat);
                    if started.is_ok() && seat.notify() == Was::Asleep {
                        return;
                    }
                    // A thread that starts after the appointment finds that it is the watch before it
                    // does anything else. One that was awake may have looked before it, and be in
                    // a loop's share by now.
                    if matches!(started, Ok(true)) {
                        return;
                    }
                    self.idle.unappoint(index, started.is_err());
                }
                Appointed::Spinners => {
                    for seat in self.in_use().filter(|seat| seat.is_idle()) {
                        seat.notify();
                    }
                    return;
                }
            }
        }
    }

    /// Called by the seat's own thread before it runs anybody's code: it does not idle any more.
    /// With a search: it had been called, and the search is its own.
    #[must_use]
    pub(crate) fn leave_idle(&self, seat: &Seat) -> Option<Search> {
        // Its own thread's, so it is not out of date.
        if !seat.is_idle() {
            return None;
        }
        seat.set_idle(false);
        let left = self.idle.leave(seat.index);
        seat.take_called();
        if left.watched || self.hides(seat) {
            self.see_to_a_watch();
        }
        left.search
    }

    /// The same before the thread takes a job that only it will have then. If a loop was called in
    /// that moment, the thread takes its share first: the loop's caller may have seen it idle, and
    /// then nobody else runs that share.
    #[must_use]
    pub(crate) fn leave_idle_for_code(&self, seat: &Seat) -> Option<Search> {
        if !seat.is_idle() {
            return None;
        }
        let search = self.leave_idle(seat);
        let Some(work) = self.work().filter(|work| work.has_share(seat)) else {
            return search;
        };
        if let Some(search) = search {
            self.idle.end_search(search);
        }
        // It may be the only one that was woken for what it was about to take.
        self.call_if_work();
        work.take_share(seat);
        None
    }

    /// The same as [`leave_idle`](Self::leave_idle) for code that is no task, and not what it was
    /// called for: the next one is called.
    pub(crate) fn leave_idle_for_long(&self, seat: &Seat) {
        let mut search = self.leave_idle(seat);
        self.end_search_of(&mut search);
    }

    /// Called by the seat's own thread when it has nothing more to do: it looks for work once more
    /// after this.
    pub(crate) fn enter_idle(&self, seat: &Seat) {
        if !seat.is_idle() {
            seat.set_idle(true);
            self.idle.enter(seat.index);
        }
    }

    /// Whether something may become ready that only this thread looks at.
    fn hides(&self, seat: &Seat) -> bool {
        self.work().is_some_and(|work| work.hides(seat.index))
    }

    /// Ends the search of a call to a seat that does not come, as [`end_search`](Self::end_search)
    /// does.
    pub(crate) fn give_up(&self, called: Called) {
        let mut search = self.idle.give_up(called);
        self.end_search_of(&mut search);
    }

    /// The search is over; if there is still work, the next one is called. Who published some
    /// during the search has called nobody.
    pub(crate) fn end_search(&self, search: Search) {
        self.idle.end_search(search);
        self.call_if_work();
    }

    /// The same if there is one.
    pub(crate) fn end_search_of(&self, search: &mut Option<Search>) {
        if let Some(search) = search.take() {
            self.end_search(search);
        }
    }
}
