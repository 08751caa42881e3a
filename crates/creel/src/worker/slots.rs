//! The workers of a pool: what they know of each other, and how an idle one is called.
//!
//! The law of liveness (docs/design/pool.md) is kept here: [`WorkerSlots::call`] for what any worker may
//! take, [`WorkerSlots::ensure_watchdog`] for what lies behind one that works. `idle.rs` has the book that
//! both go by.

use super::{
    current,
    error::WorkerError,
    idle::{Appointed, Idle, Notification, Search},
    inbox::Job,
    life::Life,
    parker::{Poller, PrevState},
    slot::WorkerSlot,
    table::Table,
    trace::Tracing,
};
use crate::sync::{AtomicUsize, Ordering, process_id, thread};
use crossbeam_utils::CachePadded;
use std::{
    any::Any,
    io,
    sync::{Arc, OnceLock, Weak},
};

/// What the workers are for: all that they know of what is built on them.
pub(crate) trait Work: Any + Send + Sync {
    /// The body of a worker's thread, which leaves the pool's life in the end.
    fn serve(self: Arc<Self>, slot: usize);

    /// Whether there is work that any worker may take. What a worker publishes before it looks for
    /// the idle is seen by one that has said that it is idle.
    fn is_ready(&self) -> bool;

    /// Whether something that only this worker's thread looks at may become ready while it is in
    /// somebody's code.
    fn hides(&self, slot: usize) -> bool;

    /// Whether a loop has been called that this worker has a share in and has not looked at. The
    /// worker's thread asks after it has stored that it does not idle (`SeqCst`).
    fn has_share(&self, slot: &WorkerSlot) -> bool;

