//! The steps of simulated threads, which are the functions that the rest of the crate calls.

use super::{Engine, Event, State, Turn, current_engine, with};
use crate::cache::Access;
use crate::profile;
use std::ops::Range;

/// The length in nanoseconds of the steps into which we split work, so that a thread can be
/// preempted in the middle.
const STEP: u64 = 100_000;

impl Engine {
    fn work(&self, ns: u64) {
        self.settle();
        let mut left = self.0.borrow_mut().begin_work(ns);
        while left > 0 {
            self.settle();
            let step = left.min(STEP);
            self.spend(step);
            left -= step;
        }
    }

    /// Runs the ordinary instructions before an access, and waits until the current PU has the
    /// earliest clock. This is not a part of [`access`](Self::access), because a larger stack frame
    /// of every access would change which simulated objects share a cache line.
    fn begin_access(&self) {
        self.0.borrow_mut().spend_code();
        self.settle();
    }

    #[track_caller]
    fn access<R>(&self, at: usize, kind: Access, step: impl FnOnce() -> R) -> R {
        self.begin_access();
        let is_complete = {
            let mut state = self.0.borrow_mut();
            let ns = state.access(at, kind);
            profile::count(Some(at), ns, state.current == Some(0));
            match kind {
                Access::Load => ns <= state.costs.hit,
                // Other cores can see a buffered value at once.
                Access::Store => true,
                Access::Exchange => ns <= state.costs.rmw,
            }
        };
        // An access that waits for the cache line is made when the cache line arrives.
        if !is_complete {
            self.settle();
        }
        step()
    }

    /// Sleeps until a wake on `at` or for `timeout`.
    fn sleep(&self, at: usize, timeout: Option<u64>) {
        {
            let mut state = self.0.borrow_mut();
            let thread = state.current.expect("a simulated thread runs");
            let now = state.pus[state.current_pu()].now;
            state.threads[thread].asleep_on = Some(at);
            state.threads[thread].sleeps += 1;
            if at != 0 {
                state.sleepers.entry(at).or_default().push_back(thread);
            }
            if let Some(timeout) = timeout {
                let sleeps = state.threads[thread].sleeps;
                let due = now
                    .saturating_add(timeout)
                    .saturating_add(state.costs.timer);
                state.push(due, Event::TimeOut { thread, sleeps });
            }
            let (pu, ns) = (state.current_pu(), state.costs.sleep);
            state.spend(pu, ns);
        }
        self.suspend(Turn::Blocked);
    }
}

/// Calls `step`, which accesses the memory at `at`, at its place in the order of virtual time.
/// Outside a simulation, it only calls `step`.
#[track_caller]
pub(crate) fn access<R>(at: usize, kind: Access, step: impl FnOnce() -> R) -> R {
    match current_engine() {
        Some(engine) => engine.access(at, kind, step),
        None => step(),
    }
}

/// Sleeps on `at` while `is_expected` returns true, until a wake or for `timeout` nanoseconds.
/// Outside a simulation it returns at once.
pub(crate) fn wait(at: usize, is_expected: impl Fn() -> bool, timeout: Option<u64>) {
    with(|engine| {
        engine.access(at, Access::Load, || ());
        let syscall = engine.0.borrow().costs.syscall;
        engine.spend(syscall);
        engine.settle();
        if is_expected() {
            engine.sleep(at, timeout);
        }
    });
}

/// Wakes up to `count` threads that sleep on `at`.
#[track_caller]
pub(crate) fn wake(at: usize, count: usize) {
    if let Some(engine) = current_engine() {
        engine.settle();
        let mut state = engine.0.borrow_mut();
        state.timed(|state| state.wake(at, count));
    }
}

/// Sleeps for `ns` nanoseconds.
pub(crate) fn sleep(ns: u64) {
    with(|engine| {
        engine.settle();
        engine.sleep(0, Some(ns));
    });
}

/// Gives other threads of the same PU their turn.
pub(crate) fn yield_now() {
    with(|engine| {
        let syscall = engine.0.borrow().costs.syscall;
        engine.spend(syscall);
        engine.settle();
        let others = {
            let state = engine.0.borrow();
            !state.pus[state.current_pu()].ready.is_empty()
        };
        if others {
            engine.suspend(Turn::Preempted);
        }
    });
}

