//! A worker's timers: its wheel, shared with the futures that own entries.
//!
//! Futures move between workers and may be dropped anywhere, so the wheel lies
//! behind a mutex. Its worker is nearly always the only one to take it, and takes it
//! once a turn: what is armed on the worker's own thread is only noted (`pending_timers.rs`), and
//! put on the wheel by whoever next looks at it. A note whose timer has been
//! dropped or reset meanwhile, on whatever thread, has a key of the past and does nothing.
//!
//! That is the worker itself, or, while a poll blocks its thread, another that
//! [`rescue`](Timers::rescue)s what is due.
//!
//! Wakers run arbitrary code (they may arm timers), hence never under that lock: `fire`
//! takes the due ones out in batches and wakes them afterwards. For the
//! same reason a waker is dropped outside of the lock.
//!
//! An entry belongs to the timers it was made on. A future that finds itself on
//! another worker moves its entry there, so that in the long run each worker
//! fires what it runs.

use super::clock::{Clock, Subscription};
use super::pending_timers::PendingTimers;
use super::wheel::{self, Key, Wheel};
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, local, lock, thread_local};
use crate::worker::stored_waker::{StoredWaker, WakerId};
use crate::worker::woken::Woken;
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
    /// What the worker has armed since the last look at the wheel. Written by the thread that has
    /// claimed [`State::served`], read under the lock. Made with the first note.
    pending: OnceLock<PendingTimers<Arm>>,
    /// Calls of `fire`. Relaxed, and counted by one thread at a time: a reader only wants to know
    /// whether there was any.
    reactions: AtomicU64,
    /// The time of the worker's turn, in nanoseconds: `fire` sets it. Timers are
    /// judged by it, which spares each a reading of the clock. It never falls, although a rescuer
    /// sets it, too: who is woken by a timer must find that its time has come. Relaxed: a stale
    /// value is only an older time, by which nothing fires early.
    turn: AtomicU64,
    /// Whether the last `fire` left due timers to the next one. Relaxed: the worker's alone.
    backlog: AtomicBool,
    /// Whether any entry was ever made. Relaxed: until a worker sees it, it finds the entry
    /// before it sleeps, under the lock.
    used: AtomicBool,
    /// Wakes the worker when another thread has armed something earlier.
    rouse: OnceLock<Waker>,
    /// The same waker's, at a manual clock.
    subscription: Mutex<Option<Subscription>>,
}

struct State {
    wheel: Wheel<StoredWaker>,
    /// The tick up to which the worker means to sleep, while it does or has no thread. An entry armed
    /// by another thread is either seen by the sleeper or sees it asleep.
    asleep_until: Option<u64>,
    /// Whether a thread has claimed to be the one that notes. It gives that back under the lock, so
    /// that what it wrote comes before what the next one writes.
    served: bool,
}

impl State {
    /// Whether the worker means to sleep beyond what is armed for `next`.
    fn rouses(&self, next: Option<u64>) -> bool {
        next.zip(self.asleep_until)
            .is_some_and(|(next, until)| next < until)
    }

    /// Puts on the wheel what has been noted, oldest first; what that leaves over goes to `spent`.
    fn take(&mut self, pending: &PendingTimers<Arm>, spent: &mut Vec<StoredWaker>) {
        // SAFETY: the state's lock is held, so this is the only reader.
        while let Some(Arm { key, tick, waker }) = unsafe { pending.pop() } {
            spent.extend(self.wheel.arm(key, tick, waker));
        }
    }
}

