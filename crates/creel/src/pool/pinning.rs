//! Decides on which CPUs the workers of a pool run, and pins their threads.
//!
//! A PU (processing unit) is what the OS calls a CPU. The *world* of a pool is the set of PUs that
//! the thread that built the pool could use. A thread that Creel has pinned remembers the world
//! from before. If such a thread builds a pool, the new pool is therefore not limited to the CPUs
//! that this thread is pinned to. Every worker sets its own affinity mask when it starts, so that
//! it does not inherit that of the thread that starts it.
//!
//! Each process has one ledger, which counts the pinned workers of each PU. Two pools with `Cores`
//! therefore start at different cores, if there are enough. We deliberately do not change the
//! affinity mask of a caller, except in a session. A caller that is not a worker takes worker 0's
//! share, wherever it runs. If it stays on the PU of another worker, this worker swaps its place
//! with worker 0.

use crate::sync::{AtomicUsize, Mutex, Ordering, local, lock, now_ns, process_id, thread_local};
use crate::worker::steal_order;
use creel_topology::{
    Budget, CpuSet, Layout, Ledger, LimitKind, Machine, Placement, Rounding,
    affinity::{self, Thread},
};
use std::{
    cell::RefCell,
    num::NonZeroUsize,
    path::Path,
    sync::{Arc, Mutex as PlainMutex, OnceLock, PoisonError},
};

#[cfg(creel_sim)]
use crate::sync::thread;
#[cfg(not(creel_sim))]
use std::thread;

/// The places that the pools of this process have taken.
static LEDGER: PlainMutex<Ledger> = PlainMutex::new(Ledger::new());

thread_local! {
    /// The CPUs that the thread could use before Creel pinned it.
    static WORLD: RefCell<Option<Arc<World>>> = const { RefCell::new(None) };
}

/// The world that was found last, and when, in the time of [`now_ns`].
static RECENT: PlainMutex<Option<(u64, Arc<World>)>> = PlainMutex::new(None);
/// The time for which the limits that were read for one pool are used for the next ones, in ns. A
/// program may build a pool for each of its images, and reading the limits takes as long as starting
/// the threads of the pool.
const RECENT_NS: u64 = 1_000_000_000;

/// Returns the number of threads that the system can run at the same time, according to std.
fn threads() -> usize {
    // A model must run identically on every machine, so it always uses the same number.
    match cfg!(creel_shuttle) {
        true => 4,
        false => thread::available_parallelism().map_or(1, NonZeroUsize::get),
    }
}

/// The machine, and the CPUs that a pool may use, which are those of the thread that built it.
///
/// We read the machine when it is needed first, because this takes longer than starting the threads
/// of a small pool. A pool whose number of workers is given, and which runs no loops, needs only
/// the affinity mask.
#[derive(Debug)]
struct World {
    /// The CPUs, cores and limits, which decide the number of workers.
    cores: OnceLock<Machine>,
    /// The whole machine, which decides the places of the workers.
    whole: OnceLock<Machine>,
    /// The number of threads that can run at the same time on the allowed CPUs.
    threads: OnceLock<usize>,
    allowed: CpuSet,
    /// The process that read it. A child process may be in another control group.
    process: u32,
}

/// The places of the workers of one pool.
#[derive(Debug)]
pub(crate) struct Pinning {
    /// The world of the pool. It is `None` if the system does not report its CPUs. No worker is
    /// pinned in that case.
    world: Option<Arc<World>>,
    /// The placement that the program requested. `None` means `Unpinned` until the first loop,
    /// session or gang, and `Cores` from then on.
    asked: Option<Placement>,
    floor: Mutex<Floor>,
    /// The number of layouts so far. A worker that used an older layout moves to its new place. The
    /// lock of `floor` orders accesses.
    version: AtomicUsize,
}

/// The layout, which has the place of each worker, and the threads that are at these places.
#[derive(Debug, Default)]
struct Floor {
    layout: Option<Layout>,
    /// The threads of the workers that have started and have not ended.
    threads: Vec<Option<Thread>>,
    /// The workers that the system refused to move to their places, for example because a CPU has
    /// gone offline. These workers count as unpinned.
    refused: Vec<usize>,
}