/// Reads the clock.
#[track_caller]
pub(crate) fn read_clock() -> u64 {
    let Some(engine) = current_engine() else {
        return 0;
    };
    let mut state = engine.0.borrow_mut();
    let (pu, cost) = (state.current_pu(), state.costs.clock);
    state.timed(|state| state.spend(pu, cost));
    state.pus[pu].now
}

/// Starts a thread, which may run on any PU or only on `pinned`.
#[track_caller]
pub(crate) fn start(pinned: Option<usize>, f: Box<dyn FnOnce()>) -> Option<usize> {
    let engine = current_engine()?;
    {
        let mut state = engine.0.borrow_mut();
        let (pu, cost) = (state.current_pu(), state.costs.spawn);
        state.timed(|state| state.spend(pu, cost));
    }
    engine.settle();
    let mut state = engine.0.borrow_mut();
    let near = state.current_pu();
    let number = state.create(pinned, near, f);
    let now = state.pus[near].now;
    state.make_ready(number, now);
    Some(number)
}

/// Returns the number of the current simulated thread.
pub(crate) fn current() -> Option<usize> {
    with(|engine| engine.0.borrow().current).flatten()
}

/// Returns the number of PUs, or 1 outside a simulation.
pub(crate) fn pus() -> usize {
    with(|engine| engine.0.borrow().pus.len()).unwrap_or(1)
}

/// Spends `ns` nanoseconds of computation that no other thread observes. It takes longer if the
/// other hardware thread of the core computes too.
pub fn work(ns: u64) {
    with(|engine| engine.work(ns));
}

/// Executes the instruction with which a spin waits between two checks.
pub fn spin_loop() {
    with(|engine| {
        let mut state = engine.0.borrow_mut();
        let (pu, cost) = (state.current_pu(), state.costs.pause);
        state.spend(pu, cost);
        state.pus[pu].pausing = true;
    });
}

/// Prefetches the cache line at `at` for reading. A core can load only a limited number of cache
/// lines at the same time ([`Costs::streams`](crate::Costs::streams)).
#[track_caller]
pub fn prefetch(at: usize) {
    request(at, Access::Load);
}

/// Prefetches the cache line at `at` for writing, so that no other core has a copy when it arrives.
#[track_caller]
pub fn prefetch_to_write(at: usize) {
    request(at, Access::Exchange);
}

#[track_caller]
fn request(at: usize, kind: Access) {
    let Some(engine) = current_engine() else {
        return;
    };
    loop {
        engine.settle();
        let mut state = engine.0.borrow_mut();
        if !state.timed(State::wait_for_fill) {
            state.timed(|state| state.prefetch(at, kind));
            return;
        }
    }
}

/// Simulates sequential reads of the addresses in `range`.
pub fn touch(range: Range<usize>) {
    stream(range, Access::Load);
}

/// Simulates sequential writes to the addresses in `range`.
pub fn touch_mut(range: Range<usize>) {
    stream(range, Access::Exchange);
}

fn stream(range: Range<usize>, kind: Access) {
    with(|engine| {
        engine.settle();
        engine.0.borrow_mut().stream(range, kind);
    });
}

/// Starts a thread that computes for ever on `pu`. It ends with the simulation.
pub fn hog(pu: usize) {
    start(
        Some(pu),
        Box::new(|| {
            loop {
                work(1_000_000)
            }
        }),
    );
}

/// Interrupts all other PUs that run a thread. Each of them serves the interrupt for `ns`
/// nanoseconds at its next step.
pub fn interrupt_others(ns: u64) {
    with(|engine| {
        let mut state = engine.0.borrow_mut();
        let own = state.current_pu();
        let others = state.pus.iter_mut().enumerate();
        for (_, pu) in others.filter(|(index, pu)| *index != own && pu.current.is_some()) {
            pu.interrupted += ns;
        }
    });
}

/// Waits until the buffered stores of the current PU are complete.
pub(crate) fn drain() {
    with(|engine| engine.0.borrow_mut().drain());
}
