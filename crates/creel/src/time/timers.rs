//! The timers of a worker: its timer wheel, shared with the futures that own the entries.
//!
//! Futures move between workers and can be dropped on any thread, so a mutex protects the wheel.
//! Nearly always, only the worker itself takes this mutex, and it does so once per turn. If the
//! worker's own thread arms an entry again, it only appends a *pending timer* to a ring
//! (`pending_timers.rs`). The next thread that accesses the wheel moves the pending timers onto it.
//! If a timer has been dropped or reset since, for example by another thread, the key of its
//! pending timer is out of date, so it has no effect.
//!
//! That next thread is usually the worker itself. If a poll blocks the worker's thread, another
//! worker can [`rescue`](Timers::rescue) the timers that are due.
//!
//! Wakers run arbitrary code, which may arm timers. Therefore we never wake them while we hold the
//! lock. `fire` takes the due wakers out in batches and wakes them afterwards. For the same reason,
//! we drop wakers only without the lock.
//!
//! An entry belongs to the timers of the worker on which it was created. If a future is polled on
//! another worker, it moves its entry there. In the long run, each worker therefore fires the
//! timers of the tasks that it runs.

use super::clock::{Clock, Subscription};
use super::pending_timers::PendingTimers;
use super::wheel::{self, Key, Wheel};
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, local, lock, thread_local};
use crate::worker::parts::Fired;
use crate::worker::stored_waker::{StoredWaker, WakerId};
use crate::worker::woken::Woken;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Instant;
use std::vec::Drain;

const NO_TIMERS: &str = "a timer can be awaited only on a worker of a pool or in the block_on of a \
                         pool";

/// The maximum number of timers per turn. The tasks that they wake run before the worker fires the
/// next timers, while their data is still in the cache.
const BATCH: usize = 32;

/// The timers of one worker.
pub(crate) struct Timers {
    clock: Clock,
    state: Mutex<State>,
    /// The entries that the worker has armed since the wheel was last accessed. The thread that has
    /// claimed [`State::served`] writes them, and they are read under the lock. The ring is created
    /// with the first pending timer.
    pending: OnceLock<PendingTimers<Arm>>,
    /// The number of calls of `fire`. Only one thread at a time changes it. Relaxed is enough,
    /// because a reader only wants to know whether there was a new call.
    reactions: AtomicU64,
    /// The time of the worker's turn in nanoseconds. A future compares its deadline with this time,
    /// so that it does not need to read the clock. `fire` sets it. A worker that rescues timers
    /// sets it as well, because a task that a timer wakes must find that its time has come. It
    /// never decreases. Relaxed is enough, because a stale value is only an earlier time, so no
    /// timer fires early because of it.
    turn: AtomicU64,
    /// Whether the last `fire` left due timers to the next one. Relaxed is enough, because only the
    /// worker uses it.
    backlog: AtomicBool,
    /// Whether any entry was ever created. Relaxed is enough, because a worker that does not see
    /// this yet finds the entry under the lock before it sleeps.
    used: AtomicBool,
    /// Wakes the worker when another thread has armed an earlier entry.
    sleeper_waker: OnceLock<Waker>,
    /// The registration of the worker's waker with a manual clock.
    subscription: Mutex<Option<Subscription>>,
}

struct State {
    wheel: Wheel<StoredWaker>,
    /// The tick until which the worker intends to sleep, while it sleeps or has no thread. This
    /// tick and the wheel are under one lock. Therefore, when another thread arms an entry, either
    /// the worker sees the entry before it sleeps, or the other thread sees that the worker sleeps.
    asleep_until: Option<u64>,
    /// Whether a thread has claimed the right to write pending timers. It returns this right under
    /// the lock, so that its writes happen before those of the next thread.
    served: bool,
}

impl State {
    /// Returns whether the worker intends to sleep beyond the tick `next`.
    fn needs_wake(&self, next: Option<u64>) -> bool {
        next.zip(self.asleep_until)
            .is_some_and(|(next, until)| next < until)
    }

