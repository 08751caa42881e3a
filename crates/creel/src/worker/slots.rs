//! The workers of a pool: what they know about each other, and how a thread notifies an idle one.
//!
//! This module keeps the liveness guarantee (docs/design/pool.md). [`WorkerSlots::notify_one`]
//! handles work that any worker may take. [`WorkerSlots::ensure_watchdog`] handles work that is
//! stranded at a running worker. Both are based on the state in `idle.rs`.

use super::{
    current,
    error::WorkerError,
    hooks::{Hooks, NewThread, Unstarted},
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

/// The work of the workers. This trait is all that the workers know about the code that is built on
/// them.
pub(crate) trait Work: Any + Send + Sync {
    /// Runs the body of a worker's thread. At its end, the thread leaves the pool, of which it is a
    /// user (`life.rs`).
    fn serve(self: Arc<Self>, slot: usize);

    /// Removes a user of the pool, which is a thread that was never started.
    fn abandon(&self);

    /// Returns whether there is work that any worker may take. If a thread publishes work before it
    /// reads the idle list, a worker that has marked itself idle sees that work here.
    fn is_ready(&self) -> bool;

    /// Runs a job of the program's own queues on the thread of this worker, which is waiting for
    /// the second closure of a join. Returns whether these queues had a job.
    fn run_late(&self, slot: &WorkerSlot) -> bool;

    /// Returns whether something that only this worker's thread checks may become ready while the
    /// thread runs user code.
    fn has_private_work(&self, slot: usize) -> bool;

    /// Returns whether some thread may have forks. A thread that has forks and blocks notifies
    /// nobody.
    fn any_forks(&self) -> bool;

    /// Returns whether there is a loop in which this worker has a share that it has not looked at
    /// yet. The worker's own thread calls this after it has stored that it is not idle (`SeqCst`).
    fn has_share(&self, slot: &WorkerSlot) -> bool;

    /// Takes part in the loop that `has_share` has found. The worker's own thread calls this.
    fn take_share(&self, slot: &WorkerSlot);

    /// Ends the work. It is called once, after the last user of the pool has left.
    fn end(&self);
}

/// The time at which a notified worker is unparked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Now,
    /// The worker is unparked at the end of its quantum, if the pool is throttled.
    Later,
}

/// The maximum number of workers of a pool that is not large. The model checkers use a smaller
/// number, so that small models cover large pools too.
const SMALL_MAX: usize = if cfg!(any(creel_loom, creel_shuttle)) {
    2
} else {
    8
};

/// The workers of a pool.
pub(crate) struct WorkerSlots {
    /// The work, which is set once the pool has been created.
    work: OnceLock<Weak<dyn Work>>,
    /// The id of the process that created the pool, and in which its threads run.
    process: u32,
    pub(crate) name: String,
    /// Whether the pool starts no threads. This is so in the deterministic mode, and on systems
    /// without threads.
    threadless: bool,
    /// The stack size of a worker's thread in bytes. `None` means the default of the standard
    /// library.
    stack_size: Option<usize>,
    pub(crate) hooks: Hooks,
    table: Table<WorkerSlot>,
    pub(crate) idle: CachePadded<Idle>,
    pub(crate) life: Life,
    /// The number of workers in use. A worker is in use if its index is below this number.
    workers: AtomicUsize,
    pub(crate) tracing: Tracing,
}

impl WorkerSlots {
    pub(crate) fn new(
        name: String,
        workers: usize,
        threadless: bool,
        stack_size: Option<usize>,
        hooks: Hooks,
        poller: Arc<dyn Poller>,
    ) -> Arc<Self> {
        Arc::new(Self {
            work: OnceLock::new(),
            process: process_id(),
            name,
            threadless,
            stack_size,
            hooks,
            table: Table::new(move |index| WorkerSlot::new(index, Arc::clone(&poller))),
            idle: CachePadded::new(Idle::new(workers)),
            life: Life::new(),
            workers: AtomicUsize::new(workers),
            tracing: Tracing::default(),
        })
    }

    /// Sets the [`Work`] of these workers, once the pool that contains them has been created.
    pub(crate) fn set_work(&self, work: Weak<dyn Work>) {
        let set = self.work.set(work);
        debug_assert!(set.is_ok(), "slots work for one pool");
    }

    /// Returns the work, or `None` before it is set and once the pool is gone.
    pub(crate) fn work(&self) -> Option<Arc<dyn Work>> {
        self.work.get()?.upgrade()
    }

