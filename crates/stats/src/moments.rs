//! Count, extremes, mean and variance of a series that is not stored.

/// Count, least, greatest, mean and variance of a series, without its values.
///
/// Sums run over the distance from the first value: times of a stream lie close together, so
/// the squares do not cancel, and there is no division a value.
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
    fn no_values_give_zeros() {
        let none = Moments::default();
        assert_eq!(
            (none.min(), none.max(), none.mean(), none.deviation()),
            (0.0, 0.0, 0.0, 0.0)
        );
    }
}
