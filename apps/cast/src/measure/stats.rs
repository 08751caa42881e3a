//! What is measured: five numbers a stream and measure, histograms a context.
//!
//! A stream notes each buffer in a few additions; the histograms are shared by the streams of a
//! context, so that a stream costs little memory and none is left out of the percentiles.

use crate::measure::histogram::Histogram;
use std::time::Duration;

/// Count, least, greatest, mean and variance of a series, without its values.
///
/// Sums run over the distance from the first value: times of a stream lie close together, so
/// the squares do not cancel, and there is no division a value.
///
/// ```
/// use creel_cast::measure::Moments;
///
/// let mut moments = Moments::default();
/// [1.0, 2.0, 3.0].into_iter().for_each(|value| moments.note(value));
/// assert_eq!((moments.count(), moments.mean(), moments.variance()), (3, 2.0, 1.0));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    count: i64,
    first: f64,
    sum: f64,
    squares: f64,
    /// Distances from the first: short ones, for which an `f32` will do.
    least: f32,
    greatest: f32,
}

impl Moments {
    /// Adds a value.
    #[inline]
    pub fn note(&mut self, value: f64) {
        if self.count == 0 {
            self.first = value;
        }
        let distance = value - self.first;
        let short = distance as f32;
        self.count += 1;
        // Not `min` and `max`, which care for values that are no numbers.
        if short < self.least {
            self.least = short;
        }
        if short > self.greatest {
            self.greatest = short;
        }
        self.sum += distance;
        self.squares += distance * distance;
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.count as u64
    }

    /// The least value; zero of none.
    pub fn min(&self) -> f64 {
        self.first + f64::from(self.least)
    }

    /// The greatest value; zero of none.
    pub fn max(&self) -> f64 {
        self.first + f64::from(self.greatest)
    }

    /// The mean; zero of none.
    pub fn mean(&self) -> f64 {
        self.first + self.sum / self.count.max(1) as f64
    }

    /// The sample's variance (divided by n − 1); zero of fewer than two.
    pub fn variance(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let count = self.count as f64;
        ((self.squares - self.sum * self.sum / count) / (count - 1.0)).max(0.0)
    }

    /// The square root of the variance.
    pub fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }

    /// Adds the values of another series.
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        // The other's sums, moved from its first value to this one's.
        let shift = other.first - self.first;
        let count = other.count as f64;
        self.count += other.count;
        self.least = self.least.min(other.least + shift as f32);
        self.greatest = self.greatest.max(other.greatest + shift as f32);
        self.squares += other.squares + 2.0 * shift * other.sum + shift * shift * count;
        self.sum += other.sum + shift * count;
    }
}

/// When a buffer's life went through its stations, in nanoseconds of one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stations {
    /// When it should have been made.
    pub due: u64,
    /// When it was made and pushed.
    pub made: u64,
    /// When the sink had it.
    pub arrived: u64,
}

/// One stream's numbers, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamStats {
    /// From one buffer's arrival to the next one's.
    pub interval: Moments,
    /// From being made to being with the sink.
    pub latency: Moments,
    /// When the last buffer arrived; zero: none has.
    last: u64,
}

impl StreamStats {
    /// When the last buffer arrived; zero: none has.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Notes a buffer here and in the context's histograms.
    #[inline]
    pub fn note(&mut self, histograms: &mut Histograms, at: Stations) {
        let latency = at.arrived.saturating_sub(at.made);
        // Signed: these convert in one instruction, and no time reaches 292 years.
        self.latency.note(latency as i64 as f64);
        histograms.latency.record(latency);
        histograms.lateness.record(at.made.saturating_sub(at.due));
        if self.last > 0 {
            let interval = at.arrived.saturating_sub(self.last);
            self.interval.note(interval as i64 as f64);
            histograms.interval.record(interval);
        }
        self.last = at.arrived;
    }
}

/// Distributions over all streams of a context, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Histograms {
    /// From one buffer's arrival to the next one's of the same stream.
    pub interval: Histogram,
    /// From being made to being with the sink.
    pub latency: Histogram,
    /// From when it should have been made to when it was.
    pub lateness: Histogram,
}

impl Histograms {
    /// Empty ones.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds those of another context.
    pub fn merge(&mut self, other: &Histograms) {
        self.interval.merge(&other.interval);
        self.latency.merge(&other.latency);
        self.lateness.merge(&other.lateness);
    }
}

/// Three points of a distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// What 99 of 100 do not exceed.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

impl Percentiles {
    /// Of a histogram of nanoseconds, in units of `unit`; zeros of an empty one.
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

    fn values() -> Vec<f64> {
        // Twenty million and a little: what a sum of squares in single precision would lose.
        (0..1_000_u32)
            .map(|n| 2e7 + f64::from(n * n % 97))
            .collect()
    }

    fn naive(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        (mean, squares / (values.len() - 1) as f64)
    }

    #[test]
    fn moments_are_those_of_the_definition() {
        let mut moments = Moments::default();
        values().into_iter().for_each(|value| moments.note(value));
        let (mean, variance) = naive(&values());
        assert!((moments.mean() - mean).abs() < 1e-6);
        assert!((moments.variance() - variance).abs() < 1e-6);
        assert_eq!((moments.min(), moments.max()), (2e7, 2e7 + 96.0));
    }

    #[test]
    fn merged_moments_are_those_of_all_values() {
        let values = values();
        let mut whole = Moments::default();
        values.iter().for_each(|&value| whole.note(value));
        for cut in [0, 1, 500, 1_000] {
            let (mut a, mut b) = (Moments::default(), Moments::default());
            values[..cut].iter().for_each(|&value| a.note(value));
            values[cut..].iter().for_each(|&value| b.note(value));
            a.merge(&b);
            assert_eq!(a.count(), whole.count());
            assert_eq!((a.min(), a.max()), (whole.min(), whole.max()));
            assert!((a.mean() - whole.mean()).abs() < 1e-6);
            assert!((a.variance() - whole.variance()).abs() < 1e-6);
        }
    }

    #[test]
    fn nothing_noted_is_all_zeros() {
        let none = Moments::default();
        assert_eq!(
            (none.min(), none.max(), none.mean(), none.deviation()),
            (0.0, 0.0, 0.0, 0.0)
        );
        let points = Percentiles::of(&Histograms::new().latency, Duration::from_micros(1));
        assert_eq!(points, Percentiles::default());
    }

    #[test]
    fn a_buffer_is_noted_in_stream_and_context() {
        let mut histograms = Histograms::new();
        let mut stream = StreamStats::default();
        for n in 1..=100 {
            let due = n * 20_000_000;
            let at = Stations {
                due,
                made: due + 1_000_000,
                arrived: due + 1_002_000,
            };
            stream.note(&mut histograms, at);
        }
        assert_eq!(stream.interval.count(), 99);
        assert_eq!(stream.interval.mean(), 2e7);
        assert_eq!(stream.latency.mean(), 2_000.0);
        let late = Percentiles::of(&histograms.lateness, Duration::from_millis(1));
        assert!((late.p99 - 1.0).abs() < 0.01);
    }
}
