//! The events, the clocks of the PUs, and the scheduler of the simulated system.
//!
//! Invariants:
//!
//! - A thread makes an observable step only if no event is due before its PU's clock (`settle`).
//!   Therefore these steps happen in the order of virtual time.
//! - Every PU with a thread has one `Run` event in the heap, except while its thread runs.
//! - No borrow of `State` is alive while a coroutine suspends.

use crate::arena;
use crate::cache::{Access, AddressMap, Cache, Place};
use crate::machine::{Costs, Machine};
use crate::profile;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

/// The bytes of a simulated thread's stack.
const STACK: usize = 1 << 20;
/// The length in nanoseconds of the steps into which we split work, so that a thread can be
/// preempted in the middle.
const STEP: u64 = 100_000;
/// The number of ascending sequences of cache lines that the prefetcher of a core follows, the
/// length of a sequence from which it requests cache lines, and how many it requests ahead. Intel's
/// streamer follows 32 sequences, within a page each, and is up to 20 cache lines ahead (Intel 64
/// and IA-32 Architectures Optimization Reference Manual, chapter "Data Prefetching"). The length is
/// an estimate.
const STREAMS: usize = 32;
const STREAM_BEGINS: usize = 3;
const STREAM_AHEAD: usize = 4;

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

impl Pu {
    /// Returns the time when the prefetched cache line of the address `at` arrives, or 0 if this
    /// cache line is not on its way.
    fn arrives_at(&self, at: usize) -> u64 {
        let line = at & !63;
        let fill = self.fills.iter().find(|fill| fill.0 == line);
        fill.map_or(0, |fill| fill.1)
    }

    /// Returns the time when all buffered stores are complete.
    fn drained(&self) -> u64 {
        self.stores.back().copied().unwrap_or(0)
    }
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

