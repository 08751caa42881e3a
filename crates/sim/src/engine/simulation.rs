//! The description of a simulation, and how it begins and ends.

use super::memory::STREAMS;
use super::{ENGINE, Engine, Pu, State, Stats, run};
use crate::arena;
use crate::cache::{AddressMap, Cache, Place};
use crate::machine::Machine;
use std::cell::RefCell;
use std::collections::{BinaryHeap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

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
                // SAFETY: no thread uses the stack again. Its values are never dropped, which is safe.
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
                    code_ps: 0,
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
