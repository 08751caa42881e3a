//! Statistics that the programs share.
//!
//! We use them to summarise a few runs, to decide whether two programs differ, and to record the
//! times of millions of audio buffers. For example, `creel-bench` uses [`Estimate`], and
//! `creel-cast` uses [`Histogram`].
//!
//! | module | for |
//! |---|---|
//! | `summary` | a few values (mean, median, interval, outliers), and ratios of pairs |
//! | `estimate` | noisy ratios: a trimmed mean, its interval, and whether the ratio is a difference or only noise |
//! | `moments` | long series that are not stored |
//! | `histogram` | quantiles of long series |
//! | [`noise`] | synthetic samples for tests |
#![forbid(unsafe_code)]

mod estimate;
mod histogram;
mod moments;
pub mod noise;
mod summary;

pub use estimate::{Estimate, FACTOR_MIN, Verdict, bonferroni_factor};
pub use histogram::{Histogram, Percentiles};
pub use moments::Moments;
pub use summary::{Ratio, Summary};