    #[track_caller]
    fn access<R>(&self, at: usize, kind: Access, step: impl FnOnce() -> R) -> R {
        self.settle();
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

    /// Makes an access by the current thread, and returns the time that it takes. For a load or an
    /// exchange, this is the time for which the thread waits. A buffered store makes the thread
    /// wait only if the buffer is full. Its time runs until the cache line has arrived.
    fn access(&mut self, at: usize, kind: Access) -> u64 {
        let index = self.current_pu();
        if kind == Access::Store {
            self.wait_for_store_buffer();
        }
        let pu = &self.pus[index];
        let (now, core) = (pu.now, pu.place.core);
        let begin = match kind {
            Access::Load => now,
            // A core requests the cache lines of its buffered stores at the same time, up to the
            // number of its fill buffers.
            Access::Store => {
                let waiting = (pu.stores.len() as u64).checked_sub(self.costs.streams);
                now.max(waiting.map_or(0, |first| pu.stores[first as usize]))
            }
            Access::Exchange => now.max(pu.drained()),
        };
        let begin = begin.max(pu.arrives_at(at));
        let end = self
            .cache
            .access(at, kind, (index as u32, core), now, begin);
        self.pus[index].pausing = false;
        match kind {
            Access::Load | Access::Exchange => self.spend(index, end - now),
            Access::Store => {
                // The stores leave the buffer in the order of the program.
                let leaves = end.max(self.pus[index].drained());
                self.pus[index].stores.push_back(leaves);
                self.spend(index, self.costs.hit);
            }
        }
        self.follow_stream(at, kind, end > begin + self.costs.rmw);
        match kind {
            Access::Load | Access::Exchange => end - now,
            Access::Store => end - begin,
        }
    }

    /// Requests the next cache lines of the page if the current core accesses its cache lines one
    /// after another, as the prefetchers in hardware do.
    fn follow_stream(&mut self, at: usize, kind: Access, is_miss: bool) {
        const LINES_OF_A_PAGE: usize = 64;
        let index = self.current_pu();
        let pu = &mut self.pus[index];
        let line = at / 64;
        let begins_page = line.is_multiple_of(LINES_OF_A_PAGE);
        let continues = |(last, _): &(usize, usize)| !begins_page && *last + 1 == line;
        if let Some(stream) = pu.streams.iter_mut().find(|stream| continues(stream)) {
            *stream = (line, stream.1 + 1);
        } else if !is_miss {
            return;
        }
        let Some(&(_, length)) = pu.streams.iter().find(|stream| stream.0 == line) else {
            pu.streams[pu.oldest] = (line, 1);
            pu.oldest = (pu.oldest + 1) % STREAMS;
            return;
        };
        if length < STREAM_BEGINS {
            return;
        }
        let page_end = line / LINES_OF_A_PAGE * LINES_OF_A_PAGE + LINES_OF_A_PAGE;
        for next in line + 1..page_end.min(line + 1 + STREAM_AHEAD) {
            let now = self.pus[index].now;
            self.pus[index].fills.retain(|fill| fill.1 > now);
            if (self.pus[index].fills.len() as u64) < self.costs.streams {
                self.request(next * 64, kind);
            }
        }
    }

    /// Removes the completed stores from the buffer of the current PU, and waits for the first one
    /// if the buffer is full.
    fn wait_for_store_buffer(&mut self) {
        let (index, most) = (self.current_pu(), self.costs.stores);
        let pu = &mut self.pus[index];
        let now = pu.now;
        while pu.stores.front().is_some_and(|leaves| *leaves <= now) {
            pu.stores.pop_front();
        }
        if pu.stores.len() as u64 >= most {
            let first = pu.stores.pop_front().unwrap_or(now);
            self.spend(index, first - now);
        }
    }

    /// Waits until the current core can request another cache line, if too many are on their way.
    /// Returns whether it had to wait.
    fn wait_for_fill(&mut self) -> bool {
        let (index, most) = (self.current_pu(), self.costs.streams);
        let pu = &mut self.pus[index];
        let now = pu.now;
        pu.fills.retain(|fill| fill.1 > now);
        let first = pu.fills.iter().map(|fill| fill.1).min();
        let first = first.filter(|_| pu.fills.len() as u64 >= most);
        if let Some(first) = first {
            self.spend(index, first - now);
        }
        first.is_some()
    }

    /// Requests the cache line at `at`, like an access of this kind. The thread continues while the
    /// cache line arrives.
    fn prefetch(&mut self, at: usize, kind: Access) {
        self.request(at, kind);
        let (index, hit) = (self.current_pu(), self.costs.hit);
        self.spend(index, hit);
    }

    /// Requests a cache line for the current core, unless it is already on its way.
    fn request(&mut self, at: usize, kind: Access) {
        let index = self.current_pu();
        let (now, core) = (self.pus[index].now, self.pus[index].place.core);
        if self.pus[index].arrives_at(at) == 0 {
            let place = (index as u32, core);
            let end = self.cache.access(at, kind, place, now, now);
            if end > now + self.costs.rmw {
                self.pus[index].fills.push((at & !63, end));
            }
        }
    }

    /// Returns the PU on which a thread that is ready should run.
    fn choose(&self, thread: usize) -> usize {
        let Thread {
            pinned, pu: last, ..
        } = self.threads[thread];
        if let Some(pu) = pinned {
            return pu;
        }
        let is_idle = |pu: usize| self.pus[pu].current.is_none() && self.pus[pu].ready.is_empty();
        if is_idle(last) {
            return last;
        }
        let core_is_idle = |pu: usize| {
            let core = self.pus[pu].place.core as usize;
            self.cores[core].iter().all(|other| is_idle(*other))
        };
        let home = self.pus[last].place;
        // An idle core is better than a nearer core whose other hardware thread is busy.
        let rank = |pu: &usize| {
            let place = self.pus[*pu].place;
            (
                !core_is_idle(*pu),
                place.l3 != home.l3,
                place.package != home.package,
            )
        };
        let idle = (0..self.pus.len()).filter(|pu| is_idle(*pu));
        idle.min_by_key(rank).unwrap_or(last)
    }

    /// Puts a thread that is ready at `at` into the queue of a PU.
    fn make_ready(&mut self, thread: usize, at: u64) {
        let index = self.choose(thread);
        self.threads[thread].pu = index;
        self.threads[thread].asleep_on = None;
        self.ready += 1;
        let costs = self.costs;
        let pu = &mut self.pus[index];
        pu.ready.push_back(thread);
        if pu.current.is_none() && !pu.scheduled {
            pu.scheduled = true;
            let exit = match at.saturating_sub(pu.idle_since) > costs.deep_after {
                true => costs.deep_exit,
                false => costs.idle_exit,
            };
            pu.now = pu.now.max(at + exit);
            let now = pu.now;
            self.push(now, Event::Run { pu: index });
        }
    }

    /// Starts the next thread of a PU that has none, or lets it become idle.
    fn dispatch(&mut self, index: usize) {
        if self.pus[index].ready.is_empty() && self.ready > 0 {
            self.pull(index);
        }
        let costs = self.costs;
        let pu = &mut self.pus[index];
        let Some(thread) = pu.ready.pop_front() else {
            pu.idle_since = pu.now;
            pu.scheduled = false;
            return;
        };
        self.ready -= 1;
        pu.current = Some(thread);
        pu.scheduled = true;
        let other = pu.last != Some(thread);
        pu.last = Some(thread);
        if other {
            self.stats.switches += 1;
            self.spend(index, costs.switch);
        }
        let pu = &mut self.pus[index];
        pu.slice_end = pu.now + costs.quantum;
        let now = pu.now;
        self.push(now, Event::Run { pu: index });
    }

    /// Takes a thread from the queue of the nearest PU with a queue, as Linux does for a PU that
    /// becomes idle.
    fn pull(&mut self, index: usize) {
        let home = self.pus[index].place;
        let threads = &self.threads;
        // We take nothing from a PU that has a queue and no running thread, because this PU is just
        // leaving its idle state to run the queue.
        let can_move = |pu: &Pu| {
            let at = pu
                .ready
                .iter()
                .position(|thread| threads[*thread].pinned.is_none());
            at.filter(|_| pu.current.is_some())
        };
        let found = self
            .pus
            .iter()
            .enumerate()
            .filter(|(_, pu)| can_move(pu).is_some());
        let nearest =
            found.min_by_key(|(_, pu)| (pu.place.package != home.package, pu.place.l3 != home.l3));
        let Some(from) = nearest.map(|(from, _)| from) else {
            return;
        };
        let Some(at) = can_move(&self.pus[from]) else {
            return;
        };
        if let Some(thread) = self.pus[from].ready.remove(at) {
            self.threads[thread].pu = index;
            self.pus[index].ready.push_back(thread);
        }
    }

    fn wake(&mut self, at: usize, count: usize) -> usize {
        let mut woken = 0;
        let me = self.current_pu();
        while woken < count {
            let next = self.sleepers.get_mut(&at).and_then(VecDeque::pop_front);
            let Some(thread) = next else { break };
            woken += 1;
            self.stats.wakes += 1;
            self.spend(me, self.costs.wake);
            let now = self.pus[me].now;
            self.make_ready(thread, now);
        }
        if woken == 0 {
            self.spend(me, self.costs.syscall);
        }
        woken
    }

    fn time_out(&mut self, thread: usize, sleeps: u64, at: u64) {
        let Thread {
            asleep_on,
            sleeps: now,
            ..
        } = self.threads[thread];
        let (Some(address), true) = (asleep_on, now == sleeps) else {
            return;
        };
        if let Some(sleepers) = self.sleepers.get_mut(&address) {
            sleepers.retain(|sleeper| *sleeper != thread);
        }
        self.make_ready(thread, at);
    }

    /// Creates a thread and returns its number.
    fn create(&mut self, pinned: Option<usize>, near: usize, f: Box<dyn FnOnce()>) -> usize {
        let number = self.threads.len();
        let stack = DefaultStack::new(STACK).expect("there is memory for a simulated stack");
        let body = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Turn>, ()| {
            with(|engine| {
                engine.0.borrow_mut().threads[number].yielder = yielder;
            });
            f();
        });
        self.threads.push(Thread {
            body: Some(body),
            yielder: ptr::null(),
            pinned,
            pu: near,
            sleeps: 0,
            asleep_on: None,
        });
        number
    }
}

