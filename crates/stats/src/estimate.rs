//! What a few samples say together, and when a difference is called one.
//!
//! Ratios are handled as logarithms, so that twice and half are equally far from one. A centre is a
//! mean without the outermost fifths, which a single preempted sample cannot move, of fewer than
//! five the median; its error is Yuen's. A difference is called only where it is beyond [`FACTOR_MIN`], beyond its own error, and
//! beyond what a subject differs from itself by in the same slots.
//!
//! Source: K. K. Yuen, "The two-sample trimmed t for unequal population variances" (1974);
//! Student's t for 95 %.

use crate::summary::student_t_95;
use serde::{Deserialize, Serialize};

/// Differences below this factor are never called one.
pub const FACTOR_MIN: f64 = 1.05;

/// Two are called the same only where a difference beyond this factor would have been seen.
const EQUIVALENCE_FACTOR: f64 = 1.15;

/// A mean of logarithms and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The natural logarithm of the centre.
    pub log: f64,
    /// Half of its 95 % interval, as a logarithm; infinite of one sample.
    pub half_width: f64,
}

impl Estimate {
    /// Of positive values; what is not finite and positive is left out. `None` if nothing is left.
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
        // What was cut off counts as if it lay at the border.
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

    /// As a factor.
    pub fn factor(&self) -> f64 {
        self.log.exp()
    }

    /// The ends of the 95 % interval, as factors.
    pub fn interval(&self) -> (f64, f64) {
        (
            (self.log - self.half_width).exp(),
            (self.log + self.half_width).exp(),
        )
    }

    /// How far from one noise alone reaches, when this is a subject over itself.
    pub fn floor(&self) -> f64 {
        self.log.abs().max(self.half_width)
    }

    /// What is beyond `floors`, the noise floors of the runs it comes from.
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

    /// How many times the error it is away from one: the error of a ratio and `floors` together.
    pub fn distance(&self, floors: &[f64]) -> f64 {
        self.log.abs() / self.combined_error(floors)
    }

    /// Whether a difference of this factor would be called, were it there, with an error so many
    /// times as wide.
    pub fn is_detectable(&self, factor: f64, floors: &[f64], times: f64) -> bool {
        factor.ln() > times * self.combined_error(floors)
    }

    /// Whether what is not called a difference can be called the same: none that counts would have
    /// been missed.
    pub fn is_equivalent(&self, floors: &[f64]) -> bool {
        self.log.abs() + self.combined_error(floors) <= EQUIVALENCE_FACTOR.ln()
    }

    fn combined_error(&self, floors: &[f64]) -> f64 {
        floors
            .iter()
            .fold(self.half_width, |all, floor| all.hypot(*floor))
    }

    /// Whether more samples could change what is called: a difference in size that is not sure,
    /// or barely.
    pub fn is_inconclusive(&self, floors: &[f64]) -> bool {
        self.log.abs() > FACTOR_MIN.ln() && self.log.abs() < 2.0 * self.combined_error(floors)
    }
}

/// By how much wider the errors of so many comparisons are, so that in 19 of 20 runs none of them is
/// called where there is no difference: the normal distribution's quantile of a 20th divided by all
/// of them, over that of a 20th.
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

    /// The ratio of two ratios, whose errors are independent.
    fn sub(self, other: Estimate) -> Estimate {
        Estimate {
            log: self.log - other.log,
            half_width: self.half_width.hypot(other.half_width),
        }
    }
}

/// What is said of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No difference that these samples tell.
    Same,
    /// Above one.
    More,
    /// Below one.
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
        // Nothing is cut off three: the median and Student's interval.
        let three = Estimate::of([1.0, 1.0f64.exp(), 2.0f64.exp()]).unwrap();
        assert!((three.log - 1.0).abs() < 1e-12);
        assert!((three.half_width - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        let preempted = Estimate::of([1.0, 1.1, 1000.0]).unwrap();
        assert!((preempted.factor() - 1.1).abs() < 1e-9);
        // One of five at each end is: 0, 1, 2, 3 and far out become 1, 1, 2, 3, 3.
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
        // The normal distribution's quantiles: 1.960 of 0.025, 2.807 of 0.0025, 3.891 of 0.00005.
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
        println!("of {trials}: {called_same} called without a difference, {missed} of 2 × missed");
        assert!(called_same * 100 < trials as u32, "{called_same}");
        assert!(missed * 50 < trials as u32, "{missed}");
    }
}
