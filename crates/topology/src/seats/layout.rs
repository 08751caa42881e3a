//! The answer of a placement.

use crate::types::CpuSet;

/// Where each worker of a pool sits; [`place`](crate::place) and
/// [`Ledger::seat`](crate::Ledger::seat) make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub(super) seats: Vec<CpuSet>,
    pub(super) wrapped: bool,
    pub(super) pinned: bool,
}

impl Layout {
    /// The PUs of each worker, in the order of the workers.
    pub fn seats(&self) -> &[CpuSet] {
        &self.seats
    }

    /// Lets two workers change seats.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    pub fn swap(&mut self, a: usize, b: usize) {
        self.seats.swap(a, b);
    }

    /// Whether there were more workers than places, so that some share one.
    pub fn wrapped(&self) -> bool {
        self.wrapped
    }

    /// Whether workers are confined to their seats at all.
    pub fn pinned(&self) -> bool {
        self.pinned
    }
}
