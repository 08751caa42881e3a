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
/// let first = ledger.seat(&machine, machine.allowed(), 2, &Placement::Cores)?;
/// let second = ledger.seat(&machine, machine.allowed(), 2, &Placement::Cores)?;
/// assert_eq!(first.seats()[0].to_string(), "0");
/// assert_eq!(second.seats()[0].to_string(), "2");
/// ledger.release(&first);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// The load of each PU by OS index, in parts of [`WORKER`].
    loads: Vec<u64>,
}

/// The load of one worker. It is divisible by many numbers of PUs, and so large that the remainder
/// of a division does not matter.
const WORKER: u64 = 1 << 32;

impl Ledger {
    /// Creates a ledger without workers.
    ///
    /// ```
    /// use creel_topology::Ledger;
    ///
    /// static SEATS: std::sync::Mutex<Ledger> = std::sync::Mutex::new(Ledger::new());
    /// assert_eq!(SEATS.lock().unwrap().seated(0), 0.0);
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
    /// let layout = ledger.seat(&machine, machine.allowed(), 1, &Placement::Cores)?;
    /// assert_eq!(layout.seats()[0].to_string(), "0");
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn seat(
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

    /// Counts the workers of a layout that was created elsewhere.
    ///
    /// ```
    /// use creel_topology::{Ledger, Machine, Placement, place};
    ///
    /// let machine = Machine::synthetic("core:2")?;
    /// let mut ledger = Ledger::new();
    /// ledger.add(&place(&machine, machine.allowed(), 2, &Placement::Cores)?);
    /// assert_eq!(ledger.seated(1), 1.0);
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

    /// Removes the workers of a layout that [`Ledger::seat`] or [`Ledger::add`] has counted.
    ///
    /// ```
    /// use creel_topology::{Ledger, Machine, Placement};
    ///
    /// let machine = Machine::synthetic("core:2")?;
    /// let mut ledger = Ledger::new();
    /// let layout = ledger.seat(&machine, machine.allowed(), 2, &Placement::Cores)?;
    /// ledger.release(&layout);
    /// assert_eq!(ledger.seated(0), 0.0);
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
    /// ledger.seat(&machine, machine.allowed(), 3, &Placement::Cores)?;
    /// assert_eq!(ledger.seated(0) + ledger.seated(1), 3.0);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn seated(&self, pu: usize) -> f64 {
        self.load(pu) as f64 / WORKER as f64
    }

    fn load(&self, pu: usize) -> u64 {
        self.loads.get(pu).copied().unwrap_or(0)
    }
}

/// Calls `each` with every PU of a worker and the load that the worker adds to it.
fn for_each_share(layout: &Layout, mut each: impl FnMut(usize, u64)) {
    for seat in layout
        .seats()
        .iter()
        .filter(|seat| layout.pinned() && !seat.is_empty())
    {
        let share = WORKER / seat.len() as u64;
        seat.iter().for_each(|pu| each(pu, share));
    }
}
