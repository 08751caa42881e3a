//! Where workers sit: the policies, the cores to choose from, and the count of who sits where.
//!
//! Each file imports from those before it: [`placement`] names the policies, [`layout`] is their
//! answer, [`floor`] computes it, [`ledger`] keeps what several answers took.

mod floor;
mod layout;
mod ledger;
mod placement;

pub use floor::place;
pub use layout::Layout;
pub use ledger::Ledger;
pub use placement::Placement;
