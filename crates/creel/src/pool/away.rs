//! A pool whose workers all wait in the `block_on` of other pools.
//!
//! Such a worker is *away*: it polls no task of its pool, fires no timer and asks no poller. Pools
//! whose workers wait for each other in a ring would therefore wait for ever. While all workers of a
//! pool are away, one of them looks every [`WATCHDOG_INTERVAL`] whether the pool has work. If it has, the
//! worker starts a *substitute*: a thread that does what lies behind the workers, as the watchdog does
//! for a worker that is stuck. It ends when a worker is back.
//!
//! The substitute is not a worker. What is bound to a worker waits for that worker: a task of
//! `spawn_on` or `spawn_local`, and a `run_on` from a thread that is not a worker.

use super::{
    block_on::{User, serve_callers},
    shared::Shared,
    watchdog::WATCHDOG_INTERVAL,
};
use crate::{
    net::io,
    sync::{AtomicBool, AtomicUsize, Instant, Ordering, WaitWord, local, thread, thread_local},
    task::{Behind, BlockOnDriver, ContextGuard, Frame},
    time::timers,
    worker::{current, slots::Work},
};
use std::{
    any::Any,
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};

/// The workers of a pool that are away.
#[derive(Default)]
pub(super) struct Absent {
    /// How many workers are. `SeqCst`: of two that leave at the same time, one finds both gone.
    workers: AtomicUsize,
    /// Whether there is a substitute. `SeqCst`, because it is rare.
    substituted: AtomicBool,
}

thread_local! {
    /// Whether this thread is a worker that is away.
    static IS_AWAY: Cell<bool> = const { Cell::new(false) };
    /// The pool that this thread is the substitute of.
    static SUBSTITUTE_OF: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// A thread's time in a `block_on`, from when it first sleeps there.
pub(super) struct Away {
    /// The pool of the thread, if it is a worker.
    own: Option<Arc<Shared>>,
    /// Whether this counts. Not in a `block_on` inside of another.
    counts: bool,
    since: Instant,
}

impl Away {
    /// The calling thread is about to sleep in a `block_on`.
    pub(super) fn enter() -> Self {
        // A substitute that sleeps is no substitute: a worker may start another.
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

    /// How often the thread shall [look](Self::look) while it sleeps.
    pub(super) fn looks_every(&self) -> Option<Duration> {
        self.own
            .as_ref()?
            .all_are_away()
            .then_some(WATCHDOG_INTERVAL)
    }

    /// Starts a substitute for the workers if the pool needs one. Most workers are back before the
    /// second look, and a thread would come too late for them.
    pub(super) fn look(&self) {
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
            // The next look tries again.
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
    /// Whether every worker sleeps in another pool's `block_on`. The threads of a pool that is being
    /// dropped are not replaced: the thread that drops it does what lies behind them.
    fn all_are_away(&self) -> bool {
        let slots = &self.slots;
        !slots.is_closing() && self.absent.workers.load(Ordering::SeqCst) >= slots.workers()
    }

    fn needs_a_worker(&self) -> bool {
        let hides = |slot| self.hides(slot);
        self.tasks.any_scheduled() || (0..self.slots.workers()).any(hides)
    }
}

/// The body of a substitute's thread.
fn substitute(pool: &Arc<Shared>) {
    let slots = &pool.slots;
    if !slots.life.enter() {
        return;
    }
    let _user = User(slots);
    local(&SUBSTITUTE_OF, |of| of.replace(Some(Arc::clone(pool))));
    let _timers = timers::enter(Arc::clone(pool.timers.at(0)));
    let _driver = io::enter(Arc::clone(&pool.driver));
    let block_on_driver = BlockOnDriver::new(&pool.tasks);
    let frame = Frame::new(&pool.tasks, &block_on_driver);
    let _inside = ContextGuard::enter(&frame);
    let mut last = Behind::default();
    while pool.all_are_away() {
        serve_callers(pool);
        if !pool.tasks.run_behind(&mut last, false) {
            WaitWord::new(0).wait(0, Some(WATCHDOG_INTERVAL));
        }
    }
    // Unless it went away itself, and another has come.
    if local(&SUBSTITUTE_OF, RefCell::take).flatten().is_some() {
        pool.absent.substituted.store(false, Ordering::SeqCst);
    }
}