/// An entry that the worker has armed since its last look at the wheel.
struct Arm {
    key: Key,
    tick: u64,
    waker: StoredWaker,
}

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
                served: false,
            }),
            pending: OnceLock::new(),
            reactions: AtomicU64::new(0),
            turn: AtomicU64::new(now),
            backlog: AtomicBool::new(false),
            used: AtomicBool::new(false),
            rouse: OnceLock::new(),
            subscription: Mutex::new(None),
        }
    }

    /// Names the waker of the worker that fires these timers; once.
    pub(crate) fn set_wake(&self, waker: impl FnOnce() -> Waker) {
        // A second waker could only be the same worker's again.
        if self.rouse.get().is_some() {
            return;
        }
        let waker = waker();
        if self.rouse.set(waker.clone()).is_ok() {
            *lock(&self.subscription) = self.clock.subscribe(waker);
        }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// No worker will look any more: a manual clock need not tell.
    pub(crate) fn end(&self) {
        let subscription = lock(&self.subscription).take();
        drop(subscription);
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
    pub(crate) fn fire(&self, run: impl FnOnce(&mut Drain<'_, StoredWaker>)) -> Fired {
        let before = self.reactions.load(Ordering::Relaxed);
        self.reactions
            .store(before.wrapping_add(1), Ordering::Relaxed);
        // A worker without timers pays neither for the clock nor for the lock.
        if !self.used.load(Ordering::Relaxed) {
            return Fired::default();
        }
        if !self.backlog.load(Ordering::Relaxed) {
            self.turn
                .fetch_max(self.clock.exact_nanos(), Ordering::Relaxed);
        }
        let tick = wheel::tick_at_or_before(self.turn());
        let mut due = Woken::default();
        let more = self.look(|state| {
            state.asleep_until = None;
            self.claim(state);
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

    /// When the first timer is due, exactly: at most as dear as to look at all. It may be earlier
    /// than [`sleep_until`](Self::sleep_until) only if one was armed in between.
    pub(crate) fn first(&self) -> Option<u64> {
        self.look(|state| state.wheel.first())
            .map(wheel::tick_nanos)
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

    /// How often the worker has looked for due timers: while that stands still, it is in a poll, or
    /// asleep.
    pub(crate) fn reactions(&self) -> u64 {
        self.reactions.load(Ordering::Relaxed)
    }

    /// Takes out what is due, up to a batch, for a worker whose thread is busy with something else:
    /// from another thread, by the exact clock. The worker's own turn goes on as if they had been
    /// disarmed.
    pub(crate) fn rescue(&self) -> Rescued {
        let mut due = Woken::default();
        if !self.used.load(Ordering::Relaxed) {
            return Rescued { due, more: false };
        }
        let now = self.clock.exact_nanos();
        // What is woken may be polled where it goes by these timers: it must find its time come.
        self.turn.fetch_max(now, Ordering::Relaxed);
        let tick = wheel::tick_at_or_before(now);
        let more = self.look(|state| state.wheel.fire(tick, due.list(), BATCH));
        Rescued { due, more }
    }

    /// Wakes the worker if it is to look. Not under the lock.
    fn rouse(&self, is_to_look: bool) {
        if is_to_look && let Some(waker) = self.rouse.get() {
            waker.wake_by_ref();
        }
    }

    /// Makes the calling thread the one that notes, if it is to be and no other is.
    fn claim(&self, state: &mut State) {
        let here = here();
        if here.role == Role::Serves && ptr::eq(here.timers, self) && !state.served {
            let pending = Here {
                role: Role::PendingTimers,
                ..here
            };
            state.served = local(&HERE, |place| place.set(pending)).is_some();
        }
    }

    /// Notes what the calling thread has armed.
    ///
    /// # Safety
    ///
    /// It is the one that has claimed that, by [`Role::PendingTimers`].
    #[inline]
    unsafe fn note(&self, arm: Arm) {
        let pending = self.pending.get_or_init(PendingTimers::new);
        // SAFETY: by the claim this thread is the ring's only writer, and the claim passes to
        // another under the lock. Nothing in `push` comes back here.
        let mut full = unsafe { pending.push(arm) };
        while let Err(arm) = full {
            self.look(|_| ());
            // SAFETY: still the only writer: `look` takes notes out, as the reader, and gives no
            // claim away.
            full = unsafe { pending.push(arm) };
        }
    }

    /// Calls `f` with the wheel as it is, all that was noted being on it.
    fn look<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut spent = local(&SPENT, RefCell::take).unwrap_or_default();
        let mut state = self.lock();
        if let Some(pending) = self.pending.get() {
            state.take(pending, &mut spent);
        }
        let result = f(&mut state);
        drop(state);
        if spent.capacity() > 0 {
            spent.clear();
            local(&SPENT, |kept| kept.replace(spent));
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

/// What [`Timers::rescue`] took.
pub(crate) struct Rescued {
    /// Who has waited for these.
    pub(crate) due: Woken,
    /// Others are due.
    pub(crate) more: bool,
}

/// Whose timers the futures polled on a thread go by.
#[derive(Clone, Copy)]
struct Here {
    /// Those of the innermost [`Entered`], or null.
    timers: *const Timers,
    role: Role,
}

/// What a thread is to its timers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It arms them under the lock.
    Guest,
    /// It is the worker that fires them; a former one may not be through yet, so it does the same.
    Serves,
    /// The same, and it has claimed to be the one that notes what it arms.
    PendingTimers,
}

const NOWHERE: Here = Here {
    timers: ptr::null(),
    role: Role::Guest,
};

thread_local! {
    static HERE: Cell<Here> = const { Cell::new(NOWHERE) };
    /// Memory for wakers that a look leaves over, kept so that a turn allocates nothing.
    static SPENT: RefCell<Vec<StoredWaker>> = const { RefCell::new(Vec::new()) };
}

#[inline]
fn here() -> Here {
    local(&HERE, Cell::get).unwrap_or(NOWHERE)
}

/// Makes `timers` those of this thread until the guard is dropped.
pub(crate) fn enter(timers: Arc<Timers>) -> Entered {
    enter_as(timers, Role::Guest)
}

/// The same on the one thread that looks at them: `fire`, `sleep_until` and `may_end` are called
/// there.
pub(crate) fn serve(timers: Arc<Timers>) -> Entered {
    enter_as(timers, Role::Serves)
}

fn enter_as(timers: Arc<Timers>, role: Role) -> Entered {
    let here = Here {
        timers: Arc::as_ptr(&timers),
        role,
    };
    Entered {
        before: local(&HERE, |place| place.replace(here)).unwrap_or(NOWHERE),
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
        let here = local(&HERE, |place| place.replace(self.before)).unwrap_or(NOWHERE);
        if here.role == Role::PendingTimers {
            // What was noted last is on the wheel then, and this thread notes nothing more.
            let rouse = self.timers.look(|state| {
                state.served = false;
                state.rouses(state.wheel.next())
            });
            self.timers.rouse(rouse);
        }
    }
}

/// This thread's timers, if it has any, and what it is to them.
#[inline]
fn current<R>(f: impl FnOnce(&Timers, Role) -> R) -> Option<R> {
    let here = here();
    // SAFETY: null, or those of an `Entered` of this thread that has not been dropped (it is not
    // `Send`, and the crate forgets none), so that they live until `f`, which is this file's, returns.
    unsafe { here.timers.as_ref() }.map(|timers| f(timers, here.role))
}

/// The same, counted.
#[cold]
fn counted() -> Option<Arc<Timers>> {
    let timers = here().timers;
    if timers.is_null() {
        return None;
    }
    // SAFETY: those of an `Entered` of this thread that has not been dropped, so they live; the
    // pointer is that of the `Arc` which it has.
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
#[track_caller]
pub(super) fn expect_clock() -> Clock {
    current_clock().expect(NO_TIMERS)
}

/// When a timer is due, as far as it is known: a future may be made where no
/// clock is at hand, and settles this at its first poll.
#[derive(Clone, Copy)]
pub(super) enum Due {
    /// Nanoseconds after the first poll.
    After(u64),
    /// An instant of the clock that the first poll will find.
    Instant(Instant),
    /// Nanoseconds of the clock.
    At(u64),
    /// So many nanoseconds before the clock's epoch: it has come.
    Before(u64),
}

impl Due {
    /// So many nanoseconds from now, or from the first poll if that cannot be told.
    pub(super) fn after(nanos: u64) -> Self {
        match current_clock() {
            Some(clock) => Due::At(clock.exact_nanos().saturating_add(nanos)),
            None => Due::After(nanos),
        }
    }

    /// Nanoseconds of this thread's clock, the same from the first call on; zero if that is before
    /// its epoch.
    ///
    /// # Panics
    ///
    /// If that is the first call and this thread has no timers.
    #[inline]
    #[track_caller]
    pub(super) fn settle(&mut self) -> u64 {
        match *self {
            Due::At(at) => at,
            _ => self.settle_now(),
        }
    }

    #[cold]
    #[track_caller]
    fn settle_now(&mut self) -> u64 {
        *self = match *self {
            Due::After(nanos) => Due::At(expect_clock().exact_nanos().saturating_add(nanos)),
            Due::Instant(instant) => match expect_clock().since_epoch(instant) {
                Ok(nanos) => Due::At(nanos),
                Err(before) => Due::Before(before),
            },
            Due::At(nanos) => Due::At(nanos),
            Due::Before(before) => Due::Before(before),
        };
        match *self {
            Due::At(at) => at,
            _ => 0,
        }
    }
}

/// An entry of some worker's wheel, or of none before it is first armed.
#[derive(Default)]
pub(super) struct Entry {
    place: Option<(Arc<Timers>, Key)>,
    /// What it was last armed with there, so that a poll for another reason need not arm it again.
    /// It may have fired since: then its time has come by `turn`, which is looked at first.
    armed: Option<Armed>,
}

/// What an entry was armed with: a tick, and whom to wake, of whom the wheel keeps a count, so that
/// no other can be mistaken for it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Armed {
    tick: u64,
    waker: WakerId,
}

impl Entry {
    /// The time of this turn, in nanoseconds of the clock; armed to wake `waker`
    /// within `window` unless that has begun.
    ///
    /// # Panics
    ///
    /// On a thread that neither is a pool's worker nor blocks on one.
    #[inline]
    #[track_caller]
    pub(super) fn poll(&mut self, window: Window, waker: &Waker) -> Option<u64> {
        let polled = current(|here, role| {
            // At the first poll here the turn may lie back: a worker without timers has none, and
            // one that has taken the task of another may have looked before that one's was due.
            let turn = match self.is_of(here) {
                true => here.turn(),
                false => here.now(),
            };
            if window.earliest <= turn {
                return Some(turn);
            }
            self.arm(here, role, window.tick(), waker);
            None
        });
        polled.expect(NO_TIMERS)
    }

    /// Takes the entry off its wheel; it can be armed again.
    pub(super) fn disarm(&mut self) {
        self.armed = None;
        if let Some((timers, key)) = &mut self.place {
            let old = timers.lock().wheel.disarm(key);
            drop(old);
        }
    }

    #[inline]
    fn is_of(&self, here: &Timers) -> bool {
        let own = self.place.as_ref();
        own.is_some_and(|(timers, _)| ptr::eq(Arc::as_ptr(timers), here))
    }

    #[inline]
    fn arm(&mut self, here: &Timers, role: Role, tick: u64, waker: &Waker) {
        let armed = Some(Armed {
            tick,
            waker: WakerId::of(waker),
        });
        if self.armed == armed && self.is_of(here) {
            return;
        }
        // First: where it panics, the entry is armed as it was.
        let waker = StoredWaker::new(waker);
        match &self.place {
            Some((timers, key))
                if role == Role::PendingTimers && ptr::eq(Arc::as_ptr(timers), here) =>
            {
                // SAFETY: the role is this thread's.
                unsafe {
                    here.note(Arm {
                        key: *key,
                        tick,
                        waker,
                    });
                }
            }
            _ => self.arm_at_once(here, tick, waker),
        }
        self.armed = armed;
    }

    /// Arms the entry for the first time here, or not on the thread that serves the timers.
    #[cold]
    fn arm_at_once(&mut self, here: &Timers, tick: u64, waker: StoredWaker) {
        if !self.is_of(here) {
            self.remove();
        }
        let mut state = here.lock();
        let (_, key) = self.place.get_or_insert_with(|| {
            here.used.store(true, Ordering::Relaxed);
            let timers = counted().expect(NO_TIMERS);
            (timers, state.wheel.insert())
        });
        // By this also what the worker may have noted of it is of the past.
        let old = state.wheel.disarm(key);
        state.wheel.arm(*key, tick, waker);
        let rouse = state.rouses(Some(tick));
        drop(state);
        drop(old);
        here.rouse(rouse);
    }

    fn remove(&mut self) {
        if let Some((timers, key)) = self.place.take() {
            let old = timers.lock().wheel.remove(key);
            drop(old);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.remove();
    }
}