    /// Returns whether this process was forked from the one that created the pool.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != process_id()
    }

    /// Returns the slot of the worker with this index, whether the worker is in use or not.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &WorkerSlot {
        self.table.at(index)
    }

    /// Returns all workers that have been used so far, and a few that have not.
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

    /// Returns whether the pool has so many workers that they would mostly wait for each other if
    /// they did the same as in a small pool.
    pub(crate) fn is_large(&self) -> bool {
        self.workers() > SMALL_MAX
    }

    /// Returns whether no worker has a thread. This is so in the deterministic mode, and on systems
    /// without threads.
    pub(crate) fn is_threadless(&self) -> bool {
        self.threadless
    }

    /// Changes the number of workers in use, and returns the previous number. Only one caller may
    /// do this at a time.
    pub(crate) fn resize(&self, workers: usize) -> usize {
        // The order ensures that every worker in the idle list is in use. Otherwise a worker that
        // is not in use could be notified. It would pass the notification on, and get it back,
        // until this thread is done here. A loop may use a new worker as soon as it is in use.
        let before = self.workers();
        self.idle.reserve(workers);
        if workers < before {
            self.idle.resize(workers);
        }
        self.workers.store(workers, Ordering::SeqCst);
        if workers > before {
            self.idle.resize(workers);
        }
        before
    }

    /// Wakes the workers below `before`, which is the number of workers before a resize, and
    /// notifies an idle worker if any work waits for one.
    pub(crate) fn wake_all(&self, before: usize) {
        // We wake all workers and not only the removed ones, because the remaining workers may have
        // to move to other cores.
        (0..before).for_each(|index| {
            self.at(index).notify();
        });
        self.ensure_watchdog();
        self.notify_if_work();
    }

    /// Returns whether the pool is being dropped.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.life.is_closing()
    }

    /// Returns whether the thread of this worker should end once it has nothing left to do.
    pub(crate) fn wants_gone(&self, index: usize) -> bool {
        self.is_closing() || index >= self.workers()
    }

    /// Returns the slot of this worker.
    ///
    /// # Errors
    ///
    /// Returns an error if the pool has no such worker.
    pub(crate) fn slot_in_use(&self, worker: usize) -> Result<&WorkerSlot, WorkerError> {
        let workers = self.workers();
        if worker < workers {
            Ok(self.at(worker))
        } else {
            Err(WorkerError::NoSuchWorker { worker, workers })
        }
    }

    /// Returns the reason why a worker has no thread.
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
    ///
    /// Returns an error if the OS refuses a thread, or if the pool is closing.
    pub(crate) fn ensure_started(&self, slot: &WorkerSlot) -> io::Result<()> {
        self.start(slot).map(|_| ())
    }

    /// Starts the worker's thread unless it has one. Returns whether this call has started it.
    fn start(&self, slot: &WorkerSlot) -> io::Result<bool> {
        if self.threadless {
            return Ok(false);
        }
        let index = slot.index;
        slot.thread.ensure(|| {
            let closing = || io::Error::other("the pool is being dropped");
            let work = self.work().ok_or_else(closing)?;
            // The new thread keeps a reference to the work, because it needs the work to end the
            // pool if it turns out to be the last user.
            let serves = Arc::clone(&work);
            if !self.life.enter() {
                return Err(closing());
            }
            let name = format!("{}-{index}", self.name).replace('\0', "");
            if let Some(starter) = &self.hooks.starter {
                let serves = Unstarted(Some(serves));
                let run = move || serves.serve(index);
                return starter(NewThread::new(index, name, self.stack_size, run)).map(|()| None);
            }
            let mut thread = thread::Builder::new().name(name);
            if let Some(bytes) = self.stack_size {
                thread = thread.stack_size(bytes);
            }
            thread
                .spawn(move || serves.serve(index))
                .map(Some)
                .inspect_err(|_| self.leave())
        })
    }

    /// Removes a user of the pool. If it was the last user, this ends the pool's work.
    pub(crate) fn leave(&self) {
        if self.life.leave()
            && let Some(work) = self.work()
        {
            work.end();
        }
    }

    /// Pushes an inbox job for a worker, and ensures that a thread runs it.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker has no thread and the OS refuses one, or if the pool has
    /// ended. The job has been dropped in that case.
    pub(crate) fn send(&self, slot: &WorkerSlot, job: Job) -> io::Result<()> {
        if self.threadless {
            // A pool without threads has only the caller's thread, so the job runs at once.
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

    /// Notifies an idle worker, because work that any worker may take has been published. Workers
    /// with an index below `first` are not notified.
    ///
    /// # Errors
    ///
    /// Returns an error if the OS refuses a thread and the pool has none.
    pub(crate) fn notify_one(&self, first: usize, when: When) -> io::Result<()> {
        self.notify(first, None, when)
    }

    /// Returns the first worker that may be notified of work that a thread has published and also
    /// runs itself. The thread is the worker `own`, or a thread from outside, which counts as
    /// worker 0 unless the program said otherwise.
    pub(crate) fn first_helper(&self, own: Option<usize>) -> usize {
        usize::from(own.is_none() && !self.hooks.extra_callers)
    }

    /// Notifies an idle worker, but not the calling thread, of work that this thread has just
    /// published. The thread is the worker `own`, or a thread from outside. We have to exclude the
    /// worker `own` here, because a worker stays in the idle list while it takes part in a loop.
    pub(crate) fn notify_other(&self, own: Option<usize>) {
        self.notify_other_from(self.first_helper(own), own);
    }

    /// Does the same as [`notify_other`](Self::notify_other), but chooses none of the workers below
    /// `first`.
    pub(crate) fn notify_other_from(&self, first: usize, own: Option<usize>) {
        // If no thread can be started, the caller does all the work.
        let _ = self.notify(first, own, When::Now);
    }

    /// Notifies an idle worker like [`notify_other`](Self::notify_other), but may also choose
    /// worker 0 if the thread is from outside. Use it if the thread may block, because it then does
    /// no work in the place of worker 0.
    pub(crate) fn notify_any_other(&self, own: Option<usize>) {
        // If no thread can be started, the caller does all the work once it no longer blocks.
        let _ = self.notify(0, own, When::Now);
    }

    fn notify(&self, first: usize, own: Option<usize>, when: When) -> io::Result<()> {
        // While the pool closes, its threads check for work by themselves and no thread is started.
        if self.is_closing() || self.threadless {
            return Ok(());
        }
        if !self.idle.any_listed() {
            // No worker can be notified. However, a `block_on` driver that has leased an idle
            // worker may be stuck, and that worker then has to run the driver's tasks. Therefore we
            // ensure that there is a watchdog.
            self.ensure_watchdog();
            return Ok(());
        }
        while let Some(search) = self.idle.begin_search() {
            match self.idle.notify_one(first, own, search) {
                Ok(notified) => return self.deliver(notified, first, when),
                Err(search) => self.idle.end_search(search),
            }
            // While our search was under way, another thread may have published work and notified
            // no worker because of our search. Therefore we check again.
            if first > 0 || own.is_some() || !self.is_ready() || !self.idle.any_listed() {
                break;
            }
        }
        self.ensure_watchdog();
        Ok(())
    }

    /// Unparks a notified worker, and starts its thread if needed.
    fn deliver(&self, notified: Notification, first: usize, when: When) -> io::Result<()> {
        let slot = self.at(notified.slot);
        slot.set_notified();
        let Err(error) = self.ensure_started(slot) else {
            let was = match when {
                When::Now => slot.wake(),
                When::Later => slot.parker.notify_later(),
            };
            if was != PrevState::Asleep {
                // The notified worker was awake. It may spin, or it may be in a loop and check for
                // work much later, so we ensure that there is a watchdog.
                self.ensure_watchdog();
            }
            return Ok(());
        };
        slot.take_notified();
        // The search may already be gone, because the watchdog has given up the notification or
        // another thread has started the worker's thread.
        if let Some(search) = self.idle.give_up(notified) {
            self.idle.end_search(search);
        }
        match self.running_idle(first) {
            // No thread could be started for the notified worker, so we wake a worker that has one.
            // It checks all sources of work before it sleeps again.
            Some(other) => {
                self.at(other).notify();
                Ok(())
            }
            None if self.made().any(|slot| slot.thread.is_running()) => Ok(()),
            None => Err(error),
        }
    }

    /// Returns the first worker from `first` on whose thread is running and sleeps with nothing to
    /// do.
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

    /// Notifies an idle worker if there is work. The caller has not published that work, so it is
    /// not responsible if no thread can be started.
    pub(crate) fn notify_if_work(&self) {
        if !self.idle.any_listed() {
            // There is no worker to notify. A worker that becomes idle from now on checks for work.
            self.ensure_watchdog();
        } else if self.is_ready() {
            // We ignore the error if no thread can be started, because the next notification tries
            // again.
            let _ = self.notify_one(0, When::Now);
        }
    }

    /// Wakes up to two idle workers behind worker `index`, which has found more work than it takes.
    /// They check all sources of work, as notified workers do. However, they do not own the pool's
    /// only search, so several of them can check at the same time. Use it in large pools only,
    /// where one search after another would take long to reach all workers.
    pub(crate) fn wake_neighbours(&self, index: usize) {
        const LOOKS: usize = 8;
        if !self.idle.any_listed() {
            return;
        }
        let workers = self.workers();
        let behind = (1..=LOOKS.min(workers - 1)).map(|distance| (index + distance) % workers);
        let slots = behind.map(|index| self.at(index));
        // We do not wake the watchdog, because its successor would have to be found under a lock.
        let idle = slots.filter(|slot| {
            slot.is_idle() && slot.thread.is_running() && !self.idle.is_watchdog(slot.index)
        });
        for slot in idle.take(2) {
            slot.notify();
        }
    }

    /// Ensures that one of the idle workers is the watchdog, if any worker is running.
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
                    // A thread that starts after the appointment finds that it is the watchdog
                    // before it does anything else. In contrast, a thread that was awake may have
                    // checked before the appointment, and may be in a share of a loop by now. In
                    // that case we undo the appointment and try again.
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

    /// Marks the worker as no longer idle. The worker's own thread calls this before it runs user
    /// code. If the worker had been notified, this returns the search, which now belongs to the
    /// caller.
    #[must_use]
    pub(crate) fn leave_idle(&self, slot: &WorkerSlot) -> Option<Search> {
        // Only this worker's own thread changes the flag, and this is that thread, so the flag is
        // up to date.
        if !slot.is_idle() {
            return None;
        }
        slot.set_idle(false);
        let left = self.idle.leave(slot.index);
        slot.take_notified();
        if left.was_watchdog || self.may_be_stranded(slot) {
            self.ensure_watchdog();
        }
        left.search
    }

    /// Marks the worker as no longer idle, like [`leave_idle`](Self::leave_idle), before the thread
    /// takes a job that only this thread will then have.
    ///
    /// If a loop was started at this moment, the thread first takes its share of the loop. The
    /// loop's caller may have seen the worker idle, and then no other thread runs that share.
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
        // Perhaps no other worker was woken for the work that this worker was about to take. It
        // takes part in the loop first, so we notify another worker.
        self.notify_if_work();
        work.take_share(slot);
        None
    }

    /// Marks the worker as no longer idle, like [`leave_idle`](Self::leave_idle), before the thread
    /// runs code that is neither a task nor the work that it was notified for. Ends the search, so
    /// that the next worker is notified if there is work.
    pub(crate) fn leave_idle_for_long(&self, slot: &WorkerSlot) {
        let mut search = self.leave_idle(slot);
        self.end_search_of(&mut search);
    }

    /// Marks the worker as idle. The worker's own thread calls this when it has nothing more to do,
    /// and checks for work once more afterwards.
    pub(crate) fn enter_idle(&self, slot: &WorkerSlot) {
        if !slot.is_idle() {
            slot.set_idle(true);
            self.idle.enter(slot.index);
        }
    }

    /// Returns whether work may become ready for which nobody is notified while this worker runs user
    /// code.
    fn may_be_stranded(&self, slot: &WorkerSlot) -> bool {
        let stranded = |work: Arc<dyn Work>| work.has_private_work(slot.index) || work.any_forks();
        self.work().is_some_and(stranded)
    }

    /// Ends the search of a notified worker that does not arrive, in the same way as
    /// [`end_search`](Self::end_search).
    pub(crate) fn give_up(&self, notified: Notification) {
        let mut search = self.idle.give_up(notified);
        self.end_search_of(&mut search);
    }

    /// Ends the search, and notifies the next worker if there is still work. This is needed because
    /// a thread that published work during the search has notified no worker.
    pub(crate) fn end_search(&self, search: Search) {
        self.idle.end_search(search);
        self.notify_if_work();
    }

    /// Ends the search if there is one.
    pub(crate) fn end_search_of(&self, search: &mut Option<Search>) {
        if let Some(search) = search.take() {
            self.end_search(search);
        }
    }
}
