//! The machine as people see it: one tree of nested objects, and a drawing of it.

mod svg;
pub mod tree;

use creel_topology::{Budget, Layout, Machine, Placement};

/// All that is shown: a machine, its budget, and seats where they were asked for.
#[derive(Clone, Debug)]
pub struct View {
    /// What is there.
    pub machine: Machine,
    /// What may be used of it.
    pub budget: Budget,
    /// The placement of workers, if it is to be shown.
    pub worker_placement: Option<WorkerPlacement>,
}

/// Who sits where.
#[derive(Clone, Debug)]
pub struct WorkerPlacement {
    /// As asked for.
    pub placement: Placement,
    /// As it came out.
    pub layout: Layout,
}

impl View {
    /// The machine as a whole SVG document.
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