impl Floor {
    /// Returns the PUs that worker `index` is pinned to. Returns `None` if it is not pinned.
    fn pinned_pus(&self, index: usize) -> Option<&CpuSet> {
        self.place(index).filter(|_| !self.refused.contains(&index))
    }

    /// Returns the PUs that the layout assigns to worker `index`. Returns `None` if it assigns
    /// none.
    fn place(&self, index: usize) -> Option<&CpuSet> {
        let layout = self.layout.as_ref().filter(|layout| layout.pinned())?;
        layout.assigned().get(index)
    }

    /// Calls `set` with the place of worker `index`, if the layout assigns one to it, so that `set`
    /// moves the worker's thread there. If this fails, the worker counts as unpinned.
    fn moved(
        &mut self,
        index: usize,
        set: impl FnOnce(&CpuSet) -> Result<(), creel_topology::Error>,
    ) {
        let Some(pus) = self.place(index) else { return };
        let refused = set(pus).is_err();
        self.refused.retain(|other| *other != index);
        if refused {
            self.refused.push(index);
        }
    }

    fn thread(&mut self, index: usize) -> &mut Option<Thread> {
        if self.threads.len() <= index {
            self.threads.resize(index + 1, None);
        }
        &mut self.threads[index]
    }

    /// Swaps the places of worker 0 and the worker that is pinned to `pu`.
    fn make_way(&mut self, pu: usize) {
        let slots = self
            .layout
            .as_ref()
            .map_or(0, |layout| layout.assigned().len());
        let is_there = |slot: &usize| self.pinned_pus(*slot).is_some_and(|pus| pus.contains(pu));
        match (0..slots).find(is_there) {
            None | Some(0) => (),
            Some(slot) => self.swap(0, slot),
        }
    }

    /// Swaps the places of two workers, and moves their threads.
    fn swap(&mut self, a: usize, b: usize) {
        if let Some(layout) = &mut self.layout {
            layout.swap(a, b);
        }
        for index in [a, b] {
            if let Some(thread) = *self.thread(index) {
                self.moved(index, |pus| affinity::set_of(thread, pus));
            }
        }
    }
}

impl World {
    fn find() -> Option<Arc<Self>> {
        if cfg!(any(creel_loom, creel_shuttle, creel_sim, miri)) {
            return None; // in models, simulations and Miri, threads are not OS threads
        }
        let world = Self::read()?;
        let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self::reuse(&mut recent, world, now_ns()))
    }

    /// Returns the `recent` world, if it is new enough and has the process and the CPUs of `world`,
    /// which may not have read its limits yet. Otherwise returns `world`, which then becomes the
    /// recent one.
    fn reuse(recent: &mut Option<(u64, Arc<Self>)>, world: Self, now: u64) -> Arc<Self> {
        if let Some((found, old)) = recent
            && now - *found < RECENT_NS
            && (old.process, &old.allowed) == (world.process, &world.allowed)
        {
            return Arc::clone(old);
        }
        let world = Arc::new(world);
        *recent = Some((now, Arc::clone(&world)));
        world
    }

    fn new(cores: OnceLock<Machine>, allowed: CpuSet) -> Self {
        Self {
            cores,
            whole: OnceLock::new(),
            threads: OnceLock::new(),
            allowed,
            process: process_id(),
        }
    }

    /// Reads the CPUs that the calling thread may use.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn read() -> Option<Self> {
        // The kernel's mask has only CPUs that are online and in the cpuset.
        if let Ok(mask) = affinity::process() {
            return Some(Self::new(OnceLock::new(), mask));
        }
        let cores = Machine::detect_cores().ok()?;
        let allowed = cores.allowed().clone();
        Some(Self::new(cores.into(), allowed))
    }

    /// Reads the CPUs that the calling thread may use. These systems describe the machine in a few
    /// calls, so we read its cores at once.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn read() -> Option<Self> {
        let cores = Machine::detect_cores().ok()?;
        let allowed = cores.allowed().clone();
        Some(Self::new(cores.into(), allowed))
    }

    /// Returns the cores and limits. We cannot use the mask of the calling thread, because it may be
    /// pinned.
    fn cores(&self) -> &Machine {
        let read = || Machine::detect_cores_in(Path::new("/"), Some(&self.allowed));
        self.cores.get_or_init(read)
    }

    /// Returns the number of threads that can run at the same time. It is the number of allowed
    /// CPUs, or less if the process has a CPU quota.
    fn threads(&self) -> usize {
        *self.threads.get_or_init(|| {
            // We round a quota up. For example, with a quota of 1.5 CPUs, the system stops two
            // threads for a quarter of the time. They still do 1.5 times as much work as one
            // thread.
            let budget = Budget::rounded(self.cores(), Rounding::Ceil);
            let limits = budget.limits().iter();
            let quota = limits.filter(|limit| limit.kind == LimitKind::Quota);
            let quota = quota.map(|limit| limit.workers).min();
            self.allowed.len().min(quota.unwrap_or(usize::MAX)).max(1)
        })
    }

    /// Returns the whole machine. If it cannot be read any more, its cores have to do.
    fn whole(&self) -> &Machine {
        let read = || Machine::detect().unwrap_or_else(|_| self.cores().clone());
        self.whole.get_or_init(read)
    }
}

