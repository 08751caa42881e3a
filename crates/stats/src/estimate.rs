//! Estimates of noisy ratios, and the rule that decides whether a ratio is a difference.
//!
//! We work with the logarithms of ratios, so that twice and half are equally far from one. The
//! centre is the trimmed mean, without the lowest and highest fifth of the values, because a single
//! preempted sample cannot move it. With fewer than five values, the centre is the median.
//! The error is Yuen's 95 % interval.
//!
//! A ratio is a difference only if it exceeds [`FACTOR_MIN`], and exceeds its own error and the
//! noise of the measurement together. For example, a ratio of 1.2 with an error of 0.1 in a
//! measurement whose noise is 0.3 is not a difference.
//!
//! Source: K. K. Yuen, "The two-sample trimmed t for unequal population variances" (1974);
//! Student's t for 95 %.

use crate::summary::student_t_95;
use serde::{Deserialize, Serialize};

/// A ratio that is closer to one than this factor (or its inverse) is never a difference.
pub const FACTOR_MIN: f64 = 1.05;

/// Two subjects are the same only if we would have seen a difference by this factor.
const EQUIVALENCE_FACTOR: f64 = 1.15;

/// The centre of ratios, and its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The natural logarithm of the centre.
    pub log: f64,
    /// Half the width of the 95 % interval of `log`. It is infinite for a single value.
    pub half_width: f64,
}

impl Estimate {
    /// Estimates the centre of positive values.
    ///
    /// Values that are not finite and positive are ignored. Returns `None` if no value is left.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let positive = values.into_iter().filter(|v| v.is_finite() && *v > 0.0);
        let mut logs: Vec<f64> = positive.map(f64::ln).collect();
        logs.sort_by(f64::total_cmp);
        let count = logs.len();
        let cut = count / 5;
        let kept = &logs[cut..count - cut];
        let (&low, &high) = (kept.first()?, kept.last()?);
        let log = match cut {
            0 => f64::midpoint(logs[(count - 1) / 2], logs[count / 2]),
            _ => kept.iter().sum::<f64>() / kept.len() as f64,
        };
        // A trimmed value counts as the nearest value that was kept.
        let winsorized: Vec<f64> = logs.iter().map(|v| v.clamp(low, high)).collect();
        let mean = winsorized.iter().sum::<f64>() / count as f64;
        let squares: f64 = winsorized.iter().map(|v| (v - mean).powi(2)).sum();
        let left = kept.len() as f64;
        let half_width = match kept.len() {
            1 => f64::INFINITY,
            kept => student_t_95(kept - 1) * (squares / (left * (left - 1.0))).sqrt(),
        };
        Some(Estimate { log, half_width })
    }

    /// Returns the centre as a factor.
    pub fn factor(&self) -> f64 {
        self.log.exp()
    }

    /// Returns the ends of the 95 % interval as factors.
    pub fn interval(&self) -> (f64, f64) {
        (
            (self.log - self.half_width).exp(),
            (self.log + self.half_width).exp(),
        )
    }

    /// Returns the noise floor as a logarithm, if this is the ratio of a subject to itself.
    ///
    /// The true ratio is then one, so this is the distance from one that noise alone can reach.
    pub fn floor(&self) -> f64 {
        self.log.abs().max(self.half_width)
    }

    /// Returns whether the ratio is a difference, given the noise floors of the runs that it is
    /// from.
    pub fn verdict(&self, floors: &[f64]) -> Verdict {
        let far = self.log.abs();
        if far <= FACTOR_MIN.ln() || far <= self.combined_error(floors) {
            Verdict::Same
        } else if self.log > 0.0 {
            Verdict::More
        } else {
            Verdict::Less
        }
    }

    /// Returns the distance of the ratio from one, in units of its error and `floors` together.
    pub fn distance(&self, floors: &[f64]) -> f64 {
        self.log.abs() / self.combined_error(floors)
    }

    /// Returns whether a difference by `factor` would be detected with an error that is `times` as
    /// wide.
    pub fn is_detectable(&self, factor: f64, floors: &[f64], times: f64) -> bool {
        factor.ln() > times * self.combined_error(floors)
    }

    /// Returns whether two subjects are the same, because we would have seen a difference by 1.15.
    pub fn is_equivalent(&self, floors: &[f64]) -> bool {
        self.log.abs() + self.combined_error(floors) <= EQUIVALENCE_FACTOR.ln()
    }

    fn combined_error(&self, floors: &[f64]) -> f64 {
        floors
            .iter()
            .fold(self.half_width, |all, floor| all.hypot(*floor))
    }

    /// Returns whether more samples could change the verdict. This is so if the ratio differs from
    /// one by more than [`FACTOR_MIN`], but by less than twice its error, including the `floors`.
    pub fn is_inconclusive(&self, floors: &[f64]) -> bool {
        self.log.abs() > FACTOR_MIN.ln() && self.log.abs() < 2.0 * self.combined_error(floors)
    }
}

/// Returns the factor by which errors must be wider if we make this many comparisons.
///
/// With the wider errors, 19 of 20 runs without a real difference show none in any comparison. The
/// factor is the quotient of two quantiles of the normal distribution: that of 5 % divided by the
/// number of comparisons, and that of 5 %.
///
/// Source: O. J. Dunn, "Multiple comparisons among means" (1961), Bonferroni's inequality; the
/// quantile by Abramowitz and Stegun, 26.2.23.
pub fn bonferroni_factor(comparisons: usize) -> f64 {
    let quantile = |p: f64| {
        let t = (-2.0 * p.ln()).sqrt();
        let over = 2.515_517 + t * (0.802_853 + t * 0.010_328);
        let under = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
        t - over / under
    };
    quantile(0.025 / comparisons.max(1) as f64) / quantile(0.025)
}

