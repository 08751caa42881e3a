//! All measurements of a report as rows with the same fields. This suits programs that read a
//! report.

use serde::{Deserialize, Deserializer, Serialize};

use crate::costs;
use crate::harness::Metric;
use crate::rounds::Measured;
use creel_stats::{Estimate, Summary, Verdict};

/// The values of one metric of a subject in a case. It is the row of JSON and CSV.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// The name of the subject.
    pub subject: String,
    /// The name of the case.
    pub case: String,
    /// The name of the metric. The first one of a subject is its time or speed.
    pub metric: String,
    /// The unit of the values.
    pub unit: String,
    /// The smallest value over the rounds.
    #[serde(deserialize_with = "or_nan")]
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    pub min: f64,
    /// The median over the rounds.
    #[serde(deserialize_with = "or_nan")]
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    pub median: f64,
    /// The largest value over the rounds.
    #[serde(deserialize_with = "or_nan")]
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    pub max: f64,
    /// The number of rounds.
    pub runs: usize,
    /// The 95 % interval of the centre of a ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The verdict on a ratio: whether it is a difference or noise. Rows without a ratio have no
    /// verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The values of the first metric by round. Other metrics have none.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "all_or_nan"
    )]
    pub samples: Vec<f64>,
}

/// The A/A control of a case: a second measurement of the first subject in the same rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Noise {
    /// The case.
    pub case: String,
    /// The second measurement divided by the first.
    pub ratio: f64,
    /// How far noise alone moves a ratio from one, as a factor.
    pub floor: f64,
}

impl Noise {
    /// Returns the noise of a case, or `None` without an A/A control or with one round.
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

/// Returns the rows of a case. Each subject has its metrics, their geometric means, its ratios
/// (which are taken within a round) and its costs.
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
            let ratio_summary = Summary::of(&ratios).expect("a case has at least one round");
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

/// Returns the geometric mean. It is 0 if a value is 0, and NaN if a value is unknown.
fn geometric_mean(summary: Summary) -> f64 {
    let no_mean = if summary.mean.is_nan() { f64::NAN } else { 0.0 };
    summary.geometric_mean.unwrap_or(no_mean)
}

/// Adds the interval and the verdict to the row of a ratio. Without a `floor`, there is no verdict,
/// for example because the subject is divided by itself.
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

/// Rounds to six digits, because further digits are noise and would double the size of a record.
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
        // A peer that is installed, but too old for the case, has NaN as its time.
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
        // A value that the system does not report is null in JSON.
        let row = json.replace(&format!("\"max\":{}", rows[0].max), "\"max\":null");
        let read_back: Vec<Row> = serde_json::from_str(&row).unwrap();
        assert!(read_back[0].max.is_nan());
    }
}
