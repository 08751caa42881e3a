//! Where the workers of a pool sit.
//!
//! The world of a pool is the set of PUs that its maker could use. A thread that Creel has
//! pinned remembers its world, so a pool made there is not squeezed onto that thread's worker; and
//! every worker sets its own mask when it starts, so it does not inherit its starter's.
//!
//! One ledger a process counts the pinned workers of each PU, so that two pools with `Cores`
//! begin at different cores. Left out on purpose: the caller's mask, which only a session
//! touches. The caller of a loop takes worker 0's share wherever it runs; where it stays on the
//! PU of another worker, that worker changes workers with worker 0.

use crate::sync::{AtomicUsize, Mutex, Ordering, local, lock, thread_local};
use crate::worker::steal_order;
use creel_topology::{
    Budget, CpuSet, Layout, Ledger, LimitKind, Machine, Placement, Rounding,
    affinity::{self, Thread},
};
use std::{
    cell::RefCell,
    num::NonZeroUsize,
    sync::{Arc, Mutex as PlainMutex, PoisonError},
    thread,
};

/// The workers that the pools of this process have taken.
static LEDGER: PlainMutex<Ledger> = PlainMutex::new(Ledger::new());

thread_local! {
    /// What the thread could use before Creel pinned it.
    static WORLD: RefCell<Option<Arc<World>>> = const { RefCell::new(None) };
}

/// The machine, as the maker of a pool may use it.
#[derive(Debug)]
struct World {
    machine: Machine,
    allowed: CpuSet,
}

/// Where the workers of one pool sit.
#[derive(Debug)]
pub(crate) struct Pinning {
    /// None where the system does not tell: then nobody is ever pinned.
    world: Option<Arc<World>>,
    /// What the program asked for. None: `Unpinned` until the first loop, `Cores` from then on.
    asked: Option<Placement>,
    floor: Mutex<Floor>,
    /// Counts the layouts; a worker that knows an older one sits down anew. Ordered by
    /// `floor`'s lock.
    version: AtomicUsize,
}

/// Which worker is whose, and who sits there.
#[derive(Debug, Default)]
struct Floor {
    layout: Option<Layout>,
    /// The workers' threads that have sat down and not ended.
    threads: Vec<Option<Thread>>,
}

impl Floor {
    /// The PUs that worker `index` is pinned to, if it is.
    fn pinned_pus(&self, index: usize) -> Option<&CpuSet> {
        let layout = self.layout.as_ref().filter(|layout| layout.pinned())?;
        layout.seats().get(index)
    }

    fn thread(&mut self, index: usize) -> &mut Option<Thread> {
        if self.threads.len() <= index {
            self.threads.resize(index + 1, None);
        }
        &mut self.threads[index]
    }

    /// Whose worker `pu` is changes workers with worker 0.
    fn make_way(&mut self, pu: usize) {
        let slots = self
            .layout
            .as_ref()
            .map_or(0, |layout| layout.seats().len());
        let is_there = |slot: &usize| self.pinned_pus(*slot).is_some_and(|pus| pus.contains(pu));
        match (0..slots).find(is_there) {
            None | Some(0) => (),
            Some(slot) => self.swap(0, slot),
        }
    }

    /// Lets two workers change workers, and moves their threads.
    fn swap(&mut self, a: usize, b: usize) {
        if let Some(layout) = &mut self.layout {
            layout.swap(a, b);
        }
        for index in [a, b] {
            if let (Some(thread), Some(pus)) = (*self.thread(index), self.pinned_pus(index)) {
                // The worker may have gone offline: then the thread stays where it is.
                let _ = affinity::set_of(thread, pus);
            }
        }
    }
}

/// What the machine and the limits of this process leave for a pool.
pub(crate) struct SharedJob {
    pub(crate) pinning: Pinning,
    /// The usable cores.
    pub(crate) workers: usize,
    /// How many threads can run at the same time.
    pub(crate) pus: usize,
}

impl SharedJob {
    /// What the calling thread may use.
    pub(crate) fn find(asked: Option<Placement>) -> Self {
        let world = local(&WORLD, |world| world.borrow().clone()).flatten();
        let world = world.or_else(World::find);
        // A model has the same number on every machine.
        let threads = || match cfg!(shuttle) {
            true => 4,
            false => thread::available_parallelism().map_or(1, NonZeroUsize::get),
        };
        let (workers, pus) = match &world {
            Some(world) => {
                // Of a quota of one and a half, two threads that are halted a quarter of the time
                // get half as much again done as one.
                let whole = Budget::rounded(&world.machine, Rounding::Ceil);
                let limits = whole.limits().iter();
                let quota = limits.filter(|limit| limit.kind == LimitKind::Quota);
                let quota = quota.map(|limit| limit.workers).min();
                let pus = world.allowed.len().min(quota.unwrap_or(usize::MAX));
                (Budget::of(&world.machine).workers(), pus.max(1))
            }
            None => (threads(), threads()),
        };
        let pinning = Pinning {
            world,
            asked,
            floor: Mutex::new(Floor::default()),
            version: AtomicUsize::new(0),
        };
        Self {
            pinning,
            workers,
            pus,
        }
    }
}

impl World {
    fn find() -> Option<Arc<Self>> {
        if cfg!(any(loom, shuttle, miri)) {
            return None; // there, threads are not what the system calls threads
        }
        let machine = Machine::detect().ok()?;
        let allowed = machine.allowed().clone();
        Some(Arc::new(Self { machine, allowed }))
    }
}

impl Pinning {
    /// Workers `workers` workers as the program asked, if it asked.
    pub(crate) fn pin_as_configured(&self, workers: usize) -> Result<(), creel_topology::Error> {
        match &self.asked {
            Some(placement) => self.pin(workers, placement),
            None => Ok(()),
        }
    }

