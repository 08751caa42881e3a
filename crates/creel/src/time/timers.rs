//! A worker's timers: its wheel, shared with the futures that own entries.
//!
//! Futures move between workers and may be dropped anywhere, so the wheel lies
//! behind a mutex. Its worker is nearly always the only one to take it, and takes it
//! once a turn: what is armed on the worker's own thread is only noted ([`Arm`]), and
//! put on the wheel before the worker next looks at it. A note whose timer has been
//! dropped or reset meanwhile, on whatever thread, has a key of the past and does nothing.
//!
//! Wakers run arbitrary code (they may arm timers), hence never under that lock: `fire`
//! takes the due ones out in batches and wakes them afterwards. For the
//! same reason a waker is dropped outside of the lock.
//!
//! An entry belongs to the timers it was made on. A future that finds itself on
//! another worker moves its entry there, so that in the long run each worker
//! fires what it runs.

use super::clock::Clock;
use super::wheel::{self, Key, Wheel};
use crate::pool::woken::Woken;
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, thread_local};
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Instant;
use std::vec::Drain;

const NO_TIMERS: &str = "a timer is awaited on a pool's worker or in its block_on";

/// Timers a turn, at most: what they wake runs before the next ones are looked at, while it is
/// still in the cache.
const BATCH: usize = 32;

/// The timers of one worker.
pub(crate) struct Timers {
    clock: Clock,
    state: Mutex<State>,
    /// The time of the worker's turn, in nanoseconds: `fire` sets it. Timers are
    /// judged by it, which spares each a reading of the clock. Relaxed: a stale
    /// value is only an older time, by which nothing fires early.
    turn: AtomicU64,
    /// Whether the last `fire` left due timers to the next one. Relaxed: the worker's alone.
    backlog: AtomicBool,
    /// Whether any entry was ever made. Relaxed: until a worker sees it, it finds the entry
    /// before it sleeps, under the lock.
    used: AtomicBool,
    /// Wakes the worker when another thread has armed something earlier.
    rouse: OnceLock<Waker>,
}

struct State {
    wheel: Wheel<Waker>,
    /// The tick up to which the worker means to sleep, while it does or has no thread. An entry armed
    /// by another thread is either seen by the sleeper or sees it asleep.
    asleep_until: Option<u64>,
}

/// An entry that the worker has armed since its last look at the wheel.
struct Arm {
    key: Key,
    tick: u64,
    /// None once it is on the wheel.
    waker: Option<Waker>,
}

/// Notes at most; a task may be polled again and again in one turn, and note its timer each time.
const ARMS_MAX: usize = 256;

/// From when to when an entry may fire, in nanoseconds of the clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) earliest: u64,
    pub(super) latest: u64,
}

impl Window {
    #[inline]
    fn tick(self) -> u64 {
        let lo = wheel::tick_at_or_after(self.earliest);
        wheel::roundest(lo, wheel::tick_at_or_before(self.latest).max(lo))
    }
}

impl Timers {
    /// Timers that go by `clock`.
    pub(crate) fn new(clock: Clock) -> Self {
        let now = clock.exact_nanos();
        Timers {
            clock,
            state: Mutex::new(State {
                wheel: Wheel::new(wheel::tick_at_or_before(now)),
                asleep_until: Some(u64::MAX),
            }),
            turn: AtomicU64::new(now),
            backlog: AtomicBool::new(false),
            used: AtomicBool::new(false),
            rouse: OnceLock::new(),
        }
    }

    /// Names the waker of the worker that fires these timers; once.
    pub(crate) fn set_rouse(&self, waker: Waker) {
        // A second waker could only be the same worker's again.
        if self.rouse.set(waker.clone()).is_ok() {
            self.clock.subscribe(waker);
        }
    }

    /// The clock these timers go by.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The time of the turn that the worker is in, in nanoseconds of the clock.
    #[inline]
    pub(super) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    #[cold]
    fn now(&self) -> u64 {
        self.clock.exact_nanos()
    }

