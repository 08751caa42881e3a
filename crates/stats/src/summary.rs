//! Summaries of a few values, and ratios of pairs of values.
//!
//! Source: the 95 % interval of a mean uses Student's t. Outliers are found by the median absolute
//! deviation (Iglewicz and Hoaglin, 1993).

use serde::Serialize;

/// The summary of one metric over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The smallest value.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The largest value.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation of the sample, or 0 with a single value.
    pub sd: f64,
    /// Half of the width of the 95 % interval of the mean. It is `None` with a single value.
    pub ci95: Option<f64>,
    /// The geometric mean. It is `None` if the smallest value is not positive, because a zero means
    /// that the value was too small to measure.
    pub geometric_mean: Option<f64>,
    /// The number of values that are far from the median, compared with the spread of the others.
    pub outliers: usize,
}

impl Summary {
    /// Summarises the values. Returns `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let (mean, sd) = (mean(values), deviation(values));
        let positive = min > 0.0;
        let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
        Some(Self {
            min,
            median: median(&sorted),
            max,
            mean,
            sd,
            ci95: half_width(values),
            geometric_mean: positive.then(|| self::mean(&logs).exp()),
            outliers: outliers(&sorted),
        })
    }
}

/// The ratios of two commands, taken run by run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ratio {
    /// The geometric mean of the ratios.
    pub geometric_mean: f64,
    /// The smallest ratio.
    pub min: f64,
    /// The median ratio.
    pub median: f64,
    /// The largest ratio.
    pub max: f64,
    /// The lower end of the 95 % interval of the geometric mean. It is `None` with a single pair.
    pub low: Option<f64>,
    /// The upper end of the 95 % interval.
    pub high: Option<f64>,
}

impl Ratio {
    /// Divides `values` by `base`, pair by pair.
    ///
    /// Returns `None` if there are no pairs, or if a value is not positive.
    pub fn of(base: &[f64], values: &[f64]) -> Option<Self> {
        let pairs = base.iter().zip(values);
        let ratios: Option<Vec<f64>> = pairs
            .map(|(&b, &v)| (b > 0.0 && v > 0.0).then(|| v / b))
            .collect();
        let mut ratios = ratios?;
        let logs: Vec<f64> = ratios.iter().map(|r| r.ln()).collect();
        ratios.sort_by(f64::total_cmp);
        let (&min, &max) = (ratios.first()?, ratios.last()?);
        let centre = mean(&logs);
        let half = half_width(&logs);
        Some(Self {
            geometric_mean: centre.exp(),
            min,
            median: median(&ratios),
            max,
            low: half.map(|half| (centre - half).exp()),
            high: half.map(|half| (centre + half).exp()),
        })
    }

    /// Returns the end of the interval that is farther from 1, as a factor above 1.
    ///
    /// If both commands are the same, this is how far noise alone moves a ratio.
    pub fn noise_floor(&self) -> f64 {
        let ends = [self.low, self.high, Some(self.geometric_mean)];
        let factors = ends.into_iter().flatten().map(|r| r.max(1.0 / r));
        factors.fold(1.0, f64::max)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2])
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    match values.len() {
        0 | 1 => 0.0,
        n => (squares / (n - 1) as f64).sqrt(),
    }
}

fn half_width(values: &[f64]) -> Option<f64> {
    let n = values.len();
    (n > 1).then(|| student_t_95(n - 1) * deviation(values) / (n as f64).sqrt())
}

/// Returns Student's t for a two-sided interval of 95 %.
pub(crate) fn student_t_95(degrees_of_freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    // Beyond the table, we use the first term of the expansion by Cornish and Fisher.
    let beyond = |n: f64| 1.96 + 2.372 / n;
    TABLE
        .get(degrees_of_freedom.saturating_sub(1))
        .copied()
        .unwrap_or_else(|| beyond(degrees_of_freedom as f64))
}

fn outliers(sorted: &[f64]) -> usize {
    const FAR: f64 = 5.0;
    /// The difference between equal values that a coarse clock may show, as a share.
    const RESOLUTION: f64 = 0.01;
    let centre = median(sorted);
    let mut distances: Vec<f64> = sorted.iter().map(|v| (v - centre).abs()).collect();
    distances.sort_by(f64::total_cmp);
    // A value is an outlier if its distance from the median is more than `FAR` times the scale. The
    // scale is the median of all distances, times the factor that makes it the standard deviation
    // if the values are normally distributed.
    let normal = 1.4826 * median(&distances);
    // If more than half of the values are equal, the median of the distances is zero. The scale is
    // then 1 % of the median value, because a coarse clock may show such differences between equal
    // values. If the median value is zero as well, we use the mean distance (Iglewicz and Hoaglin).
    let relative = RESOLUTION * centre.abs();
    let candidates = [normal, relative, 1.2533 * mean(&distances)];
    let scale = candidates.into_iter().find(|&scale| scale > 0.0);
    scale.map_or(0, |scale| {
        let far = distances.iter().filter(|&&d| d > FAR * scale);
        far.count()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_match_textbook_values() {
        let s = Summary::of(&[8.0, 2.0, 4.0, 1.0]).unwrap();
        assert_eq!((s.min, s.median, s.max, s.mean), (1.0, 3.0, 8.0, 3.75));
        assert!((s.geometric_mean.unwrap() - 64_f64.powf(0.25)).abs() < 1e-12);
        assert!((s.sd - 3.095_695_936_834_452).abs() < 1e-12);
        assert!((s.ci95.unwrap() - 3.182 * s.sd / 2.0).abs() < 1e-12);
        assert_eq!(Summary::of(&[0.0, 5.0]).unwrap().geometric_mean, None);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0]).unwrap().ci95, None);
    }

    #[test]
    fn outliers_are_counted() {
        let mut values: Vec<f64> = (0..20).map(|i| 10.0 + f64::from(i % 5)).collect();
        assert_eq!(Summary::of(&values).unwrap().outliers, 0);
        values.push(90.0);
        assert_eq!(Summary::of(&values).unwrap().outliers, 1);
    }

    #[test]
    fn outliers_among_equal_values_are_counted() {
        let outliers = |values: &[f64]| Summary::of(values).unwrap().outliers;
        let mut values = vec![0.1; 9];
        assert_eq!(outliers(&values), 0);
        values.extend([0.5, 0.02]);
        assert_eq!(outliers(&values), 2);
        let coarse = [0.1, 0.1, 0.1, 0.1, 0.101, 0.099, 0.1, 0.1];
        assert_eq!(outliers(&coarse), 0, "the clock has a resolution");
        let mut zeros = vec![0.0; 19];
        zeros.push(30.0);
        assert_eq!(outliers(&zeros), 1);
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let base = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95];
        let ratio = Ratio::of(&base, &base.map(|v| v * 2.0)).unwrap();
        assert!((ratio.geometric_mean - 2.0).abs() < 1e-12);
        assert_eq!(Ratio::of(&base, &[0.0; 6]), None);
    }
}