    /// A loop wants its workers pinned: workers them by `Cores` unless they have been pinned, or
    /// the program has said where. What cannot be pinned goes unpinned.
    pub(crate) fn pin_for_loops(&self, workers: usize) {
        if self.asked.is_none() && self.version() == 0 {
            let _ = self.pin(workers, &Placement::Cores);
        }
    }

    fn pin(&self, workers: usize, placement: &Placement) -> Result<(), creel_topology::Error> {
        let Some(world) = &self.world else {
            return Ok(());
        };
        let mut floor = lock(&self.floor);
        let layout = &mut floor.layout;
        let mut ledger = ledger();
        if let Some(old) = &*layout {
            ledger.release(old);
        }
        match ledger.seat(&world.machine, &world.allowed, workers, placement) {
            Ok(new) => *layout = Some(new),
            Err(error) => {
                layout.iter().for_each(|old| ledger.add(old));
                return Err(error);
            }
        }
        self.version.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Workers a changed number of workers by the same policy.
    pub(crate) fn repin(&self, workers: usize) -> Result<(), creel_topology::Error> {
        match (&self.asked, self.version()) {
            (Some(_), _) => self.pin_as_configured(workers),
            (None, 0) => Ok(()),
            (None, _) => self.pin(workers, &Placement::Cores),
        }
    }

    /// The other workers that are pinned, the nearest to worker `index` first; nobody where none
    /// is pinned.
    pub(crate) fn nearest(&self, index: usize) -> Arc<[usize]> {
        let floor = lock(&self.floor);
        let pinned = floor.layout.as_ref().filter(|layout| layout.pinned());
        match (&self.world, pinned) {
            (Some(world), Some(layout)) if index < layout.seats().len() => {
                steal_order::nearest(&world.machine, layout.seats(), index).into()
            }
            _ => Arc::default(),
        }
    }

    pub(crate) fn version(&self) -> usize {
        self.version.load(Ordering::Relaxed)
    }

    /// The PUs of worker `index`: its worker, or all of the pool's world.
    pub(crate) fn pus_of(&self, index: usize) -> CpuSet {
        self.pus_in(&lock(&self.floor), index)
    }

    /// The PUs that worker `index` is pinned to, if it is.
    pub(crate) fn pinned_pus(&self, index: usize) -> Option<CpuSet> {
        lock(&self.floor).pinned_pus(index).cloned()
    }

    fn pus_in(&self, floor: &Floor, index: usize) -> CpuSet {
        let all = || Some(self.world.as_ref()?.allowed.clone());
        let pinned = floor.pinned_pus(index).cloned();
        pinned.or_else(all).unwrap_or_default()
    }

    /// Pins the calling thread to the worker of worker `index`, or gives it the whole world.
    /// Returns the version of the layout that it goes by.
    pub(crate) fn attach(&self, index: usize) -> usize {
        let mut floor = lock(&self.floor);
        let version = self.version();
        let pus = self.pus_in(&floor, index);
        local(&WORLD, |world| world.replace(self.world.clone()));
        *floor.thread(index) = self.world.as_ref().and_then(|_| Thread::current());
        if !pus.is_empty() && affinity::current().is_ok_and(|now| now != pus) {
            // A worker may have gone offline meanwhile: then the thread stays where it is.
            let _ = affinity::set(&pus);
        }
        version
    }

    /// The calling thread, which was worker `index`, is about to end.
    pub(crate) fn leave(&self, index: usize) {
        if self.world.is_some() {
            let mut floor = lock(&self.floor);
            let thread = floor.thread(index);
            // A new thread may have the worker already.
            *thread = thread.filter(|other| Some(*other) != Thread::current());
        }
    }

    /// Where the calling thread runs, if that can matter to anybody.
    pub(crate) fn caller_pu(&self) -> Option<usize> {
        self.world.as_ref().and_then(|_| affinity::pu())
    }

    /// A loop's caller, who takes worker 0's share, runs on `pu`. A worker whose worker that is
    /// would wait for the caller's CPU, and the scheduler may leave it at that for long: it
    /// changes workers with worker 0.
    pub(crate) fn make_way(&self, pu: usize) {
        lock(&self.floor).make_way(pu);
    }

    /// Runs `f` with the calling thread pinned to the worker of worker 0; its own mask is back
    /// when this returns or panics. If worker 0 may be given another worker (`movable`), that is
    /// where the thread is already.
    pub(crate) fn with_caller_pinned<R>(&self, movable: bool, f: impl FnOnce() -> R) -> R {
        let slot = {
            let mut floor = lock(&self.floor);
            let pu = self.caller_pu().filter(|_| movable);
            pu.into_iter().for_each(|pu| floor.make_way(pu));
            floor.pinned_pus(0).cloned()
        };
        let (Some(slot), Ok(before)) = (slot, affinity::current()) else {
            return f();
        };
        let _stand_up = StandUp {
            mask: before,
            world: local(&WORLD, |world| world.replace(self.world.clone())).flatten(),
        };
        let _ = affinity::set(&slot);
        f()
    }
}

/// Gives a thread its mask back when dropped.
struct StandUp {
    mask: CpuSet,
    world: Option<Arc<World>>,
}

impl Drop for StandUp {
    fn drop(&mut self) {
        local(&WORLD, |world| world.replace(self.world.take()));
        let _ = affinity::set(&self.mask);
    }
}

impl Drop for Pinning {
    fn drop(&mut self) {
        if let Some(layout) = &lock(&self.floor).layout {
            ledger().release(layout);
        }
    }
}

fn ledger() -> impl std::ops::DerefMut<Target = Ledger> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}
