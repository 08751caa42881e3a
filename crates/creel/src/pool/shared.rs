//! The data that a pool's owner, workers and handles share, and the end of a pool.
//!
//! [`Shared`] connects the parts of a pool: it owns the workers, and implements for them the trait
//! `Work`, by which they run loops, tasks, timers and sockets.

use super::{
    Balance, BuildError, PoolBuilder, PoolStats, Wait, WorkerStats, observe::Window,
    pinning::Pinning, watchdog::WATCHDOG_INTERVAL, worker_loop,
};
use crate::{
    loops::protocol::Protocol,
    net::driver::Driver,
    sync::{AtomicBool, AtomicUsize, HAS_THREADS, Instant, Mutex, Ordering, lock, thread},
    task::{Stranded, Tasks},
    time::timers::Timers,
    worker::{
        current,
        parker::Poller,
        parts::{SocketPart, TaskPart, TimerPart},
        slot::WorkerSlot,
        slots::{Work, WorkerSlots},
        table::Table,
        wakers::PollerWaker,
    },
};
use creel_topology::Budget;
use std::{
    panic::{RefUnwindSafe, UnwindSafe},
    sync::{Arc, Weak},
    time::Duration,
};

/// The data of a pool. Threads and handles keep these data alive, but only the owner ends the pool.
pub(crate) struct Shared {
    pub(crate) wait: Wait,
    pub(crate) balance: Balance,
    pub(crate) slots: Arc<WorkerSlots>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) loops: Protocol,
    /// The timers of each worker.
    pub(crate) timers: Table<Arc<Timers>>,
    /// The sockets that the pool's tasks wait for.
    pub(crate) driver: Arc<Driver>,
    /// A thread holds this lock while it changes the number of workers, because this takes several
    /// steps.
    resizing: Mutex<()>,
    pub(crate) pinning: Pinning,
    /// The window through which other programs see the pool.
    pub(super) window: Mutex<Option<Window>>,
    /// The workers that wait in `block_on` calls of other pools.
    #[cfg(feature = "tasks")]
    pub(super) absent: super::away::Absent,
    /// The number of sessions that are running.
    pub(crate) sessions: AtomicUsize,
    /// Whether the pool has a gang. The `Release` store at the end of a gang synchronizes with the
    /// `AcqRel` swap that forms the next gang. Therefore the end of the first gang happens before
    /// the next gang begins.
    pub(crate) has_gang: AtomicBool,
    /// The number of CPUs that the pool may use. A CPU quota may allow fewer threads at a time,
    /// see [`threads`](Shared::threads).
    pub(crate) cpus: usize,
    /// Whether the program chose the number of workers. Relaxed is enough, because the flag is only
    /// reported.
    is_sized: AtomicBool,
}

// A panic of the program's code cannot leave the pool's own data inconsistent. We either catch the
// panic, or have no changes under way when we call the code.
impl UnwindSafe for Shared {}
impl RefUnwindSafe for Shared {}

impl Shared {
    pub(crate) fn new(settings: PoolBuilder, workers: usize, pinning: Pinning) -> Arc<Self> {
        let PoolBuilder {
            name,
            wait,
            balance,
            clock,
            seed,
            stack_size,
            hooks,
            workers: chosen,
            ..
        } = settings;
        let driver = Arc::<Driver>::default();
        driver.set_alone(workers == 1);
        let poller: Arc<dyn Poller> = driver.clone();
        let threadless = seed.is_some() || !HAS_THREADS;
        let slots = WorkerSlots::new(name, workers, threadless, stack_size, hooks, poller);
        driver.set_wake(PollerWaker::waker(&slots));
        let shared = Arc::new(Self {
            wait,
            balance,
            tasks: Tasks::new(Arc::clone(&slots), seed),
            loops: Protocol::new(Arc::clone(&slots)),
            timers: Table::new(move |_| Arc::new(Timers::new(clock.clone()))),
            driver,
            resizing: Mutex::new(()),
            cpus: pinning.cpus(),
            pinning,
            window: Mutex::default(),
            #[cfg(feature = "tasks")]
            absent: Default::default(),
            sessions: AtomicUsize::new(0),
            has_gang: AtomicBool::new(false),
            is_sized: AtomicBool::new(chosen.is_some()),
            slots,
        });
        let work: Weak<dyn Work> = Arc::<Self>::downgrade(&shared);
        shared.slots.set_work(work);
        shared
    }