    /// Begins a turn: reads the clock and gives `run` the wakers that are due, up to a batch. What a
    /// batch leaves is the next call's, which goes by the same reading of the clock, so that it has
    /// an end.
    pub(crate) fn fire(&self, run: impl FnOnce(&mut Drain<'_, Waker>)) -> Fired {
        // A worker without timers pays neither for the clock nor for the lock.
        if !self.used.load(Ordering::Relaxed) {
            return Fired::default();
        }
        if !self.backlog.load(Ordering::Relaxed) {
            self.turn.store(self.clock.exact_nanos(), Ordering::Relaxed);
        }
        let tick = wheel::tick_at_or_before(self.turn());
        let mut due = Woken::default();
        let more = self.look(|state| {
            state.asleep_until = None;
            state.wheel.fire(tick, due.list(), BATCH)
        });
        self.backlog.store(more, Ordering::Relaxed);
        let count = due.list().len();
        due.run(run);
        Fired { count, more }
    }

    /// When the worker must look again: nanoseconds of the clock, or never.
    ///
    /// From here until the next `fire` the worker counts as asleep, and a
    /// timer armed earlier by another thread rouses it.
    pub(crate) fn sleep_until(&self) -> Option<u64> {
        let next = self.look(|state| {
            let next = state.wheel.next();
            state.asleep_until = Some(next.unwrap_or(u64::MAX));
            next
        });
        next.map(wheel::tick_nanos)
    }

    /// Whether no timer is armed. From then on the worker counts as asleep, as it does before
    /// its first turn.
    pub(crate) fn may_end(&self) -> bool {
        self.look(|state| {
            let is_idle = state.wheel.is_empty();
            if is_idle {
                state.asleep_until = Some(u64::MAX);
            }
            is_idle
        })
    }

    /// Calls `f` with the wheel as it is, all that this thread has noted being on it.
    fn look<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut arms = if HERE.with(Cell::get).serves(self) {
            ARMS.with(RefCell::take)
        } else {
            Vec::new()
        };
        let mut state = self.lock();
        for arm in &mut arms {
            if let Some(waker) = arm.waker.take() {
                arm.waker = state.wheel.arm(arm.key, arm.tick, waker);
            }
        }
        let result = f(&mut state);
        drop(state);
        if arms.capacity() > 0 {
            // Drops wakers.
            arms.clear();
            ARMS.with(|kept| kept.replace(arms));
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What [`Timers::fire`] did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fired {
    /// How many timers.
    pub(crate) count: usize,
    /// Others are due and left to the next call.
    pub(crate) more: bool,
}

/// Whose timers the futures polled on a thread go by.
#[derive(Clone, Copy)]
struct Here {
    /// Those of the innermost [`Entered`], or null.
    timers: *const Timers,
    /// Whether the thread is the worker that fires them.
    serves: bool,
}

impl Here {
    fn serves(self, timers: &Timers) -> bool {
        self.serves && ptr::eq(self.timers, timers)
    }
}

thread_local! {
    static HERE: Cell<Here> = const { Cell::new(Here { timers: ptr::null(), serves: false }) };
    /// What this thread, a worker, has armed since its last look at its wheel.
    static ARMS: RefCell<Vec<Arm>> = const { RefCell::new(Vec::new()) };
}

/// Makes `timers` those of this thread until the guard is dropped.
pub(crate) fn enter(timers: Arc<Timers>) -> Entered {
    enter_as(timers, false)
}

/// The same on the one thread that looks at them: `fire`, `sleep_until` and `may_end` are called
/// there.
pub(crate) fn serve(timers: Arc<Timers>) -> Entered {
    enter_as(timers, true)
}

fn enter_as(timers: Arc<Timers>, serves: bool) -> Entered {
    let here = Here {
        timers: Arc::as_ptr(&timers),
        serves,
    };
    Entered {
        before: HERE.with(|place| place.replace(here)),
        timers,
    }
}

/// Puts back what [`enter`] or [`serve`] replaced.
pub(crate) struct Entered {
    before: Here,
    /// Kept alive while `HERE` names them.
    timers: Arc<Timers>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Puts what was noted last on the wheel.
        self.timers.look(|_| ());
        HERE.with(|place| place.set(self.before));
    }
}

/// This thread's timers, if it has any, and whether it serves them.
#[inline]
fn current<R>(f: impl FnOnce(&Timers, bool) -> R) -> Option<R> {
    let here = HERE.with(Cell::get);
    // SAFETY: null, or those of an `Entered` of this thread that has not been dropped (it is not
    // `Send`, and the crate forgets none), so that they live until `f`, which is this file's, returns.
    unsafe { here.timers.as_ref() }.map(|timers| f(timers, here.serves))
}

/// The same, counted.
#[cold]
fn counted() -> Option<Arc<Timers>> {
    let timers = HERE.with(Cell::get).timers;
    if timers.is_null() {
        return None;
    }
    // SAFETY: as in `current`; the pointer is that of an `Arc`.
    unsafe { Arc::increment_strong_count(timers) };
    // SAFETY: the count just added.
    Some(unsafe { Arc::from_raw(timers) })
}

/// The clock of this thread's timers, if it has any.
pub(super) fn current_clock() -> Option<Clock> {
    current(|timers, _| timers.clock.clone())
}

/// The clock of this thread's timers.
///
/// # Panics
///
/// On a thread that neither is a pool's worker nor blocks on one.
pub(super) fn expect_clock() -> Clock {
    current_clock().expect(NO_TIMERS)
}

/// When a timer is due, as far as it is known: a future may be made where no
/// clock is at hand, and settles this at its first poll.
pub(super) enum Due {
    /// Nanoseconds after the first poll.
    After(u64),
    /// An instant of the clock that the first poll will find.
    Instant(Instant),
    /// Nanoseconds of the clock.
    At(u64),
}

impl Due {
    /// So many nanoseconds from now, or from the first poll if that cannot be told.
    pub(super) fn after(nanos: u64) -> Self {
        match current_clock() {
            Some(clock) => Due::At(clock.exact_nanos().saturating_add(nanos)),
            None => Due::After(nanos),
        }
    }

    /// Nanoseconds of this thread's clock, the same from the first call on.
    ///
    /// # Panics
    ///
    /// If that is the first call and this thread has no timers.
    #[inline]
    pub(super) fn settle(&mut self) -> u64 {
        match *self {
            Due::At(at) => at,
            _ => self.settle_now(),
        }
    }

    #[cold]
    fn settle_now(&mut self) -> u64 {
        let at = match *self {
            Due::At(at) => at,
            Due::After(nanos) => expect_clock().exact_nanos().saturating_add(nanos),
            Due::Instant(instant) => expect_clock().nanos_at(instant),
        };
        *self = Due::At(at);
        at
    }
}

/// An entry of some worker's wheel, or of none before it is first armed.
#[derive(Default)]
pub(super) struct Entry(Option<(Arc<Timers>, Key)>);

impl Entry {
    /// The time of this turn, in nanoseconds of the clock; armed to wake `waker`
    /// within `window` unless that has begun.
    ///
    /// # Panics
    ///
    /// On a thread that neither is a pool's worker nor blocks on one.
    #[inline]
    pub(super) fn poll(&mut self, window: Window, waker: &Waker) -> Option<u64> {
        let polled = current(|here, serves| {
            // At the first poll the turn may lie back: a worker without timers has none.
            let turn = match self.0 {
                Some(_) => here.turn(),
                None => here.now(),
            };
            if window.earliest <= turn {
                return Some(turn);
            }
            self.arm(here, serves, window.tick(), waker);
            None
        });
        polled.expect(NO_TIMERS)
    }

    /// Takes the entry off its wheel; it can be armed again.
    pub(super) fn disarm(&mut self) {
        if let Some((timers, key)) = &mut self.0 {
            let old = timers.lock().wheel.disarm(key);
            drop(old);
        }
    }

    #[inline]
    fn arm(&mut self, here: &Timers, serves: bool, tick: u64, waker: &Waker) {
        match &self.0 {
            Some((timers, key)) if serves && ptr::eq(Arc::as_ptr(timers), here) => {
                note(here, *key, tick, waker);
            }
            _ => self.arm_at_once(here, tick, waker.clone()),
        }
    }

    /// Arms the entry for the first time here, or not on the thread that serves the timers.
    #[cold]
    fn arm_at_once(&mut self, here: &Timers, tick: u64, waker: Waker) {
        if let Some((timers, _)) = &self.0
            && !ptr::eq(Arc::as_ptr(timers), here)
        {
            self.remove();
        }
        let mut state = here.lock();
        let (_, key) = self.0.get_or_insert_with(|| {
            here.used.store(true, Ordering::Relaxed);
            let timers = counted().expect(NO_TIMERS);
            (timers, state.wheel.insert())
        });
        // By this also what the worker may have noted of it is of the past.
        let old = state.wheel.disarm(key);
        state.wheel.arm(*key, tick, waker);
        let rouse = state.asleep_until.is_some_and(|until| tick < until);
        drop(state);
        drop(old);
        if rouse && let Some(waker) = here.rouse.get() {
            waker.wake_by_ref();
        }
    }

    fn remove(&mut self) {
        if let Some((timers, key)) = self.0.take() {
            let old = timers.lock().wheel.remove(key);
            drop(old);
        }
    }
}

/// Notes what the thread that serves `here` has armed.
#[inline]
fn note(here: &Timers, key: Key, tick: u64, waker: &Waker) {
    let arm = Arm {
        key,
        tick,
        waker: Some(waker.clone()),
    };
    let full = ARMS.with(|arms| {
        let mut arms = arms.borrow_mut();
        arms.push(arm);
        arms.len() >= ARMS_MAX
    });
    if full {
        here.look(|_| ());
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.remove();
    }
}