    /// Moves the pending timers onto the wheel, starting with the oldest. Wakers that are no longer
    /// needed go to `spent`.
    fn take(&mut self, pending: &PendingTimers<Arm>, spent: &mut Vec<StoredWaker>) {
        // SAFETY: the lock of the state is held, so this is the only reader.
        while let Some(Arm { key, tick, waker }) = unsafe { pending.pop() } {
            spent.extend(self.wheel.arm(key, tick, waker));
        }
    }
}

/// A pending timer: an entry that the worker has armed since the wheel was last accessed.
struct Arm {
    key: Key,
    tick: u64,
    waker: StoredWaker,
}

/// The time window in which an entry may fire, in nanoseconds of the clock.
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
    /// Creates timers that use `clock`.
    pub(super) fn new(clock: Clock) -> Self {
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
            sleeper_waker: OnceLock::new(),
            subscription: Mutex::new(None),
        }
    }

    /// Sets the waker of the worker that fires these timers. Only the first call has an effect.
    pub(super) fn set_wake(&self, waker: impl FnOnce() -> Waker) {
        // We keep the first waker, because a second one can only belong to the same worker.
        if self.sleeper_waker.get().is_some() {
            return;
        }
        let waker = waker();
        if self.sleeper_waker.set(waker.clone()).is_ok() {
            *lock(&self.subscription) = self.clock.subscribe(waker);
        }
    }

    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Ends the registration with a manual clock, because no worker will fire these timers any
    /// more.
    pub(super) fn end(&self) {
        let subscription = lock(&self.subscription).take();
        drop(subscription);
    }

    /// Returns the clock that these timers use.
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the time of the worker's current turn, in nanoseconds of the clock.
    #[inline]
    pub(super) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    #[cold]
    fn now(&self) -> u64 {
        self.clock.exact_nanos()
    }

    /// Begins a turn. Reads the clock and passes the wakers that are due to `run`, up to one batch.
    /// If more are due, the next call continues with the same reading of the clock, so that the
    /// backlog has an end.
    pub(super) fn fire(&self, run: impl FnOnce(&mut Drain<'_, StoredWaker>)) -> Fired {
        let before = self.reactions.load(Ordering::Relaxed);
        self.reactions
            .store(before.wrapping_add(1), Ordering::Relaxed);
        // A worker without timers neither reads the clock nor takes the lock.
        if !self.used.load(Ordering::Relaxed) {
            return Fired::default();
        }
        if !self.backlog.load(Ordering::Relaxed) {
            self.turn
                .fetch_max(self.clock.exact_nanos(), Ordering::Relaxed);
        }
        let tick = wheel::tick_at_or_before(self.turn());
        let mut due = Woken::default();
        let more = self.with_state(|state| {
            state.asleep_until = None;
            self.claim(state);
            state.wheel.fire(tick, due.list(), BATCH)
        });
        self.backlog.store(more, Ordering::Relaxed);
        let count = due.list().len();
        due.run(run);
        Fired { count, more }
    }

    /// Returns the time at which the worker must fire timers again, in nanoseconds of the clock.
    /// Returns `None` if no timer is armed.
    ///
    /// From here until the next `fire`, the worker counts as asleep. If another thread arms an
    /// earlier timer, it wakes the worker.
    pub(super) fn sleep_until(&self) -> Option<u64> {
        let next = self.with_state(|state| {
            let next = state.wheel.next();
            state.asleep_until = Some(next.unwrap_or(u64::MAX));
            next
        });
        next.map(wheel::tick_nanos)
    }

    /// Returns the exact time at which the first timer is due. It costs at most one pass over all
    /// entries. It can be earlier than the result of [`sleep_until`](Self::sleep_until) only if a
    /// timer was armed after that call.
    pub(crate) fn first(&self) -> Option<u64> {
        self.with_state(|state| state.wheel.first())
            .map(wheel::tick_nanos)
    }

    /// Returns whether no timer is armed. If so, the worker counts as asleep from now on, as before
    /// its first turn.
    pub(super) fn may_end(&self) -> bool {
        self.with_state(|state| {
            let is_idle = state.wheel.is_empty();
            if is_idle {
                state.asleep_until = Some(u64::MAX);
            }
            is_idle
        })
    }

    /// Returns the number of times that the worker has checked its timers. While this number does
    /// not change, the worker is asleep or in user code, for example in a poll.
    pub(super) fn reactions(&self) -> u64 {
        self.reactions.load(Ordering::Relaxed)
    }

    /// Takes out the wakers that are due, up to one batch, on behalf of a worker whose thread is
    /// busy. Another thread calls this, and it uses the exact clock. For the worker's own turn,
    /// these timers look as if they had been disarmed.
    pub(crate) fn rescue(&self) -> Rescued {
        let mut due = Woken::default();
        if !self.used.load(Ordering::Relaxed) {
            return Rescued { due, more: false };
        }
        let now = self.clock.exact_nanos();
        // A task that we wake may be polled on the thread of this worker, which compares deadlines
        // with `turn`. Therefore `turn` must show that the task's time has come.
        self.turn.fetch_max(now, Ordering::Relaxed);
        let tick = wheel::tick_at_or_before(now);
        let more = self.with_state(|state| state.wheel.fire(tick, due.list(), BATCH));
        Rescued { due, more }
    }

    /// Wakes the worker if `needs_wake` is set. The caller must not hold the lock.
    fn wake_sleeper(&self, needs_wake: bool) {
        if needs_wake && let Some(waker) = self.sleeper_waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Lets the calling thread write pending timers, if it serves these timers and no other thread
    /// has this right.
    fn claim(&self, state: &mut State) {
        let current = read_current();
        if current.role == Role::Serves && ptr::eq(current.timers, self) && !state.served {
            let pending = Current {
                role: Role::PendingTimers,
                ..current
            };
            state.served = local(&CURRENT, |place| place.set(pending)).is_some();
        }
    }

    /// Adds a pending timer of the calling thread.
    ///
    /// # Safety
    ///
    /// The calling thread has the right to write pending timers, according to
    /// [`Role::PendingTimers`].
    #[inline]
    unsafe fn push_pending(&self, arm: Arm) {
        let pending = self.pending.get_or_init(PendingTimers::new);
        // SAFETY: this thread has the right to write, so it is the only writer of the ring, and the
        // right passes to another thread under the lock. `push` does not call back into this
        // function.
        let mut full = unsafe { pending.push(arm) };
        while let Err(arm) = full {
            self.with_state(|_| ());
            // SAFETY: this thread is still the only writer, because `with_state` only takes pending
            // timers out, as the reader, and does not give the right away.
            full = unsafe { pending.push(arm) };
        }
    }

    /// Calls `f` with the wheel, after all pending timers were moved onto it.
    fn with_state<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
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

/// The result of [`Timers::rescue`].
pub(crate) struct Rescued {
    /// The wakers of the tasks that waited for these timers.
    pub(crate) due: Woken,
    /// Whether more timers are due.
    pub(crate) more: bool,
}

/// The timers that the futures polled on a thread use.
#[derive(Clone, Copy)]
struct Current {
    /// The timers of the innermost [`Entered`], or null.
    timers: *const Timers,
    role: Role,
}

/// The role of a thread for its timers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The thread does not fire these timers. It arms timers under the lock of the wheel.
    BlockOnCaller,
    /// The thread belongs to the worker that fires the timers. It also arms them under the lock of
    /// the wheel, because a former thread of the worker may not have finished yet.
    Serves,
    /// The thread belongs to the worker that fires the timers, and it has the right to write
    /// pending timers.
    PendingTimers,
}

const NONE: Current = Current {
    timers: ptr::null(),
    role: Role::BlockOnCaller,
};

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new(NONE) };
    /// Memory for wakers that are no longer needed, which we keep so that a turn does not allocate.
    static SPENT: RefCell<Vec<StoredWaker>> = const { RefCell::new(Vec::new()) };
}

