//! Count, minimum, maximum, mean and variance of a series, without storing its values.

/// Accumulates the count, minimum, maximum, mean and variance of a series.
///
/// We sum up the distances from the first value. The times of a stream are close to each other, so
/// the distances are small and their squares keep their precision. Adding a value needs no
/// division.
///
/// ```
/// use creel_stats::Moments;
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
    /// The smallest distance from the first value. An `f32` is enough, because distances are small.
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
        // `min` and `max` would be slower, because they also handle NaN.
        if short < self.least {
            self.least = short;
        }
        if short > self.greatest {
            self.greatest = short;
        }
        self.sum += distance;
        self.squares += distance * distance;
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count as u64
    }

    /// Returns the smallest value, or 0 if there are no values.
    pub fn min(&self) -> f64 {
        self.first + f64::from(self.least)
    }

    /// Returns the largest value, or 0 if there are no values.
    pub fn max(&self) -> f64 {
        self.first + f64::from(self.greatest)
    }

    /// Returns the mean, or 0 if there are no values.
    pub fn mean(&self) -> f64 {
        self.first + self.sum / self.count.max(1) as f64
    }

    /// Returns the sample variance, with the divisor n − 1, or 0 if there are fewer than two
    /// values.
    pub fn variance(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let count = self.count as f64;
        ((self.squares - self.sum * self.sum / count) / (count - 1.0)).max(0.0)
    }

    /// Returns the standard deviation, which is the square root of the variance.
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
        // The distances of the other series are from its own first value, so shift them to ours.
        let shift = other.first - self.first;
        let count = other.count as f64;
        self.count += other.count;
        self.least = self.least.min(other.least + shift as f32);
        self.greatest = self.greatest.max(other.greatest + shift as f32);
        self.squares += other.squares + 2.0 * shift * other.sum + shift * shift * count;
        self.sum += other.sum + shift * count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Vec<f64> {
        // These values are a little more than twenty million. The squares of such values would lose
        // their differences in single precision.
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
    fn moments_match_their_definition() {
        let mut moments = Moments::default();
        values().into_iter().for_each(|value| moments.note(value));
        let (mean, variance) = naive(&values());
        assert!((moments.mean() - mean).abs() < 1e-6);
        assert!((moments.variance() - variance).abs() < 1e-6);
        assert_eq!((moments.min(), moments.max()), (2e7, 2e7 + 96.0));
    }

    #[test]
    fn merged_moments_match_those_of_all_values() {
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
    fn moments_without_values_are_zero() {
        let none = Moments::default();
        assert_eq!(
            (none.min(), none.max(), none.mean(), none.deviation()),
            (0.0, 0.0, 0.0, 0.0)
        );
    }
}
