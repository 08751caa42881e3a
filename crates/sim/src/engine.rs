//! The state of a simulation, and the loop that processes its events.
//!
//! | file | contents |
//! |---|---|
//! | `simulation.rs` | the description of a simulation, and how it begins and ends |
//! | `steps.rs` | the steps of simulated threads |
//! | `memory.rs` | the time that accesses to memory take |
//! | `scheduler.rs` | which thread runs on which PU, sleeps and wakes |
//!
//! Invariants:
//!
//! - A thread makes an observable step only if no event is due before its PU's clock (`settle`).
//!   Therefore these steps happen in the order of virtual time.
//! - Every PU with a thread has one `Run` event in the heap, except while its thread runs.
//! - No borrow of `State` is alive while a coroutine suspends.

mod memory;
mod scheduler;
mod simulation;
mod steps;

pub use simulation::Sim;
pub(crate) use steps::{
    access, current, drain, pus, read_clock, sleep, start, wait, wake, yield_now,
};
pub use steps::{
    hog, interrupt_others, prefetch, prefetch_to_write, spin_loop, touch, touch_mut, work,
};

use crate::cache::{AddressMap, Cache, Place};
use crate::machine::Costs;
use crate::profile;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use memory::STREAMS;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ptr;

/// The reason for which a thread gave its turn back.
enum Turn {
    /// The clock of another PU is earlier, so that PU has to run first.
    Later,
    /// The thread sleeps.
    Blocked,
    /// Another thread of the same PU has its turn.
    Preempted,
}

type Body = Coroutine<(), Turn, (), DefaultStack>;

struct Thread {
    body: Option<Body>,
    yielder: *const Yielder<(), Turn>,
    /// The only PU on which the thread may run, or `None` for all.
    pinned: Option<usize>,
    /// The PU on which it ran last.
    pu: usize,
    /// Counts its sleeps, so that the event of an old time-out has no effect.
    sleeps: u64,
    /// The address on which it sleeps. `None` if it is not asleep, and 0 in a plain sleep.
    asleep_on: Option<usize>,
}

struct Pu {
    place: Place,
    now: u64,
    current: Option<usize>,
    /// The thread that ran last.
    last: Option<usize>,
    ready: VecDeque<usize>,
    slice_end: u64,
    idle_since: u64,
    scheduled: bool,
    /// The times when the buffered stores leave the buffer, in order.
    stores: VecDeque<u64>,
    /// The part of a nanosecond that the instructions between atomic accesses have taken since the
    /// clock advanced, in picoseconds.
    code_ps: u64,
    /// Whether the current thread executed the pause instruction last.
    pausing: bool,
    /// The time of the next pause by the hypervisor.
    vanishes_at: u64,
    /// The time of the interrupts that the PU has yet to serve.
    interrupted: u64,
    /// The cache lines that the core has prefetched, and the time when each of them arrives.
    fills: Vec<(usize, u64)>,
    /// The ascending sequences of cache lines that the core follows: the last cache line of each, and
    /// their number.
    streams: [(usize, usize); STREAMS],
    /// The entry of `streams` that the next miss replaces.
    oldest: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Run { pu: usize },
    TimeOut { thread: usize, sleeps: u64 },
}

/// Counters of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The virtual time at the end, in nanoseconds.
    pub end_ns: u64,
    /// The number of times that a cache line moved between cores, or came from memory.
    pub transfers: u64,
    /// The number of times that a PU switched to a different thread.
    pub switches: u64,
    /// The number of threads that a futex wake made ready.
    pub wakes: u64,
    /// The number of events that the engine processed.
    pub events: u64,
}

struct State {
    costs: Costs,
    pus: Vec<Pu>,
    /// The PUs of each core.
    cores: Vec<Vec<usize>>,
    threads: Vec<Thread>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    cache: Cache,
    sleepers: AddressMap<VecDeque<usize>>,
    /// The number of threads in all queues.
    ready: usize,
    current: Option<usize>,
    random: u64,
    vanish: Option<(u64, u64)>,
    stats: Stats,
}

/// The engine of the simulation that runs on the current thread of the system.
struct Engine(RefCell<State>);

thread_local! {
    static ENGINE: Cell<*const Engine> = const { Cell::new(ptr::null()) };
}

/// Returns the engine, if a simulated thread runs.
fn current_engine<'a>() -> Option<&'a Engine> {
    let engine = ENGINE.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: `run` sets the pointer only while the engine is alive and does not move. All uses are
    // on this thread of the system and shared. A simulated thread, which calls this, is never
    // resumed after the engine ended, so the caller cannot keep the reference for longer.
    let engine = unsafe { engine.as_ref() }?;
    let is_inside = engine
        .0
        .try_borrow()
        .is_ok_and(|state| state.current.is_some());
    is_inside.then_some(engine)
}

/// Calls `f` with the engine, if a simulated thread runs.
fn with<R>(f: impl FnOnce(&Engine) -> R) -> Option<R> {
    current_engine().map(f)
}

