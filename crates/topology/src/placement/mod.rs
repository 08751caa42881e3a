//! Placement of workers: the policies, the cores to choose from, and the number of workers per PU.
//!
//! Each file imports only from those before it: [`policy`] defines the policies, [`layout`] is the
//! result, [`placer`] computes it, and [`ledger`] counts the workers of several layouts.

mod layout;
mod ledger;
mod placer;
mod policy;

pub use layout::Layout;
pub use ledger::Ledger;
pub use placer::place;
pub use policy::Placement;