impl Pinning {
    /// Finds the CPUs that the calling thread may use.
    pub(crate) fn find(asked: Option<Placement>) -> Self {
        let world = local(&WORLD, |world| world.borrow().clone()).flatten();
        Self {
            world: world.or_else(World::find),
            asked,
            floor: Mutex::new(Floor::default()),
            version: AtomicUsize::new(0),
        }
    }

    /// Returns the default number of workers. It is one per usable core, or fewer if another limit
    /// of the process is lower, for example a CPU quota.
    pub(crate) fn default_workers(&self) -> usize {
        match &self.world {
            Some(world) => Budget::of(world.cores()).workers(),
            None => threads(),
        }
    }

    /// Returns the number of CPUs that the pool may use.
    pub(crate) fn cpus(&self) -> usize {
        match &self.world {
            Some(world) => world.allowed.len().max(1),
            None => threads(),
        }
    }

    /// Returns the number of threads that can run at the same time on the CPUs that the pool may
    /// use. The first call reads the limits of the process.
    pub(crate) fn threads(&self) -> usize {
        self.world
            .as_ref()
            .map_or_else(threads, |world| world.threads())
    }

    /// Returns the limits on the number of workers. The first call may read them. Returns `None` if
    /// the system does not report its CPUs.
    pub(crate) fn budget(&self) -> Option<Budget> {
        let world = self.world.as_ref()?;
        Some(Budget::of(world.cores()))
    }

    /// Pins `workers` workers as the program requested. Does nothing if it requested no placement.
    pub(crate) fn pin_as_configured(&self, workers: usize) -> Result<(), creel_topology::Error> {
        match &self.asked {
            Some(placement) => self.pin(workers, placement),
            None => Ok(()),
        }
    }

    /// Pins the workers for a loop, session or gang, with the placement `Cores`. Does nothing if
    /// they have been pinned before, or if the program requested a placement. If the workers cannot
    /// be pinned, they stay unpinned.
    pub(crate) fn pin_for_loops(&self, workers: usize) {
        if self.asked.is_none() && self.version() == 0 {
            let _ = self.pin(workers, &Placement::Cores);
        }
    }

