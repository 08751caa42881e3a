//! What is measured, and where: contexts, their use of the machine, distributions, receptions.

pub(crate) mod context;
pub(crate) mod contexts;
pub(crate) mod reception;
pub(crate) mod stats;

pub use contexts::{Used, resident_bytes};

pub use stats::{Histogram, Histograms, Moments, Percentiles, Stations, StreamStats};
