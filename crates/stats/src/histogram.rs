//! A histogram of whole numbers, such as nanoseconds, with a fixed number of counters.
//!
//! The layout is that of HDR histograms. Each power of two is cut into [`PARTS`] equal parts, so
//! the error of a value is at most 0.8 %, whether it is nanoseconds or seconds. To find the counter
//! of a value, we need only a count of leading zeros and a shift. This is important because an
//! audio stream records three values per buffer.
//!
//! We left out other bounds, corrections for values that were not recorded, and serialisation.

use std::fmt;
use std::time::Duration;

/// The binary logarithm of the number of parts of a power of two.
const PART_BITS: u32 = 7;
const PARTS: usize = 1 << PART_BITS;
/// The binary logarithm of the upper bound, which is 68.7 s. Larger values share the last counter.
const VALUE_BITS: u32 = 36;
/// The number of counters. Each value below `2 * PARTS` has its own counter, and each power of two
/// above has `PARTS` counters.
const COUNTERS: usize = PARTS * (VALUE_BITS - PART_BITS + 1) as usize;

/// A histogram of nanoseconds.
///
/// ```
/// use creel_stats::Histogram;
///
/// let mut histogram = Histogram::default();
/// (1..=1000).for_each(|nanos| histogram.record(nanos * 1000));
/// assert_eq!((histogram.len(), histogram.max()), (1000, 1_000_000));
/// assert!((histogram.quantile(0.5) as f64 / 500_000.0 - 1.0).abs() < 0.008);
/// ```
#[derive(Clone)]
pub struct Histogram {
    counters: Box<[u64; COUNTERS]>,
    max: u64,
}

/// Returns the index of the counter of a value.
#[inline]
fn index_of(value: u64) -> usize {
    let value = value.min((1 << VALUE_BITS) - 1);
    // Setting this bit gives all values below `2 * PARTS` the first octave, which has one counter
    // per value.
    let octave = (value | (PARTS as u64)).ilog2() - PART_BITS;
    (octave as usize) * PARTS + (value >> octave) as usize
}

/// Returns the largest value that belongs to a counter.
fn value_of(index: usize) -> u64 {
    let octave = (index / PARTS).saturating_sub(1) as u32;
    let part = (index - octave as usize * PARTS) as u64;
    ((part + 1) << octave) - 1
}

impl Histogram {
    /// Adds a value in nanoseconds. Values above 68.7 s count as 68.7 s in quantiles.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.counters[index_of(nanos)] += 1;
        self.max = self.max.max(nanos);
    }

    /// Returns the number of values.
    pub fn len(&self) -> u64 {
        self.counters.iter().sum()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the exact largest value, or 0 if there are no values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the value that the given share of all values does not exceed. `share` is from 0 to
    /// 1. For example, 0.5 gives the median.
    ///
    /// The result is at most 0.8 % too large. It is 0 if there are no values.
    pub fn quantile(&self, share: f64) -> u64 {
        let len = self.len();
        let rank = ((share * len as f64).ceil() as u64).clamp(1, len.max(1));
        let mut seen = 0;
        let found = self.counters.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map_or(0, |index| value_of(index).min(self.max))
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counters.iter_mut().zip(other.counters.iter()) {
            *count += more;
        }
        self.max = self.max.max(other.max);
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counters: Box::new([0; COUNTERS]),
            max: 0,
        }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("len", &self.len())
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

/// The median, the 99th percentile and the maximum of a histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The maximum.
    pub max: f64,
}

impl Percentiles {
    /// Returns the percentiles of a histogram in units of `unit`. They are 0 if the histogram is
    /// empty.
    pub fn of(histogram: &Histogram, unit: Duration) -> Self {
        let unit = unit.as_nanos() as f64;
        Percentiles {
            p50: histogram.quantile(0.5) as f64 / unit,
            p99: histogram.quantile(0.99) as f64 / unit,
            max: histogram.max() as f64 / unit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_within_the_bounds_of_its_counter() {
        let edges =
            (0..64).flat_map(|bit| [-1, 0, 1].map(|d| (1_u64 << bit).saturating_add_signed(d)));
        for value in (0..5_000).chain(edges).filter(|v| v >> VALUE_BITS == 0) {
            let index = index_of(value);
            let top = value_of(index);
            assert!(value <= top, "{value} above {top}");
            assert!(
                top - value <= value / PARTS as u64,
                "{value} far below {top}"
            );
            assert!(index == 0 || value_of(index - 1) < value, "{value}");
        }
        assert_eq!(index_of(u64::MAX), COUNTERS - 1);
    }

    #[test]
    fn quantiles_match_the_sorted_values() {
        let mut values: Vec<u64> = (0..10_000_u64).map(|n| n * n % 7_919 * 1_000).collect();
        let (mut a, mut b) = (Histogram::default(), Histogram::default());
        for (n, &value) in values.iter().enumerate() {
            if n % 3 == 0 { &mut a } else { &mut b }.record(value);
        }
        a.merge(&b);
        values.sort_unstable();
        for share in [0.0, 0.01, 0.5, 0.99, 1.0] {
            let rank = ((share * 10_000.0) as usize).max(1) - 1;
            let (estimate, exact) = (a.quantile(share) as f64, values[rank] as f64);
            assert!(
                estimate >= exact && estimate <= exact * 1.008,
                "{share}: {estimate}, {exact}"
            );
        }
        assert_eq!(a.quantile(1.0), a.max());
    }

    #[test]
    fn the_quantiles_of_an_empty_histogram_are_zero() {
        let none = Histogram::default();
        assert!(none.is_empty());
        assert_eq!((none.quantile(0.5), none.max()), (0, 0));
        let points = Percentiles::of(&none, Duration::from_micros(1));
        assert_eq!(points, Percentiles::default());
    }
}