    fn pin(&self, workers: usize, placement: &Placement) -> Result<(), creel_topology::Error> {
        let Some(world) = &self.world else {
            return Ok(());
        };
        // If the system has no affinity masks, a layout would only reserve places in the ledger
        // that no worker takes.
        if matches!(
            affinity::current(),
            Err(creel_topology::Error::Unsupported(_))
        ) {
            return Ok(());
        }
        let mut floor = lock(&self.floor);
        let layout = &mut floor.layout;
        let mut ledger = ledger();
        if let Some(old) = &*layout {
            ledger.release(old);
        }
        match ledger.assign(world.whole(), &world.allowed, workers, placement) {
            Ok(new) => {
                *layout = Some(new);
                floor.refused.clear();
            }
            Err(error) => {
                layout.iter().for_each(|old| ledger.add(old));
                return Err(error);
            }
        }
        self.version.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Pins the workers again after a resize, with the same placement as before. Does nothing if
    /// no placement was requested and the workers were never pinned.
    pub(crate) fn repin(&self, workers: usize) -> Result<(), creel_topology::Error> {
        match (&self.asked, self.version()) {
            (Some(_), _) => self.pin_as_configured(workers),
            (None, 0) => Ok(()),
            (None, _) => self.pin(workers, &Placement::Cores),
        }
    }

    /// Returns the other workers to which the layout gives a place, starting with the nearest to
    /// worker `index`. Returns an empty list if it gives this worker none.
    pub(crate) fn nearest(&self, index: usize) -> Arc<[usize]> {
        let floor = lock(&self.floor);
        let pinned = floor.layout.as_ref().filter(|layout| layout.pinned());
        match (&self.world, pinned) {
            (Some(world), Some(layout)) if index < layout.assigned().len() => {
                steal_order::nearest(world.whole(), layout.assigned(), index).into()
            }
            _ => Arc::default(),
        }
    }

    pub(crate) fn version(&self) -> usize {
        self.version.load(Ordering::Relaxed)
    }

    /// Returns the PUs that worker `index` is pinned to, or all of the pool's world if it is not
    /// pinned.
    pub(crate) fn pus_of(&self, index: usize) -> CpuSet {
        self.pus_in(&lock(&self.floor), index)
    }

    /// Returns the PUs that worker `index` is pinned to. Returns `None` if it is not pinned.
    pub(crate) fn pinned_pus(&self, index: usize) -> Option<CpuSet> {
        lock(&self.floor).pinned_pus(index).cloned()
    }

    fn pus_in(&self, floor: &Floor, index: usize) -> CpuSet {
        let all = || Some(self.world.as_ref()?.allowed.clone());
        let pinned = floor.pinned_pus(index).cloned();
        pinned.or_else(all).unwrap_or_default()
    }

    /// Pins the calling thread to the place of worker `index`, or to the whole world if the worker
    /// is not pinned. Returns the version of the layout that it used.
    pub(crate) fn attach(&self, index: usize) -> usize {
        let mut floor = lock(&self.floor);
        let version = self.version();
        let pus = self.pus_in(&floor, index);
        local(&WORLD, |world| world.replace(self.world.clone()));
        *floor.thread(index) = self.world.as_ref().and_then(|_| Thread::current());
        let go = |pus: &CpuSet| match affinity::current()? == *pus {
            true => Ok(()),
            false => affinity::set(pus),
        };
        if floor.place(index).is_some() {
            floor.moved(index, go);
        } else if !pus.is_empty() {
            // We ignore the error. For example, a CPU may have gone offline, and then the thread
            // stays where it is.
            let _ = go(&pus);
        }
        version
    }

    /// Removes the calling thread, which was worker `index` and is about to end, from the threads
    /// that are moved with the layout.
    pub(crate) fn leave(&self, index: usize) {
        if self.world.is_some() {
            let mut floor = lock(&self.floor);
            let thread = floor.thread(index);
            // We remove only our own entry, because a new thread may already run this worker.
            *thread = thread.filter(|other| Some(*other) != Thread::current());
        }
    }

    /// Returns the PU that the calling thread runs on. Returns `None` if the pool cannot pin its
    /// workers.
    pub(crate) fn caller_pu(&self) -> Option<usize> {
        self.world.as_ref().and_then(|_| affinity::pu())
    }

    /// Frees `pu` for the caller of a loop, which runs there and takes worker 0's share. A worker
    /// that is pinned to `pu` would have to wait for the caller's CPU, and the OS scheduler may not
    /// change this for a long time. This worker therefore swaps its place with worker 0.
    pub(crate) fn make_way(&self, pu: usize) {
        lock(&self.floor).make_way(pu);
    }

    /// Runs `f` with the calling thread pinned to the place of worker 0, if that worker is pinned
    /// and the system allows it. When this returns or panics, the thread may again use the CPUs
    /// that it could use before. If `movable`, and if another worker is pinned to the CPU on which
    /// the thread runs, worker 0 first swaps its place with that worker.
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
        let _restore = RestoreMask {
            mask: before,
            world: local(&WORLD, |world| world.replace(self.world.clone())).flatten(),
        };
        let _ = affinity::set(&slot);
        f()
    }
}