#[inline]
fn read_current() -> Current {
    local(&CURRENT, Cell::get).unwrap_or(NONE)
}

/// Makes `timers` the timers of this thread until the guard is dropped.
pub(crate) fn enter(timers: Arc<Timers>) -> Entered {
    enter_as(timers, Role::BlockOnCaller)
}

/// Makes `timers` the timers of this thread like [`enter`], for the one thread that fires them.
/// Only this thread calls `fire`, `sleep_until` and `may_end`.
pub(super) fn serve(timers: Arc<Timers>) -> Entered {
    enter_as(timers, Role::Serves)
}

fn enter_as(timers: Arc<Timers>, role: Role) -> Entered {
    let current = Current {
        timers: Arc::as_ptr(&timers),
        role,
    };
    Entered {
        before: local(&CURRENT, |place| place.replace(current)).unwrap_or(NONE),
        timers,
    }
}

/// A guard that restores the timers that [`enter`] or [`serve`] replaced.
pub(crate) struct Entered {
    before: Current,
    /// Keeps the timers alive while `CURRENT` points to them.
    timers: Arc<Timers>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let current = local(&CURRENT, |place| place.replace(self.before)).unwrap_or(NONE);
        if current.role == Role::PendingTimers {
            // `with_state` moves the last pending timers onto the wheel. After that, this thread
            // writes no more of them.
            let needs_wake = self.timers.with_state(|state| {
                state.served = false;
                state.needs_wake(state.wheel.next())
            });
            self.timers.wake_sleeper(needs_wake);
        }
    }
}

