//! Where the workers of a pool sit.
//!
//! The world of a pool is the set of PUs that its maker could use. A thread that Creel has
//! pinned remembers its world, so a pool made there is not squeezed onto that thread's seat; and
//! every worker sets its own mask when it starts, so it does not inherit its starter's.
//!
//! One ledger a process counts the seated workers of each PU, so that two pools with `Cores`
//! begin at different cores. Left out on purpose: the caller's mask, which only a session
//! touches.

use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use creel_topology::{Budget, CpuSet, Layout, Ledger, LimitKind, Machine, Placement, affinity};
use std::{
    cell::RefCell,
    num::NonZeroUsize,
    sync::{Arc, Mutex as PlainMutex, PoisonError},
    thread,
};

/// The seats that the pools of this process have taken.
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
pub(crate) struct Seating {
    /// None where the system does not tell: then nobody is ever pinned.
    world: Option<Arc<World>>,
    /// What the program asked for. None: `Unpinned` until the first loop, `Cores` from then on.
    asked: Option<Placement>,
    layout: Mutex<Option<Layout>>,
    /// Counts the layouts; a worker that knows an older one sits down anew. Ordered by
    /// `layout`'s lock.
    version: AtomicUsize,
}

/// What the machine and the limits of this process leave for a pool.
pub(crate) struct Offer {
    pub(crate) seating: Seating,
    /// The usable cores.
    pub(crate) workers: usize,
    /// How many threads can run at the same time.
    pub(crate) pus: usize,
}

impl Offer {
    /// What the calling thread may use.
    pub(crate) fn find(asked: Option<Placement>) -> Self {
        let world = WORLD.with_borrow(Clone::clone).or_else(World::find);
        // A model has the same number on every machine.
        let threads = || match cfg!(shuttle) {
            true => 4,
            false => thread::available_parallelism().map_or(1, NonZeroUsize::get),
        };
        let (workers, pus) = match &world {
            Some(world) => {
                let budget = Budget::of(&world.machine);
                let quota = budget
                    .limits()
                    .iter()
                    .filter(|l| l.kind == LimitKind::Quota);
                let quota = quota.map(|limit| limit.workers).min();
                let pus = world.allowed.len().min(quota.unwrap_or(usize::MAX));
                (budget.workers(), pus.max(1))
            }
            None => (threads(), threads()),
        };
        let seating = Seating {
            world,
            asked,
            layout: Mutex::new(None),
            version: AtomicUsize::new(0),
        };
        Self {
            seating,
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

impl Seating {
    /// Seats `workers` workers as the program asked, if it asked.
    pub(crate) fn seat_as_asked(&self, workers: usize) -> Result<(), creel_topology::Error> {
        match &self.asked {
            Some(placement) => self.seat(workers, placement),
            None => Ok(()),
        }
    }

    /// A loop wants its workers pinned: seats them by `Cores` unless they have been seated, or
    /// the program has said where. What cannot be pinned goes unpinned.
    pub(crate) fn seat_for_loops(&self, workers: usize) {
        if self.asked.is_none() && self.version() == 0 {
            let _ = self.seat(workers, &Placement::Cores);
        }
    }

    fn seat(&self, workers: usize, placement: &Placement) -> Result<(), creel_topology::Error> {
        let Some(world) = &self.world else {
            return Ok(());
        };
        let mut layout = lock(&self.layout);
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

    /// Seats a changed number of workers by the same policy.
    pub(crate) fn reseat(&self, workers: usize) -> Result<(), creel_topology::Error> {
        match (&self.asked, self.version()) {
            (Some(_), _) => self.seat_as_asked(workers),
            (None, 0) => Ok(()),
            (None, _) => self.seat(workers, &Placement::Cores),
        }
    }

    pub(crate) fn version(&self) -> usize {
        self.version.load(Ordering::Relaxed)
    }

    /// The PUs of worker `index`: its seat, or all of the pool's world.
    pub(crate) fn pus_of(&self, index: usize) -> CpuSet {
        self.pinned_pus(index)
            .or_else(|| Some(self.world.as_ref()?.allowed.clone()))
            .unwrap_or_default()
    }

    /// The PUs that worker `index` is pinned to, if it is.
    pub(crate) fn pinned_pus(&self, index: usize) -> Option<CpuSet> {
        let layout = lock(&self.layout);
        let layout = layout.as_ref().filter(|layout| layout.pinned())?;
        layout.seats().get(index).cloned()
    }

    /// Pins the calling thread to the seat of worker `index`, or gives it the whole world.
    /// Returns the version of the layout that it goes by.
    pub(crate) fn sit_down(&self, index: usize) -> usize {
        let version = self.version();
        let pus = self.pus_of(index);
        WORLD.set(self.world.clone());
        if !pus.is_empty() && affinity::current().is_ok_and(|now| now != pus) {
            // A seat may have gone offline meanwhile: then the thread stays where it is.
            let _ = affinity::set(&pus);
        }
        version
    }

    /// Runs `f` with the calling thread pinned to the seat of worker 0; its own mask is back
    /// when this returns or panics.
    pub(crate) fn with_caller_seated<R>(&self, f: impl FnOnce() -> R) -> R {
        let seat = self.pinned_pus(0);
        let (Some(seat), Ok(before)) = (seat, affinity::current()) else {
            return f();
        };
        let _stand_up = StandUp {
            mask: before,
            world: WORLD.replace(self.world.clone()),
        };
        let _ = affinity::set(&seat);
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
        WORLD.set(self.world.take());
        let _ = affinity::set(&self.mask);
    }
}

impl Drop for Seating {
    fn drop(&mut self) {
        if let Some(layout) = &*lock(&self.layout) {
            ledger().release(layout);
        }
    }
}

fn ledger() -> impl std::ops::DerefMut<Target = Ledger> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}
