//! The machine as a tree of nested objects for people, and a drawing of it.

mod svg;
pub mod tree;

use creel_topology::{Budget, Layout, Machine, Placement};

/// The contents of a drawing: a machine, its budget, and the placement of workers if you want it.
#[derive(Clone, Debug)]
pub struct View {
    /// The machine to show.
    pub machine: Machine,
    /// The number of workers that the limits allow on it.
    pub budget: Budget,
    /// The placement of workers, or `None` to show none.
    pub worker_placement: Option<WorkerPlacement>,
}

/// The placement of workers on a machine.
#[derive(Clone, Debug)]
pub struct WorkerPlacement {
    /// The policy that the user has chosen.
    pub placement: Placement,
    /// The PUs of each worker that result from the policy.
    pub layout: Layout,
}

impl View {
    /// Returns the machine as an SVG document.
    ///
    /// ```
    /// use creel_console::machine::View;
    /// use creel_topology::{Budget, Machine};
    ///
    /// let machine = Machine::synthetic("core:2 pu:2")?;
    /// let budget = Budget::of(&machine);
    /// let view = View { machine, budget, worker_placement: None };
    /// assert!(view.svg().starts_with("<svg"));
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn svg(&self) -> String {
        svg::draw(self)
    }
}