    /// Changes the number of workers. Only one thread at a time may call this.
    pub(crate) fn resize(&self, workers: usize) -> Result<(), BuildError> {
        let _resizing = lock(&self.resizing);
        let repinned = self.pinning.repin(workers);
        repinned.map_err(BuildError::placement)?;
        let before = self.slots.resize(workers);
        self.driver.set_alone(workers == 1);
        self.loops.forget_threads();
        self.slots.wake_all(before);
        self.is_sized.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the limits on the number of workers. A number that the program chose comes last.
    pub(crate) fn budget(&self) -> Option<Budget> {
        let budget = self.pinning.budget()?;
        Some(match self.is_sized.load(Ordering::Relaxed) {
            true => budget.explicit(self.slots.workers()),
            false => budget,
        })
    }

    /// Returns the number of threads that can run at the same time on the CPUs that the pool may
    /// use. The first call may read files.
    pub(crate) fn threads(&self) -> usize {
        self.pinning.threads()
    }

    /// Pins the workers for the first loop, session or gang, unless the program has chosen a
    /// placement.
    pub(crate) fn pin_for_loops(&self) {
        self.pinning.pin_for_loops(self.slots.workers());
    }

    /// Returns what each worker has done so far, and on which CPUs it runs.
    pub(crate) fn stats(&self) -> PoolStats {
        let stats = |index| WorkerStats {
            cpus: self.pinning.pus_of(index),
            pinned: self.pinning.pinned_pus(index).is_some(),
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

    /// Returns how long the caller of a loop spins for a worker that has not finished, before the
    /// caller sleeps.
    pub(crate) fn join_spin_ns(&self) -> u64 {
        match self.wait {
            Wait::Park | Wait::Throttle(_) => 1_000,
            Wait::Spin(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Wait::Adaptive if self.threads() < 2 => 0,
            Wait::Adaptive => 50_000,
        }
    }

    /// Returns whether the removed worker `index` can end without leaving work behind. This is so
    /// in three cases:
    ///
    /// - The pool is closing.
    /// - It has no sockets, and no queued tasks that any worker may run.
    /// - Another worker has a thread or can start one.
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

    /// Ends the pool, which is already closing. Every thread finishes the work that it has
    /// accepted, and ends. This waits for the threads for at most `within`. After that time, a
    /// thread that we start for this purpose waits instead. If tasks are compiled out, nothing
    /// waits after that time.
    ///
    /// That thread also waits if the caller would wait for itself. This is so if the caller is one
    /// of the pool's threads, inside its `block_on`, or in the middle of one of its methods.
    pub(crate) fn close(self: &Arc<Self>, within: Option<Duration>) {
        let slots = &self.slots;
        self.tasks.cancel_all();
        for slot in slots.made() {
            slot.notify();
        }
        let owned = current::index_in(slots).is_some() || current::is_amid(slots);
        if !owned && !self.tasks.is_in_context() && self.wait_for_the_end(within) {
            return;
        }
        if cfg!(not(feature = "tasks")) {
            // Without tasks, no work can be stranded, so we need no thread that waits.
            return slots.leave();
        }
        let shared = Arc::clone(self);
        let waits = thread::Builder::new().spawn(move || shared.wait_for_the_end(None));
        if waits.is_err() {
            // The last thread that leaves the pool ends the tasks. Until then, work that is
            // stranded behind a blocked thread has to wait.
            slots.leave();
        }
    }

    /// Waits until all threads have left the pool, and ends the tasks. The owner calls this, or the
    /// thread that replaces it. Returns false if it takes longer than `within`. In that case, the
    /// caller still counts as a user of the pool.
    fn wait_for_the_end(&self, within: Option<Duration>) -> bool {
        let slots = &self.slots;
        // If the duration exceeds the clock's range, we wait without a limit.
        let until = within.and_then(|within| Instant::now().checked_add(within));
        // Workers that are blocked in user code may wait for work that is stranded behind them.
        let mut last = Stranded::default();
        let look = || {
            self.tasks.run_stranded(&mut last, true);
            // The workers end and no longer fire timers or poll, but a caller of `block_on` may
            // still wait for these.
            #[cfg(feature = "tasks")]
            super::block_on::serve_callers(self);
        };
        if !slots.life.wait_for_others(WATCHDOG_INTERVAL, until, look) {
            return false;
        }
        for thread in slots.made().filter_map(|slot| slot.thread.take()) {
            // A worker catches panics of user code, so an error here is a bug in the pool. The
            // thread's own panic message has reported it already.
            let _ = thread.join();
        }
        slots.leave();
        self.let_go();
        true
    }

    /// Releases the resources that the system and a manual clock hold for the pool, which no longer
    /// has threads.
    fn let_go(&self) {
        self.driver.end();
        self.timers.made().for_each(|timers| timers.end());
    }
}

impl Work for Shared {
    fn serve(self: Arc<Self>, slot: usize) {
        worker_loop::run(&self, slot);
    }

    fn abandon(&self) {
        self.slots.leave();
    }

    fn run_late(&self, slot: &WorkerSlot) -> bool {
        self.run_source(slot, &mut || ())
    }

    fn is_ready(&self) -> bool {
        let loops = &self.loops;
        self.tasks.any_outside()
            || loops.shared_jobs.seems_left()
            || loops.forks.any_old(&self.slots)
            || self.has_jobs()
    }

    fn has_private_work(&self, slot: usize) -> bool {
        self.timers.at(slot).is_used() || !self.driver.is_empty()
    }

    fn any_forks(&self) -> bool {
        self.loops.forks.any_active()
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
        // Usually the pool has already released these resources, and this call does nothing. The
        // exception is a pool that ended on one of its own workers, if the system refused a thread
        // to wait for it.
        self.let_go();
    }
}