/// A simulation that is being set up.
#[derive(Clone, Debug)]
pub struct Sim {
    machine: Machine,
    seed: u64,
    vanish: Option<(u64, u64)>,
    limit: u64,
}

impl Sim {
    /// Creates a simulation of `machine` without noise.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        Self {
            machine: machine.clone(),
            seed: 1,
            vanish: None,
            limit: 100_000_000_000,
        }
    }

    /// Sets the seed of all random choices.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Lets each PU vanish for `length` nanoseconds, about every `every` nanoseconds of its time.
    /// A hypervisor does this to a guest.
    #[must_use]
    pub fn vanishing(mut self, every: u64, length: u64) -> Self {
        self.vanish = Some((every.max(1), length));
        self
    }

    /// Runs `f` as the first thread of the machine, and returns its result.
    ///
    /// # Panics
    ///
    /// Panics if `f` does, if all threads sleep for ever, if the topology has a mistake, or inside
    /// another simulation.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        self.run_with_stats(f).0
    }

    /// Runs `f` like [`Sim::run`], and also returns the counters.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`Sim::run`].
    pub fn run_with_stats<R>(&self, f: impl FnOnce() -> R) -> (R, Stats) {
        assert!(
            ENGINE.get().is_null(),
            "a simulation cannot run inside another one"
        );
        let engine = Engine(RefCell::new(self.state()));
        let mut result = None;
        let main = || {
            result = Some(catch_unwind(AssertUnwindSafe(f)));
            crate::thread::end_locals();
        };
        let main: Box<dyn FnOnce() + '_> = Box::new(main);
        // SAFETY: only the lifetime changes. The main thread's coroutine either ends before this
        // function returns, or its stack is never resumed again.
        let main: Box<dyn FnOnce() + 'static> = unsafe { std::mem::transmute(main) };
        {
            let mut state = engine.0.borrow_mut();
            let number = state.create(None, 0, main);
            state.make_ready(number, 0);
        }
        ENGINE.set(&engine);
        arena::switch(true);
        let ended = catch_unwind(AssertUnwindSafe(|| run(&engine, self.limit)));
        arena::switch(false);
        ENGINE.set(ptr::null());
        crate::thread::forget_locals();
        let mut state = engine.0.into_inner();
        for thread in &mut state.threads {
            if let Some(body) = &mut thread.body {
                // SAFETY: the stack is never used again. What is on it leaks, which is allowed.
                unsafe { body.force_reset() };
            }
        }
        let mut stats = state.stats;
        stats.transfers = state.cache.transfers;
        match (ended, result) {
            (Ok(()), Some(Ok(value))) => (value, stats),
            (_, Some(Err(panic))) | (Err(panic), _) => resume_unwind(panic),
            (Ok(()), None) => unreachable!("the main thread ended without a result"),
        }
    }

    fn state(&self) -> State {
        let machine = creel_topology::Machine::synthetic(&self.machine.topology)
            .unwrap_or_else(|error| panic!("cannot build the simulated machine: {error}"));
        let costs = self.machine.costs;
        let of = |sets: Vec<&creel_topology::CpuSet>, pu: usize| {
            let found = sets.iter().position(|set| set.contains(pu));
            found.map_or(0, |index| index as u32)
        };
        let mut places = Vec::new();
        let mut cores = Vec::new();
        let mut pus = Vec::new();
        for (number, core) in machine.cores().iter().enumerate() {
            let first = core.pus.iter().next().expect("a core has a PU");
            let place = Place {
                core: number as u32,
                l3: of(
                    machine.caches_at(3).map(|cache| &cache.pus).collect(),
                    first,
                ),
                package: of(
                    machine
                        .packages()
                        .iter()
                        .map(|package| &package.pus)
                        .collect(),
                    first,
                ),
            };
            places.push(place);
            let begin = pus.len();
            for _ in core.pus.iter() {
                pus.push(Pu {
                    place,
                    now: 0,
                    current: None,
                    last: None,
                    ready: VecDeque::new(),
                    slice_end: 0,
                    idle_since: 0,
                    scheduled: false,
                    stores: VecDeque::new(),
                    pausing: false,
                    vanishes_at: 0,
                    interrupted: 0,
                    fills: Vec::new(),
                    streams: [(0, 0); STREAMS],
                    oldest: 0,
                });
            }
            cores.push((begin..pus.len()).collect());
        }
        let mut state = State {
            costs,
            pus,
            cores,
            threads: Vec::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            cache: Cache::new(places, costs),
            sleepers: AddressMap::default(),
            ready: 0,
            current: None,
            random: self.seed,
            vanish: self.vanish,
            stats: Stats::default(),
        };
        if let Some((every, _)) = self.vanish {
            for pu in 0..state.pus.len() {
                state.pus[pu].vanishes_at = state.random() % (2 * every);
            }
        }
        state
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
        let mut state = engine.0.borrow_mut();
        let index = state.current_pu();
        let (now, core) = (state.pus[index].now, state.pus[index].place.core);
        let mut total = 0;
        for line in (range.start & !63..range.end).step_by(64) {
            total += state
                .cache
                .access(line, kind, (index as u32, core), now, now)
                - now;
        }
        // A core fetches several cache lines at the same time.
        let ns = total.div_ceil(state.costs.streams);
        state.spend(index, ns);
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
    with(|engine| {
        let mut state = engine.0.borrow_mut();
        let index = state.current_pu();
        let pu = &state.pus[index];
        let ns = pu.drained().saturating_sub(pu.now).max(state.costs.rmw);
        state.spend(index, ns);
    });
}
