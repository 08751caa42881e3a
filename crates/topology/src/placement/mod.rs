//! Placement of workers: the policies, the cores to choose from, and the number of workers per PU.
//!
//! Each file imports from those before it: [`policy`] names the policies, [`layout`] is their
//! answer, [`placer`] computes it, [`ledger`] counts the workers of several layouts.

mod layout;
mod ledger;
mod placer;
mod policy;

pub use layout::Layout;
pub use ledger::Ledger;
pub use placer::place;
pub use policy::Placement;
