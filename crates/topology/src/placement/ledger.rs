//! Who sits where: counts a PU, so that pools of one process do not crowd on the same cores.

use super::layout::Layout;
use super::placer::Placer;
use super::policy::Placement;
use crate::machine::Machine;
use crate::types::{CpuSet, Error};

/// The seats that pools have taken. Pure data: a process keeps one behind a lock.
///
/// A worker counts once, shared out over the PUs that it may run on. Unpinned workers do not
/// count: the system moves them out of the way.
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
    /// For each PU by OS index, its workers in parts of [`WORKER`].
    loads: Vec<u64>,
}

/// A worker's weight: divisible by many numbers of PUs, and large beside the rest.
const WORKER: u64 = 1 << 32;

impl Ledger {
    /// A ledger of empty seats.
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

    /// Places workers as [`place`](crate::place) does, on the least seated cores, and counts them.
    ///
    /// # Errors
    ///
    /// Those of [`place`](crate::place); nothing is counted then.
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

    /// Counts seats that were chosen otherwise.
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

    /// Gives seats back that were taken by [`Ledger::seat`] or [`Ledger::add`].
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

    /// How many workers sit on a PU; one that may move among several PUs counts in part.
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
