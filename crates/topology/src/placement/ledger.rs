//! Counts the workers of all pools per PU, so that the pools of a process do not crowd onto the
//! same cores.

use super::layout::Layout;
use super::placer::Placer;
use super::policy::Placement;
use crate::machine::Machine;
use crate::types::{CpuSet, Error};

/// The number of workers that pools have placed on each PU.
///
/// This is plain data. A process keeps one ledger behind a lock. Each worker counts as one, divided
/// evenly over the PUs on which it may run. Unpinned workers do not count, because the OS moves
/// them to free PUs.
///
/// ```
/// use creel_topology::{Ledger, Machine, Placement};
///
/// let machine = Machine::synthetic("core:4")?;
/// let mut ledger = Ledger::new();
/// let first = ledger.assign(&machine, machine.allowed(), 2, &Placement::Cores)?;
/// let second = ledger.assign(&machine, machine.allowed(), 2, &Placement::Cores)?;
/// assert_eq!(first.assigned()[0].to_string(), "0");
/// assert_eq!(second.assigned()[0].to_string(), "2");
/// ledger.release(&first);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// The load of each PU by OS index, in parts of [`WORKER`].
    loads: Vec<u64>,
}

/// The load of one worker. We divide it by the number of PUs on which the worker may run. It is
/// divisible by many numbers, and so large that a remainder does not matter.
const WORKER: u64 = 1 << 32;

impl Ledger {
    /// Creates a ledger without workers.
    ///
    /// ```
    /// use creel_topology::Ledger;
    ///
    /// static LEDGER: std::sync::Mutex<Ledger> = std::sync::Mutex::new(Ledger::new());
    /// assert_eq!(LEDGER.lock().unwrap().workers_on(0), 0.0);
    /// ```
    pub const fn new() -> Ledger {
        Ledger { loads: Vec::new() }
    }

    /// Places workers like [`place`](crate::place), on the cores with the fewest workers, and
    /// counts them.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`place`](crate::place). Nothing is counted in this case.
    ///
    /// ```
    /// use creel_topology::{Ledger, Machine, Placement};
    ///
    /// let machine = Machine::synthetic("core:2")?;
    /// let mut ledger = Ledger::new();
    /// let layout = ledger.assign(&machine, machine.allowed(), 1, &Placement::Cores)?;
    /// assert_eq!(layout.assigned()[0].to_string(), "0");
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn assign(
        &mut self,
        machine: &Machine,
        allowed: &CpuSet,
        workers: usize,
        placement: &Placement,
    ) -> Result<Layout, Error> {
        let layout =
            Placer::new(machine, allowed, |pu| self.load(pu))?.layout(workers, placement)?;
        self.add(&layout);
        Ok(layout)
    }

    /// Counts the workers of a layout that this ledger did not create, for example one that
    /// [`place`](crate::place) has returned.
    ///
    /// ```
    /// use creel_topology::{Ledger, Machine, Placement, place};
    ///
    /// let machine = Machine::synthetic("core:2")?;
    /// let mut ledger = Ledger::new();
    /// ledger.add(&place(&machine, machine.allowed(), 2, &Placement::Cores)?);
    /// assert_eq!(ledger.workers_on(1), 1.0);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn add(&mut self, layout: &Layout) {
        for_each_share(layout, |pu, share| {
            if self.loads.len() <= pu {
                self.loads.resize(pu + 1, 0);
            }
            self.loads[pu] += share;
        });
    }

    /// Removes the workers of a layout that [`Ledger::assign`] or [`Ledger::add`] has counted.
    ///
    /// ```
    /// use creel_topology::{Ledger, Machine, Placement};
    ///
    /// let machine = Machine::synthetic("core:2")?;
    /// let mut ledger = Ledger::new();
    /// let layout = ledger.assign(&machine, machine.allowed(), 2, &Placement::Cores)?;
    /// ledger.release(&layout);
    /// assert_eq!(ledger.workers_on(0), 0.0);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn release(&mut self, layout: &Layout) {
        for_each_share(layout, |pu, share| {
            if let Some(load) = self.loads.get_mut(pu) {
                *load = load.saturating_sub(share);
            }
        });
    }

    /// Returns the number of workers on a PU. A worker that may move among several PUs counts as a
    /// fraction.
    ///
    /// ```
    /// use creel_topology::{Ledger, Machine, Placement};
    ///
    /// let machine = Machine::synthetic("core:2")?;
    /// let mut ledger = Ledger::new();
    /// ledger.assign(&machine, machine.allowed(), 3, &Placement::Cores)?;
    /// assert_eq!(ledger.workers_on(0) + ledger.workers_on(1), 3.0);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn workers_on(&self, pu: usize) -> f64 {
        self.load(pu) as f64 / WORKER as f64
    }

    fn load(&self, pu: usize) -> u64 {
        self.loads.get(pu).copied().unwrap_or(0)
    }
}

/// Calls `each` with every PU of a worker and the load that the worker adds to it.
fn for_each_share(layout: &Layout, mut each: impl FnMut(usize, u64)) {
    for pus in layout
        .assigned()
        .iter()
        .filter(|pus| layout.pinned() && !pus.is_empty())
    {
        let share = WORKER / pus.len() as u64;
        pus.iter().for_each(|pu| each(pu, share));
    }
}
