//! Rows: all that was measured, in one shape, for programs.

use serde::{Deserialize, Deserializer, Serialize};

use crate::costs;
use crate::harness::Metric;
use crate::rounds::Measured;
use creel_stats::{Estimate, Summary, Verdict};

/// A subject's values of one metric of one case; the JSON's and the CSV's row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Who was measured.
    pub subject: String,
    /// Doing what.
    pub case: String,
    /// What was measured; a subject's first is its time or speed.
    pub metric: String,
    /// Of the three values.
    pub unit: String,
    /// Over the rounds.
    #[serde(deserialize_with = "or_nan")]
    pub min: f64,
    /// Over the rounds.
    #[serde(deserialize_with = "or_nan")]
    pub median: f64,
    /// Over the rounds.
    #[serde(deserialize_with = "or_nan")]
    pub max: f64,
    /// The number of rounds.
    pub runs: usize,
    /// The 95 % interval of a ratio's centre.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Of a ratio: whether it is called a difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// A first metric's values, by round.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "all_or_nan"
    )]
    pub samples: Vec<f64>,
}

/// A case's first subject over itself, in the same slots.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Noise {
    /// The case.
    pub case: String,
    /// The A/A control of the subject over the subject.
    pub ratio: f64,
    /// How far from one noise alone reaches, as a factor.
    pub floor: f64,
}

impl Noise {
    /// Of a case; nothing where nothing is compared, or with one round.
    pub fn of(measured: &Measured) -> Option<Self> {
        let aa_control = measured
            .aa_control()
            .filter(|aa_control| aa_control.half_width.is_finite())?;
        Some(Noise {
            case: measured.case.clone(),
            ratio: rounded(aa_control.factor()),
            floor: rounded(aa_control.floor().exp()),
        })
    }
}

/// A case's rows: for each subject its metrics, their geometric means, its ratios, each taken
/// within a round, and its costs.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    let metrics = &measured.metrics;
    for (subject, name) in measured.subjects().iter().enumerate() {
        let row = |metric: String, unit: &str, [min, median, max]: [f64; 3]| Row {
            subject: name.clone(),
            case: measured.case.clone(),
            metric,
            unit: unit.into(),
            min: rounded(min),
            median: rounded(median),
            max: rounded(max),
            runs: measured.samples(subject).len(),
            interval: None,
            verdict: None,
            samples: Vec::new(),
        };
        let samples = measured.samples(subject).iter();
        let first: Vec<f64> = samples.map(|sample| rounded(sample.values[0])).collect();
        for (index, metric) in metrics.iter().enumerate() {
            rows.push(Row {
                samples: if index == 0 {
                    first.clone()
                } else {
                    Vec::new()
                },
                ..row(
                    metric.name.into(),
                    metric.unit,
                    range(measured.summary(subject, index)),
                )
            });
        }
        for (index, metric) in metrics.iter().enumerate() {
            let mean = geometric_mean(measured.summary(subject, index));
            let name = format!("{}, geometric mean", metric.name);
            rows.push(row(name, metric.unit, [mean; 3]));
        }
        for other in measured.compared_with(subject) {
            let metric = format!("{} / {}", metrics[0].name, measured.subjects()[other]);
            let ratios = measured.ratios(subject, other);
            let ratio_summary = Summary::of(&ratios).expect("at least one round");
            rows.push(Row {
                runs: ratios.len(),
                ..judged(
                    row(metric, "ratio", range(ratio_summary)),
                    Estimate::of(ratios),
                    (subject != other).then(|| measured.floor()),
                )
            });
        }
        for (index, Metric { name, unit }) in costs::METRICS.iter().enumerate() {
            rows.push(row(
                (*name).into(),
                unit,
                range(measured.cost(subject, index)),
            ));
        }
    }
    rows
}

fn range(summary: Summary) -> [f64; 3] {
    [summary.min, summary.median, summary.max]
}

/// The geometric mean, which is 0 if a value is, and NaN if a value is not known.
fn geometric_mean(summary: Summary) -> f64 {
    let no_mean = if summary.mean.is_nan() { f64::NAN } else { 0.0 };
    summary.geometric_mean.unwrap_or(no_mean)
}

/// A ratio's row with its interval and what is called of it; nothing is of a subject over itself.
fn judged(row: Row, estimate: Option<Estimate>, floor: Option<f64>) -> Row {
    let sure = estimate.filter(|estimate| estimate.half_width.is_finite());
    Row {
        interval: sure.map(|estimate| <[f64; 2]>::from(estimate.interval()).map(rounded)),
        verdict: sure
            .zip(floor)
            .map(|(estimate, floor)| estimate.verdict(&[floor])),
        ..row
    }
}

/// With six digits: more are noise, and a record would be twice as large.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

fn or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

fn all_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let values: Vec<Option<f64>> = Deserialize::deserialize(deserializer)?;
    let values = values.into_iter();
    Ok(values.map(|value| value.unwrap_or(f64::NAN)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Subject;
    use crate::rounds::tests::{case, measure, noisy};

    #[test]
    fn rows_have_six_digits_and_survive_json() {
        assert_eq!(rounded(1234567.8), 1234570.0);
        assert!(rounded(f64::NAN).is_nan() && rounded(0.0) == 0.0);
        // The last is here, and of a version that cannot do it.
        let silent = Subject::new("silent", |_| Ok(f64::NAN));
        let subjects = vec![
            noisy("creel", 100.0, 1),
            noisy("one thread", 200.0, 2),
            silent,
        ];
        let rows = rows(&measure(case(7, subjects)));
        let json = serde_json::to_string(&rows).unwrap();
        let read_back: Vec<Row> = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&read_back).unwrap(), json);
        let verdicts: Vec<_> = rows.iter().filter_map(|row| row.verdict).collect();
        assert_eq!(verdicts, [Verdict::Less, Verdict::More]);
        assert_eq!(rows[0].samples.len(), 7);
        // What the system does not tell is null, and read as such.
        let row = json.replace(&format!("\"max\":{}", rows[0].max), "\"max\":null");
        let read_back: Vec<Row> = serde_json::from_str(&row).unwrap();
        assert!(read_back[0].max.is_nan());
    }
}
