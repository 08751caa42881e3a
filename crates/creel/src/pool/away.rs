//! Handles a pool whose workers all wait in `block_on` calls of other pools.
//!
//! A worker is *away* while it waits in a `block_on` call of another pool. It then polls no task of
//! its own pool, fires no timer and polls no sockets. Therefore, pools whose workers wait for each
//! other in a ring would wait for ever. While all workers of a pool are away, at least one of them
//! checks every [`WATCHDOG_INTERVAL`] whether the pool has work. If it has, the worker starts a
//! *substitute*. This is a thread that runs the work that is stranded behind the workers, as the
//! watchdog does for a stuck worker. The substitute ends when a worker is back.
//!
//! The substitute is not a worker. Work that is bound to a worker still waits for this worker.
//! Examples are a task of `spawn_on` or `spawn_local`, and a `run_on` from a thread that is not a
//! worker.

use super::{
    block_on::{User, serve_callers},
    shared::Shared,
    watchdog::WATCHDOG_INTERVAL,
};
use crate::{
    net::driver::Driver,
    sync::{AtomicBool, AtomicUsize, Instant, Ordering, WaitWord, local, thread, thread_local},
    task::{BlockOnDriver, ContextGuard, Frame, Stranded},
    time::timers,
    worker::{
        current,
        parts::{SocketPart, TaskPart},
        slots::Work,
    },
};
use std::{
    any::Any,
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};

/// Counts the workers of a pool that are away.
#[derive(Default)]
pub(super) struct Absent {
    /// The number of workers that are away. If two workers leave at the same time, the one that
    /// counts itself last sees that both are away.
    workers: AtomicUsize,
    /// Whether there is a substitute. Accesses to this flag and to `workers` are `SeqCst`, which
    /// costs nothing noticeable, because they are rare.
    substituted: AtomicBool,
}

thread_local! {
    /// Whether this thread is a worker that is away.
    static IS_AWAY: Cell<bool> = const { Cell::new(false) };
    /// The pool for which this thread is the substitute.
    static SUBSTITUTE_OF: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// A thread's stay in a `block_on`, from its first sleep there to the end of the call.
pub(super) struct Away {
    /// The thread's own pool, if the thread is a worker.
    own: Option<Arc<Shared>>,
    /// Whether this stay is counted as away. It is false for a thread that is not a worker. It is
    /// also false in a `block_on` inside another one that has slept, because the outer one is
    /// counted already.
    counts: bool,
    since: Instant,
}

impl Away {
    /// Counts the calling thread as away if it is a worker. The thread is about to sleep in a
    /// `block_on`.
    pub(super) fn enter() -> Self {
        // A substitute that sleeps cannot act as a substitute, so a worker may start another one.
        let of = local(&SUBSTITUTE_OF, RefCell::take).flatten();
        of.inspect(|pool| pool.absent.substituted.store(false, Ordering::SeqCst));
        let own = current::worker().and_then(|(slots, _)| {
            let work: Arc<dyn Any + Send + Sync> = slots.work()?;
            work.downcast::<Shared>().ok()
        });
        let counts = own.is_some() && local(&IS_AWAY, |away| !away.replace(true)) == Some(true);
        if let Some(own) = own.as_ref().filter(|_| counts) {
            own.absent.workers.fetch_add(1, Ordering::SeqCst);
        }
        let since = Instant::now();
        Self { own, counts, since }
    }

    /// Returns the interval at which the thread must call [`check`](Self::check) while it sleeps.
    /// Returns `None` if the thread is not a worker, or if another worker of its pool is not away.
    pub(super) fn check_interval(&self) -> Option<Duration> {
        self.own
            .as_ref()?
            .all_are_away()
            .then_some(WATCHDOG_INTERVAL)
    }

    /// Starts a substitute for the workers if the pool needs one. We wait for one interval first,
    /// because most workers are back before the second check, and a new thread would not be faster.
    pub(super) fn check(&self) {
        // A substitute relies on time-outs. Therefore a model in which no time-out elapses has no
        // substitute.
        #[cfg(creel_shuttle)]
        if !crate::sync::model_clock::passes() {
            return;
        }
        let Some(own) = self.own.as_ref().filter(|own| own.all_are_away()) else {
            return;
        };
        if self.since.elapsed() < WATCHDOG_INTERVAL {
            return;
        }
        let substituted = &own.absent.substituted;
        if !own.needs_a_worker() || substituted.swap(true, Ordering::SeqCst) {
            return;
        }
        let pool = Arc::clone(own);
        let name = format!("{}-away", pool.slots.name.replace('\0', ""));
        let started = thread::Builder::new()
            .name(name)
            .spawn(move || substitute(&pool));
        if started.is_err() {
            // The thread could not be started, so we allow the next check to try again.
            substituted.store(false, Ordering::SeqCst);
        }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if let Some(own) = self.own.as_ref().filter(|_| self.counts) {
            own.absent.workers.fetch_sub(1, Ordering::SeqCst);
            local(&IS_AWAY, |away| away.set(false));
        }
    }
}

impl Shared {
    /// Returns whether every worker waits in a `block_on` of another pool. A pool that is being
    /// dropped gets no substitute, because the thread that drops the pool runs the stranded work.
    fn all_are_away(&self) -> bool {
        let slots = &self.slots;
        !slots.is_closing() && self.absent.workers.load(Ordering::SeqCst) >= slots.workers()
    }

    fn needs_a_worker(&self) -> bool {
        let has_private_work = |slot| self.has_private_work(slot);
        self.tasks.any_scheduled() || (0..self.slots.workers()).any(has_private_work)
    }
}

/// Runs a substitute on the calling thread.
fn substitute(pool: &Arc<Shared>) {
    let slots = &pool.slots;
    if !slots.life.enter() {
        return;
    }
    let _user = User(slots);
    local(&SUBSTITUTE_OF, |of| of.replace(Some(Arc::clone(pool))));
    let _timers = timers::enter(Arc::clone(pool.timers.at(0)));
    let _driver = Driver::enter(Arc::clone(&pool.driver));
    let block_on_driver = BlockOnDriver::new(&pool.tasks);
    let frame = Frame::new(&pool.tasks, &block_on_driver);
    let _inside = ContextGuard::enter(&frame);
    let mut last = Stranded::default();
    while pool.all_are_away() {
        serve_callers(pool);
        if !pool.tasks.run_stranded(&mut last, false) {
            WaitWord::new(0).wait(0, Some(WATCHDOG_INTERVAL));
        }
    }
    // If this substitute itself slept in a `block_on` in the meantime, it has cleared the flag
    // already, and there may be another substitute.
    if local(&SUBSTITUTE_OF, RefCell::take).flatten().is_some() {
        pool.absent.substituted.store(false, Ordering::SeqCst);
    }
    // A worker that came back while this thread polled the sockets found the poller in use, and
    // sleeps outside of it. From now on nobody polls, so we wake a worker that then polls.
    pool.driver.wake_if_unattended();
}