impl std::ops::Sub for Estimate {
    type Output = Estimate;

    /// Divides a ratio by another one. The errors must be independent.
    fn sub(self, other: Estimate) -> Estimate {
        Estimate {
            log: self.log - other.log,
            half_width: self.half_width.hypot(other.half_width),
        }
    }
}

/// Whether a ratio is a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The samples show no difference.
    Same,
    /// The ratio is above one.
    More,
    /// The ratio is below one.
    Less,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    #[test]
    fn estimates_match_the_paper() {
        let one = Estimate::of([2.0]).unwrap();
        assert!((one.factor() - 2.0).abs() < 1e-12 && one.half_width.is_infinite());
        // With three values, nothing is trimmed, so the centre is the median and the interval is
        // Student's.
        let three = Estimate::of([1.0, 1.0f64.exp(), 2.0f64.exp()]).unwrap();
        assert!((three.log - 1.0).abs() < 1e-12);
        assert!((three.half_width - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        let preempted = Estimate::of([1.0, 1.1, 1000.0]).unwrap();
        assert!((preempted.factor() - 1.1).abs() < 1e-9);
        // With five values, one is trimmed at each end. For the interval, 0, 1, 2, 3, 300 are
        // winsorized to 1, 1, 2, 3, 3.
        let five = Estimate::of([0.0, 1.0, 2.0, 3.0, 300.0].map(f64::exp)).unwrap();
        assert!((five.log - 2.0).abs() < 1e-12);
        assert!((five.half_width - 4.303 * (4.0f64 / 6.0).sqrt()).abs() < 1e-9);
        assert_eq!(Estimate::of([f64::NAN, 0.0, -1.0]), None);
    }

    #[test]
    fn a_verdict_needs_five_percent_and_more_than_the_error() {
        let sure = |log: f64, half_width| Estimate { log, half_width };
        assert_eq!(sure(1.04f64.ln(), 0.001).verdict(&[]), Verdict::Same);
        assert_eq!(sure(1.06f64.ln(), 0.001).verdict(&[]), Verdict::More);
        assert_eq!(sure(0.5f64.ln(), 0.001).verdict(&[]), Verdict::Less);
        assert_eq!(sure(2f64.ln(), 0.8).verdict(&[]), Verdict::Same);
        assert_eq!(sure(2f64.ln(), 0.1).verdict(&[0.7]), Verdict::Same);
        assert_eq!(sure(2f64.ln(), 0.1).verdict(&[0.1, 0.1]), Verdict::More);
        assert!(sure(1.04f64.ln(), 0.05).is_equivalent(&[]));
        assert!(
            !sure(1.04f64.ln(), 0.2).is_equivalent(&[]) && !sure(0.0, 0.05).is_equivalent(&[0.2])
        );
        assert!(sure(2f64.ln(), 0.5).is_inconclusive(&[]));
        assert!(!sure(2f64.ln(), 0.1).is_inconclusive(&[]));
        assert!(!sure(1.04f64.ln(), 0.5).is_inconclusive(&[]));
    }

    #[test]
    fn errors_widen_with_the_number_of_comparisons() {
        // The quantiles of the normal distribution are 1.960 for 0.025, 2.807 for 0.0025 and 3.891
        // for 0.00005.
        assert!(
            (bonferroni_factor(1) - 1.0).abs() < 1e-9 && (bonferroni_factor(0) - 1.0).abs() < 1e-9
        );
        assert!(
            (bonferroni_factor(10) - 2.807 / 1.960).abs() < 0.002,
            "{}",
            bonferroni_factor(10)
        );
        assert!(
            (bonferroni_factor(500) - 3.891 / 1.960).abs() < 0.002,
            "{}",
            bonferroni_factor(500)
        );
        let (far, near) = (
            Estimate {
                log: 0.3,
                half_width: 0.1,
            },
            Estimate {
                log: 0.0,
                half_width: 0.4,
            },
        );
        assert!((far.distance(&[]) - 3.0).abs() < 1e-9);
        assert!(far.is_detectable(2.0, &[0.1], 2.0) && !near.is_detectable(2.0, &[0.1], 2.0));
    }

    #[test]
    fn doubled_time_is_detected_and_equal_time_is_not() {
        let (mut called_same, mut missed) = (0, 0);
        let trials = 2_000;
        for seed in 0..trials {
            let mut noise = Noise(seed);
            let mut ratios = |by: f64| -> Vec<f64> {
                (0..7)
                    .map(|_| by * noise.factor() / noise.factor())
                    .collect()
            };
            let floor = Estimate::of(ratios(1.0)).unwrap().floor();
            let verdict = |values| Estimate::of(values).unwrap().verdict(&[floor]);
            called_same += u32::from(verdict(ratios(1.0)) != Verdict::Same);
            missed += u32::from(verdict(ratios(2.0)) != Verdict::More);
        }
        println!(
            "of {trials}: {called_same} false differences, {missed} differences by 2 × missed"
        );
        assert!(called_same * 100 < trials as u32, "{called_same}");
        assert!(missed * 50 < trials as u32, "{missed}");
    }
}
