//! Measurements: contexts and their use of the machine, distributions, and the reception of
//! packets.

pub(crate) mod bursts;
pub(crate) mod context;
pub(crate) mod contexts;
pub(crate) mod quality;
pub(crate) mod reception;
pub(crate) mod spacing;
pub(crate) mod stats;

pub use bursts::Bursts;
pub use contexts::{Used, resident_bytes};

pub use spacing::Range;
pub use stats::{Histogram, Histograms, Moments, Percentiles, Stations, StreamStats};