impl Engine {
    /// Gives the turn back to the main loop, and returns at the thread's next turn.
    fn suspend(&self, turn: Turn) {
        let yielder = {
            let state = self.0.borrow();
            let thread = state.current.expect("a simulated thread runs");
            state.threads[thread].yielder
        };
        // SAFETY: the yielder lives on the stack of the current coroutine, which runs now.
        let yielder = unsafe { &*yielder };
        yielder.suspend(turn);
    }

    /// Waits until the current PU has the earliest clock. Gives other threads of the PU their turn
    /// if the time slice is over.
    fn settle(&self) {
        loop {
            let turn = {
                let state = self.0.borrow();
                let pu = &state.pus[state.current_pu()];
                let due = state.events.peek().is_some_and(|event| event.0.0 < pu.now);
                if !pu.ready.is_empty() && pu.now >= pu.slice_end {
                    Turn::Preempted
                } else if due {
                    Turn::Later
                } else {
                    return;
                }
            };
            self.suspend(turn);
        }
    }

    fn spend(&self, ns: u64) {
        let mut state = self.0.borrow_mut();
        let pu = state.current_pu();
        state.spend(pu, ns);
    }
}

impl State {
    /// Calls `f`, and adds the simulated time that it takes to the profile, as a step at the
    /// caller's position in the source.
    #[track_caller]
    fn timed<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let pu = self.current_pu();
        let begin = self.pus[pu].now;
        let result = f(self);
        profile::count(None, self.pus[pu].now - begin, self.current == Some(0));
        result
    }

    fn current_pu(&self) -> usize {
        self.threads[self.current.expect("a simulated thread runs")].pu
    }

    fn push(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// Returns the next random number. The generator is SplitMix64 by Steele, Lea and Flood (OOPSLA
    /// 2014).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Advances the clock of a PU.
    fn spend(&mut self, pu: usize, ns: u64) {
        self.pus[pu].now += ns + std::mem::take(&mut self.pus[pu].interrupted);
        while let Some((every, length)) = self.vanish
            && self.pus[pu].now > self.pus[pu].vanishes_at
        {
            self.pus[pu].now += length;
            let gap = 1 + self.random() % (2 * every);
            self.pus[pu].vanishes_at = self.pus[pu].now + gap;
        }
    }

    /// Spends the time of the instructions before an atomic access.
    fn spend_code(&mut self) {
        let pu = self.current_pu();
        let ps = self.pus[pu].code_ps + self.costs.code_ps;
        self.pus[pu].code_ps = ps % 1_000;
        if ps >= 1_000 {
            self.spend(pu, ps / 1_000);
        }
    }

    /// Returns the time that `ns` of work take, which is longer if the sibling works too.
    fn begin_work(&mut self, ns: u64) -> u64 {
        let pu = self.current_pu();
        self.pus[pu].pausing = false;
        let siblings = &self.cores[self.pus[pu].place.core as usize];
        let busy = |other: &&usize| {
            **other != pu && self.pus[**other].current.is_some() && !self.pus[**other].pausing
        };
        match siblings.iter().any(|other| busy(&other)) {
            true => ns * 100 / self.costs.smt_percent,
            false => ns,
        }
    }
}

/// Processes events until the first thread ends.
fn run(engine: &Engine, limit: u64) {
    loop {
        let mut state = engine.0.borrow_mut();
        let Some(Reverse((at, _, event))) = state.events.pop() else {
            panic!("deadlock: all simulated threads sleep, and no time-out is pending");
        };
        assert!(
            at <= limit,
            "the simulation exceeds its limit of {limit} ns"
        );
        state.stats.events += 1;
        state.stats.end_ns = at;
        let pu = match event {
            Event::TimeOut { thread, sleeps } => {
                state.time_out(thread, sleeps, at);
                continue;
            }
            Event::Run { pu } => pu,
        };
        let Some(thread) = state.pus[pu].current else {
            state.dispatch(pu);
            continue;
        };
        state.current = Some(thread);
        let mut body = state.threads[thread]
            .body
            .take()
            .expect("the thread has not ended");
        drop(state);
        let result = body.resume(());
        let mut state = engine.0.borrow_mut();
        state.current = None;
        match result {
            CoroutineResult::Yield(turn) => {
                state.threads[thread].body = Some(body);
                match turn {
                    Turn::Later => {
                        let now = state.pus[pu].now;
                        state.push(now, Event::Run { pu });
                    }
                    Turn::Blocked => {
                        state.pus[pu].current = None;
                        state.dispatch(pu);
                    }
                    Turn::Preempted => {
                        state.pus[pu].current = None;
                        state.pus[pu].ready.push_back(thread);
                        state.ready += 1;
                        state.dispatch(pu);
                    }
                }
            }
            CoroutineResult::Return(()) => {
                state.stats.end_ns = state.pus[pu].now;
                state.pus[pu].current = None;
                if thread == 0 {
                    return;
                }
                state.dispatch(pu);
            }
        }
    }
}