/// Calls `f` with the timers of this thread and its role, if the thread has timers.
#[inline]
fn with_current<R>(f: impl FnOnce(&Timers, Role) -> R) -> Option<R> {
    let current = read_current();
    // SAFETY: the pointer is null or that of an `Entered` of this thread. The `Entered` has not
    // been dropped, because it is not `Send` and this crate never leaks one. Therefore the timers
    // live until `f`, which is in this file, returns.
    unsafe { current.timers.as_ref() }.map(|timers| f(timers, current.role))
}

/// Returns a counted reference to the timers of this thread.
#[cold]
fn counted() -> Option<Arc<Timers>> {
    let timers = read_current().timers;
    if timers.is_null() {
        return None;
    }
    // SAFETY: the pointer is that of an `Entered` of this thread, which has not been dropped, so
    // the timers are alive. The pointer comes from the `Arc` that it owns.
    unsafe { Arc::increment_strong_count(timers) };
    // SAFETY: this takes over the reference that was just added.
    Some(unsafe { Arc::from_raw(timers) })
}

/// Returns the clock of this thread's timers, if it has any.
pub(super) fn current_clock() -> Option<Clock> {
    with_current(|timers, _| timers.clock.clone())
}

/// Returns the clock of this thread's timers.
///
/// # Panics
///
/// Panics on a thread that is neither a worker of a pool nor inside `block_on`.
#[track_caller]
pub(super) fn expect_clock() -> Clock {
    current_clock().expect(NO_TIMERS)
}

/// The time when a timer is due, as far as we know it. A future may be created where no clock is
/// available. Its first poll then settles the time.
#[derive(Clone, Copy)]
pub(super) enum Due {
    /// The timer is due this number of nanoseconds after the first poll of its future.
    After(u64),
    /// The timer is due at this instant of the clock that the first poll will find.
    Instant(Instant),
    /// The timer is due this number of nanoseconds after the epoch of the clock.
    At(u64),
    /// The timer was due this number of nanoseconds before the epoch of the clock, so it is due
    /// already.
    Before(u64),
}

impl Due {
    /// Returns the time in `nanos` nanoseconds, counted from now, or from the first poll if this
    /// thread has no clock.
    pub(super) fn after(nanos: u64) -> Self {
        match current_clock() {
            Some(clock) => Due::At(clock.exact_nanos().saturating_add(nanos)),
            None => Due::After(nanos),
        }
    }

