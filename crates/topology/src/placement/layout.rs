//! The result of a placement.

use crate::types::CpuSet;

/// The PUs of each worker of a pool, as returned by [`place`](crate::place) and
/// [`Ledger::assign`](crate::Ledger::assign).
///
/// ```
/// use creel_topology::{Machine, Placement, place};
///
/// let machine = Machine::synthetic("core:2 pu:2")?;
/// let layout = place(&machine, machine.allowed(), 2, &Placement::Cores)?;
/// assert_eq!(layout.assigned().len(), 2);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub(super) assigned: Vec<CpuSet>,
    pub(super) wrapped: bool,
    pub(super) pinned: bool,
}

impl Layout {
    /// Returns the PUs of each worker, in the order of the workers.
    ///
    /// ```
    /// use creel_topology::{Machine, Placement, place};
    ///
    /// let machine = Machine::synthetic("core:2 pu:2")?;
    /// let layout = place(&machine, machine.allowed(), 2, &Placement::Cores)?;
    /// assert_eq!(layout.assigned()[1].to_string(), "2-3");
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn assigned(&self) -> &[CpuSet] {
        &self.assigned
    }

    /// Exchanges the PUs of two workers.
    ///
    /// # Panics
    ///
    /// Panics if a worker index is out of range.
    ///
    /// ```
    /// use creel_topology::{Machine, Placement, place};
    ///
    /// let machine = Machine::synthetic("core:2 pu:2")?;
    /// let mut layout = place(&machine, machine.allowed(), 2, &Placement::Cores)?;
    /// layout.swap(0, 1);
    /// assert_eq!(layout.assigned()[0].to_string(), "2-3");
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn swap(&mut self, a: usize, b: usize) {
        self.assigned.swap(a, b);
    }

    /// Returns whether there are more workers than places, so that some workers share a place.
    ///
    /// ```
    /// use creel_topology::{Machine, Placement, place};
    ///
    /// let machine = Machine::synthetic("core:2 pu:2")?;
    /// let fits = |workers| place(&machine, machine.allowed(), workers, &Placement::Cores);
    /// assert!(!fits(2)?.wrapped() && fits(3)?.wrapped());
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn wrapped(&self) -> bool {
        self.wrapped
    }

    /// Returns whether workers are restricted to their PUs at all.
    ///
    /// ```
    /// use creel_topology::{Machine, Placement, place};
    ///
    /// let machine = Machine::synthetic("core:2 pu:2")?;
    /// let layout = place(&machine, machine.allowed(), 2, &Placement::Unpinned)?;
    /// assert!(!layout.pinned());
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn pinned(&self) -> bool {
        self.pinned
    }
}
