//! What a pool's owner, its workers and its handles share: the workers, and what is built on them.

use super::{
    Balance, BuildError, PoolBuilder, PoolStats, Wait, WorkerStats,
    observe::Window,
    pinning::{Pinning, SharedJob},
    watchdog::WATCHDOG_INTERVAL,
    worker_loop,
};
use crate::{
    loops::protocol::Protocol,
    net::driver::Driver,
    sync::{AtomicUsize, HAS_THREADS, Instant, Mutex, lock, thread},
    task::{Behind, Tasks, is_in_context},
    time::timers::Timers,
    worker::{
        current,
        parker::Poller,
        slot::WorkerSlot,
        slots::{Work, WorkerSlots},
        table::Table,
        wakers::PollerWaker,
    },
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
    pub(crate) slots: Arc<WorkerSlots>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) loops: Protocol,
    /// By worker.
    pub(crate) timers: Table<Arc<Timers>>,
    /// The sockets that the pool's tasks wait for.
    pub(crate) driver: Arc<Driver>,
    /// Held while the number of workers changes, which takes several steps.
    resizing: Mutex<()>,
    pub(crate) pinning: Pinning,
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
    pub(crate) fn new(settings: PoolBuilder, workers: usize, shared_job: SharedJob) -> Arc<Self> {
        let PoolBuilder {
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
        let slots = WorkerSlots::new(name, workers, threadless, stack_size, poller);
        driver.set_wake(PollerWaker::waker(&slots));
        let shared = Arc::new(Self {
            wait,
            balance,
            tasks: Tasks::new(Arc::clone(&slots), seed),
            loops: Protocol::new(Arc::clone(&slots)),
            timers: Table::new(move |_| Arc::new(Timers::new(clock.clone()))),
            driver,
            resizing: Mutex::new(()),
            pinning: shared_job.pinning,
            window: Mutex::default(),
            #[cfg(feature = "tasks")]
            absent: Default::default(),
            sessions: AtomicUsize::new(0),
            pus: shared_job.pus,
            slots,
        });
        let work: Weak<dyn Work> = Arc::<Self>::downgrade(&shared);
        shared.slots.set_work(work);
        shared
    }

    /// Changes the number of workers, one caller after the other.
    pub(crate) fn resize(&self, workers: usize) -> Result<(), BuildError> {
        let _resizing = lock(&self.resizing);
        self.pinning.repin(workers)?;
        let before = self.slots.resize(workers);
        self.driver.set_alone(workers == 1);
        self.loops.forget_threads();
        self.slots.wake_all(before);
        Ok(())
    }

    /// The first loop or session of a pool workers its workers, unless the program has.
    pub(crate) fn pin_for_loops(&self) {
        self.pinning.pin_for_loops(self.slots.workers());
    }

    /// What each worker has done so far and where it sits.
    pub(crate) fn stats(&self) -> PoolStats {
        let stats = |index| WorkerStats {
            cpus: self.pinning.pus_of(index),
            ..self.slots.at(index).stats()
        };
        let workers = self.slots.workers();
        let retired = self.slots.made().filter(|s| s.index >= workers);
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
        let slots = &self.slots;
        if slots.is_closing() || self.driver.is_empty() && !self.tasks.any_outside() {
            return true;
        }
        let in_use = || (0..slots.workers()).filter(|other| *other != index);
        let runs = |other: usize| slots.at(other).thread.is_running();
        let starts = |other: usize| slots.ensure_started(slots.at(other)).is_ok();
        in_use().any(runs) || in_use().any(starts)
    }

    /// Ends the pool, which is closing: every thread finishes what it was given and ends. Waits for
    /// them, unless called by one of them, inside its `block_on`, or in the middle of one of its
    /// verbs, which would wait for itself: then a thread made for it waits. The same thread waits
    /// once the caller has waited for `within`.
    pub(crate) fn close(self: &Arc<Self>, within: Option<Duration>) {
        let slots = &self.slots;
        self.tasks.cancel_all();
        for slot in slots.made() {
            slot.notify();
        }
        let owned = current::index_in(slots).is_some() || current::is_amid(slots);
        if !owned && !is_in_context(&self.tasks) && self.wait_for_the_end(within) {
            return;
        }
        let shared = Arc::clone(self);
        let waits = thread::Builder::new().spawn(move || shared.wait_for_the_end(None));
        if waits.is_err() {
            // The last thread to leave ends the tasks; what lies behind one that blocks waits.
            slots.leave();
        }
    }

    /// Waits until all have left, by the owner or in its stead, and ends the tasks. Returns false
    /// if that takes longer than `within`; then the caller is still a user of the pool.
    fn wait_for_the_end(&self, within: Option<Duration>) -> bool {
        let slots = &self.slots;
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
        if !slots.life.wait_for_others(WATCHDOG_INTERVAL, until, look) {
            return false;
        }
        for thread in slots.made().filter_map(|slot| slot.thread.take()) {
            // A worker catches what its work throws, so an error here is a defect of the pool,
            // which the thread's own panic message has told already.
            let _ = thread.join();
        }
        slots.leave();
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
    fn serve(self: Arc<Self>, slot: usize) {
        worker_loop::run(&self, slot);
    }

    fn is_ready(&self) -> bool {
        self.tasks.any_outside() || self.loops.shared_jobs.left() > 0
    }

    fn hides(&self, slot: usize) -> bool {
        self.timers.at(slot).is_used() || !self.driver.is_empty()
    }

    fn has_share(&self, slot: &WorkerSlot) -> bool {
        self.loops.has_part(slot)
    }

    fn take_share(&self, slot: &WorkerSlot) {
        self.loops.take_part(slot);
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