/// When dropped, sets the CPUs that the thread may use to those before it was pinned.
struct RestoreMask {
    mask: CpuSet,
    world: Option<Arc<World>>,
}

impl Drop for RestoreMask {
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

#[cfg(all(test, target_os = "linux", not(any(creel_loom, creel_shuttle, miri))))]
mod tests {
    use super::*;

    /// Returns the places of a pool on a machine that has more CPUs than this one.
    fn large_machine() -> Pinning {
        let machine = Machine::synthetic("core:8000 pu:1").unwrap();
        let allowed = machine.allowed().clone();
        Pinning {
            world: Some(Arc::new(World {
                cores: machine.clone().into(),
                whole: machine.into(),
                ..World::new(OnceLock::new(), allowed)
            })),
            asked: Some(Placement::Cores),
            floor: Mutex::default(),
            version: AtomicUsize::new(0),
        }
    }

    #[test]
    fn a_pool_reads_the_limits_when_they_are_needed_first() {
        let world = Arc::new(World::read().unwrap());
        let mut pinning = Pinning::find(None);
        pinning.world = Some(Arc::clone(&world));
        assert_eq!(pinning.cpus(), affinity::process().unwrap().len());
        pinning.pin_as_configured(2).unwrap();
        assert!(world.cores.get().is_none(), "the limits were read early");
        assert!((1..=pinning.cpus()).contains(&pinning.threads()));
        assert!(world.cores.get().is_some());
        let limits = pinning.budget().unwrap().workers();
        assert_eq!(pinning.default_workers(), limits);
    }

    #[test]
    fn pools_that_are_built_within_a_second_read_the_limits_once() {
        let world = |cpus: usize| World::new(OnceLock::new(), CpuSet::from_iter(0..cpus));
        let mut recent = None;
        let first = World::reuse(&mut recent, world(4), 5);
        let second = World::reuse(&mut recent, world(4), 4 + RECENT_NS);
        assert!(Arc::ptr_eq(&first, &second));
        let late = World::reuse(&mut recent, world(4), 5 + RECENT_NS);
        assert!(!Arc::ptr_eq(&first, &late), "the limits may have changed");
        let narrow = World::reuse(&mut recent, world(2), 6 + RECENT_NS);
        assert_eq!(narrow.allowed.len(), 2);
        let again = World::reuse(&mut recent, world(2), 6 + RECENT_NS);
        assert!(Arc::ptr_eq(&narrow, &again));
        // A child process may have moved to another control group.
        let child = World {
            process: again.process + 1,
            ..world(2)
        };
        let limits = World::reuse(&mut recent, child, 6 + RECENT_NS);
        assert!(!Arc::ptr_eq(&narrow, &limits));
    }

    #[test]
    fn a_worker_that_the_system_refuses_to_pin_counts_as_unpinned() {
        let pinning = large_machine();
        pinning.pin_as_configured(8_000).unwrap();
        let before = affinity::current().unwrap();
        std::thread::spawn(move || {
            let (absent, here) = (7_999, before.first().unwrap());
            pinning.attach(absent);
            assert_eq!(affinity::current().unwrap(), before);
            assert_eq!(pinning.pinned_pus(absent), None);
            assert_eq!(pinning.pus_of(absent).len(), 8_000);
            pinning.attach(here);
            let there = Some(CpuSet::from_iter([here]));
            assert_eq!(pinning.pinned_pus(here), there);
            // A worker may lose its place to another worker, and then has no CPU to which it can
            // move.
            lock(&pinning.floor).swap(here, 7_998);
            assert_eq!(pinning.pinned_pus(here), None);
        })
        .join()
        .unwrap();
    }
}