    /// Takes part in that loop. Called by the worker's own thread.
    fn take_share(&self, slot: &WorkerSlot);

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

/// The workers of a pool.
pub(crate) struct WorkerSlots {
    /// Set once the pool is made.
    work: OnceLock<Weak<dyn Work>>,
    /// The process that made it, and has its threads.
    process: u32,
    pub(crate) name: String,
    /// No worker has a thread: the deterministic mode, or the system has none.
    threadless: bool,
    /// Of a worker's thread, in bytes; none: as the system has it.
    stack_size: Option<usize>,
    table: Table<WorkerSlot>,
    pub(crate) idle: CachePadded<Idle>,
    pub(crate) life: Life,
    /// How many workers are in use: those below this index.
    workers: AtomicUsize,
    pub(crate) tracing: Tracing,
}

impl WorkerSlots {
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
            table: Table::new(move |index| WorkerSlot::new(index, Arc::clone(&poller))),
            idle: CachePadded::new(Idle::new(workers)),
            life: Life::new(),
            workers: AtomicUsize::new(workers),
            tracing: Tracing::default(),
        })
    }

    /// Tells what they are for.
    pub(crate) fn set_work(&self, work: Weak<dyn Work>) {
        let set = self.work.set(work);
        debug_assert!(set.is_ok(), "slots work for one pool");
    }

    /// None once the pool is gone.
    pub(crate) fn work(&self) -> Option<Arc<dyn Work>> {
        self.work.get()?.upgrade()
    }

    /// Whether this process was forked from the one that made the pool.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != process_id()
    }

    /// The worker with this index, in use or not.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &WorkerSlot {
        self.table.at(index)
    }

    /// All workers that there ever were, and a few that were not.
    pub(crate) fn made(&self) -> impl Iterator<Item = &WorkerSlot> {
        self.table.made()
    }

    fn in_use(&self) -> impl Iterator<Item = &WorkerSlot> {
        (0..self.workers()).map(|index| self.at(index))
    }

    #[inline]
    pub(crate) fn workers(&self) -> usize {
        self.workers.load(Ordering::SeqCst)
    }

    /// Whether no worker has a thread: the deterministic mode, or the system has none.
    pub(crate) fn is_threadless(&self) -> bool {
        self.threadless
    }

    /// Changes the number of workers in use, and gives the one before. One caller at a time.
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
    pub(crate) fn wake_all(&self, before: usize) {
        // All, not only those that go: others may sit elsewhere now.
        (0..before).for_each(|index| {
            self.at(index).notify();
        });
        self.ensure_watchdog();
        self.notify_if_work();
    }

    /// Whether the pool is being dropped.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.life.is_closing()
    }

    /// Whether the thread of this worker should end once it has nothing left to do.
    pub(crate) fn wants_gone(&self, index: usize) -> bool {
        self.is_closing() || index >= self.workers()
    }

    /// Returns the slot of this worker.
    ///
    /// # Errors
    /// If the pool has no such worker.
    pub(crate) fn slot_in_use(&self, worker: usize) -> Result<&WorkerSlot, WorkerError> {
        let workers = self.workers();
        if worker < workers {
            Ok(self.at(worker))
        } else {
            Err(WorkerError::NoSuchWorker { worker, workers })
        }
    }

    /// Says why a worker has no thread.
    pub(crate) fn refused(&self, error: io::Error) -> WorkerError {
        if self.is_closing() {
            WorkerError::Ended
        } else {
            WorkerError::NoThread(error)
        }
    }

    /// Starts the worker's thread unless it has one.
    ///
    /// # Errors
    /// If the system refuses a thread, or the pool is closing.
    pub(crate) fn ensure_started(&self, slot: &WorkerSlot) -> io::Result<()> {
        self.start(slot).map(|_| ())
    }

    /// The same; true if it is this call that has started the thread.
    fn start(&self, slot: &WorkerSlot) -> io::Result<bool> {
        if self.threadless {
            return Ok(false);
        }
        let index = slot.index;
        slot.thread.ensure(|| {
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

    /// Gives a worker an urgent job and ensures that a thread runs it.
    ///
    /// # Errors
    /// If the worker has no thread and the system refuses one, or the pool has ended. The job has been
    /// dropped then.
    pub(crate) fn send(&self, slot: &WorkerSlot, job: Job) -> io::Result<()> {
        if self.threadless {
            // No thread but the caller's.
            job();
            return Ok(());
        }
        let number = slot.inbox.push(job, current::may_be_waited_for());
        if let Err(error) = self.ensure_started(slot)
            && let Some(job) = slot.inbox.take_back(number)
        {
            drop(job);
            return Err(error);
        }
        slot.notify();
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
    /// `first`: a worker below it is not called.
    ///
    /// # Errors
    /// If the system refuses a thread and the pool has none.
    pub(crate) fn notify_one(&self, first: usize, when: When) -> io::Result<()> {
        // While the pool ends, its threads come by themselves and none is started.
        if self.is_closing() || self.threadless {
            return Ok(());
        }
        if !self.idle.any_listed() {
            // All work, but one who idles may have to run the tasks of one who is stood in for.
            self.ensure_watchdog();
            return Ok(());
        }
        while let Some(search) = self.idle.begin_search() {
            match self.idle.notify_one(first, search) {
                Ok(notified) => return self.deliver(notified, first, when),
                Err(search) => self.idle.end_search(search),
            }
            // Who published something meanwhile has called nobody, because of this search.
            if first > 0 || !self.is_ready() || !self.idle.any_listed() {
                break;
            }
        }
        self.ensure_watchdog();
        Ok(())
    }

    /// Tells a worker that it has been called.
    fn deliver(&self, notified: Notification, first: usize, when: When) -> io::Result<()> {
        let slot = self.at(notified.slot);
        slot.set_notified();
        let Err(error) = self.ensure_started(slot) else {
            let was = match when {
                When::Now => slot.notify(),
                When::Later => slot.parker.notify_later(),
            };
            if was != PrevState::Asleep {
                // It spins, or is in a loop and will not come for a while.
                self.ensure_watchdog();
            }
            return Ok(());
        };
        slot.take_notified();
        // Unless the watchdog has given it up already, or another thread has started the worker's.
        if let Some(search) = self.idle.give_up(notified) {
            self.idle.end_search(search);
        }
        match self.running_idle(first) {
            // It looks at all sources before it sleeps again, as if it had been called.
            Some(other) => {
                self.at(other).notify();
                Ok(())
            }
            None if self.made().any(|slot| slot.thread.is_running()) => Ok(()),
            None => Err(error),
        }
    }

    /// The worker, from `first` on, of a thread that sleeps with nothing to do.
    fn running_idle(&self, first: usize) -> Option<usize> {
        let slots = (first..self.workers()).filter(|index| {
            let slot = self.at(*index);
            slot.thread.is_running() && slot.sleeps()
        });
        slots.min()
    }

    fn is_ready(&self) -> bool {
        self.work().is_some_and(|work| work.is_ready())
    }

    /// The same as [`call`](Self::call) if there is work, by one who has none to answer for.
    pub(crate) fn notify_if_work(&self) {
        if self.is_ready() {
            // Who cannot start a thread now leaves it to the next who tries.
            let _ = self.notify_one(0, When::Now);
        }
    }

    /// Sees to it that one of the idle watches, if somebody works.
    #[inline]
    pub(crate) fn ensure_watchdog(&self) {
        if self.idle.needs_watchdog() {
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
                Appointed::WorkerSlot(index) => {
                    let slot = self.at(index);
                    let started = self.start(slot);
                    if started.is_ok() && slot.notify() == PrevState::Asleep {
                        return;
                    }
                    // A thread that starts after the appointment finds that it is the watchdog before it
                    // does anything else. One that was awake may have looked before it, and be in
                    // a loop's share by now.
                    if matches!(started, Ok(true)) {
                        return;
                    }
                    self.idle.unappoint(index, started.is_err());
                }
                Appointed::Spinners => {
                    for slot in self.in_use().filter(|slot| slot.is_idle()) {
                        slot.notify();
                    }
                    return;
                }
            }
        }
    }

    /// Called by the worker's own thread before it runs anybody's code: it does not idle any more.
    /// With a search: it had been called, and the search is its own.
    #[must_use]
    pub(crate) fn leave_idle(&self, slot: &WorkerSlot) -> Option<Search> {
        // Its own thread's, so it is not out of date.
        if !slot.is_idle() {
            return None;
        }
        slot.set_idle(false);
        let left = self.idle.leave(slot.index);
        slot.take_notified();
        if left.was_watchdog || self.hides(slot) {
            self.ensure_watchdog();
        }
        left.search
    }

    /// The same before the thread takes a job that only it will have then. If a loop was called in
    /// that moment, the thread takes its share first: the loop's caller may have seen it idle, and
    /// then nobody else runs that share.
    #[must_use]
    pub(crate) fn leave_idle_for_code(&self, slot: &WorkerSlot) -> Option<Search> {
        if !slot.is_idle() {
            return None;
        }
        let search = self.leave_idle(slot);
        let Some(work) = self.work().filter(|work| work.has_share(slot)) else {
            return search;
        };
        if let Some(search) = search {
            self.idle.end_search(search);
        }
        // It may be the only one that was woken for what it was about to take.
        self.notify_if_work();
        work.take_share(slot);
        None
    }

    /// The same as [`leave_idle`](Self::leave_idle) for code that is no task, and not what it was
    /// called for: the next one is called.
    pub(crate) fn leave_idle_for_long(&self, slot: &WorkerSlot) {
        let mut search = self.leave_idle(slot);
        self.end_search_of(&mut search);
    }

    /// Called by the worker's own thread when it has nothing more to do: it looks for work once more
    /// after this.
    pub(crate) fn enter_idle(&self, slot: &WorkerSlot) {
        if !slot.is_idle() {
            slot.set_idle(true);
            self.idle.enter(slot.index);
        }
    }

    /// Whether something may become ready that only this thread looks at.
    fn hides(&self, slot: &WorkerSlot) -> bool {
        self.work().is_some_and(|work| work.hides(slot.index))
    }

    /// Ends the search of a call to a worker that does not come, as [`end_search`](Self::end_search)
    /// does.
    pub(crate) fn give_up(&self, notified: Notification) {
        let mut search = self.idle.give_up(notified);
        self.end_search_of(&mut search);
    }

    /// The search is over; if there is still work, the next one is called. Who published some
    /// during the search has called nobody.
    pub(crate) fn end_search(&self, search: Search) {
        self.idle.end_search(search);
        self.notify_if_work();
    }

    /// The same if there is one.
    pub(crate) fn end_search_of(&self, search: &mut Option<Search>) {
        if let Some(search) = search.take() {
            self.end_search(search);
        }
    }
}