    /// Returns when the timer is due, in nanoseconds since the epoch of this thread's clock, or 0 if
    /// that is before the epoch. The first call fixes this time, so later calls return the same.
    ///
    /// # Panics
    ///
    /// Panics if this thread has no timers and the time is not counted from the epoch of a clock
    /// yet.
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

/// An entry in the wheel of a worker, or in no wheel before it is armed for the first time.
#[derive(Default)]
pub(super) struct Entry {
    place: Option<(Arc<Timers>, Key)>,
    /// The arguments with which the entry was last armed, so that a poll for another reason need
    /// not arm it again. The entry may have fired since. In that case its time has come according
    /// to `turn`, which we check first.
    armed: Option<Armed>,
}

/// The arguments with which an entry was armed: the tick and the waker. Until the entry fires, the
/// wheel keeps a clone of the waker, so no other waker can have the same id.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Armed {
    tick: u64,
    waker: WakerId,
}

impl Entry {
    /// Returns the time of this turn in nanoseconds of the clock, if `window` has begun. Otherwise
    /// arms the entry to wake `waker` within `window`.
    ///
    /// # Panics
    ///
    /// Panics on a thread that is neither a worker of a pool nor inside `block_on`.
    #[inline]
    #[track_caller]
    pub(super) fn poll(&mut self, window: Window, waker: &Waker) -> Option<u64> {
        let polled = with_current(|timers, role| {
            // When the entry is polled on this worker for the first time, `turn` may be out of
            // date. A worker without timers does not update it, and a worker that has stolen the
            // task may have begun its turn before the task was due. Therefore we read the clock.
            let turn = match self.is_of(timers) {
                true => timers.turn(),
                false => timers.now(),
            };
            if window.earliest <= turn {
                return Some(turn);
            }
            self.arm(timers, role, window.tick(), waker);
            None
        });
        polled.expect(NO_TIMERS)
    }

    /// Takes the entry off its wheel. It can be armed again.
    pub(super) fn disarm(&mut self) {
        self.armed = None;
        if let Some((timers, key)) = &mut self.place {
            let old = timers.lock().wheel.disarm(key);
            drop(old);
        }
    }

    #[inline]
    fn is_of(&self, timers: &Timers) -> bool {
        let own = self.place.as_ref();
        own.is_some_and(|(own, _)| ptr::eq(Arc::as_ptr(own), timers))
    }

    #[inline]
    fn arm(&mut self, timers: &Timers, role: Role, tick: u64, waker: &Waker) {
        let armed = Some(Armed {
            tick,
            waker: WakerId::of(waker),
        });
        if self.armed == armed && self.is_of(timers) {
            return;
        }
        // We clone the waker first. If this panics, the entry stays armed as it was.
        let waker = StoredWaker::new(waker);
        match &self.place {
            Some((own, key))
                if role == Role::PendingTimers && ptr::eq(Arc::as_ptr(own), timers) =>
            {
                // SAFETY: according to its role, this thread has the right to write pending timers.
                unsafe {
                    own.push_pending(Arm {
                        key: *key,
                        tick,
                        waker,
                    });
                }
            }
            _ => self.arm_at_once(timers, tick, waker),
        }
        self.armed = armed;
    }

    /// Arms the entry under the lock of the wheel. We need this if the entry is armed on this wheel
    /// for the first time, or if this thread does not have the right to write pending timers.
    #[cold]
    fn arm_at_once(&mut self, timers: &Timers, tick: u64, waker: StoredWaker) {
        if !self.is_of(timers) {
            self.remove();
        }
        let mut state = timers.lock();
        let (_, key) = self.place.get_or_insert_with(|| {
            timers.used.store(true, Ordering::Relaxed);
            let timers = counted().expect(NO_TIMERS);
            (timers, state.wheel.insert())
        });
        // Disarming the entry also invalidates a pending timer that the worker may have added for
        // it.
        let old = state.wheel.disarm(key);
        state.wheel.arm(*key, tick, waker);
        let needs_wake = state.needs_wake(Some(tick));
        drop(state);
        drop(old);
        timers.wake_sleeper(needs_wake);
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
