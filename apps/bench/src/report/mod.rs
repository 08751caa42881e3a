//! What the bench prints: a table a case for people, rows for programs.

use creel_console::{Align, Table};
use serde::Serialize;

use crate::harness::{Measured, Spread};

/// A subject's values of one metric of one case; the JSON's and the CSV's row.
#[derive(Debug, Serialize)]
pub struct Row<'a> {
    /// Only in CSV: the JSON says it once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<&'a str>,
    /// Who was measured.
    pub subject: &'a str,
    /// Doing what.
    pub case: &'a str,
    /// What was measured; a subject's first is its time or speed.
    pub metric: String,
    /// Of the three values.
    pub unit: &'a str,
    /// Over the rounds.
    pub min: f64,
    /// Over the rounds.
    pub median: f64,
    /// Over the rounds.
    pub max: f64,
    /// The number of rounds.
    pub runs: usize,
}

/// A case's rows: for each subject its metrics, then its ratios, each taken within a round.
pub fn rows<'a>(measured: &'a Measured, workload: Option<&'a str>) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for (subject, name) in measured.subjects().iter().enumerate() {
        let mut push = |metric: String, unit: &'a str, spread: Spread| {
            let Spread {
                min, median, max, ..
            } = spread;
            let (case, runs) = (measured.case.as_str(), measured.rounds());
            rows.push(Row {
                workload,
                subject: name,
                case,
                metric,
                unit,
                min,
                median,
                max,
                runs,
            });
        };
        for (index, metric) in measured.metrics.iter().enumerate() {
            push(
                metric.name.into(),
                metric.unit,
                measured.spread(subject, index),
            );
        }
        for (index, metric) in measured.metrics.iter().enumerate() {
            let mean = measured.spread(subject, index).mean;
            let all = Spread {
                min: mean,
                median: mean,
                max: mean,
                mean,
            };
            push(format!("{}, geometric mean", metric.name), metric.unit, all);
        }
        let first = measured.metrics[0].name;
        for other in measured.compared_with() {
            let metric = format!("{first} / {}", measured.subjects()[other]);
            push(metric, "ratio", measured.ratio(subject, other));
        }
    }
    rows
}

/// A case as a table with a heading.
pub fn table(measured: &Measured) -> String {
    let others = measured.compared_with();
    let against: Vec<String> = others
        .iter()
        .map(|&other| format!("/ {}", measured.subjects()[other]))
        .collect();
    let mut columns = vec![("", Align::Left)];
    for metric in &measured.metrics {
        columns.push((metric.name, Align::Right));
        columns.push(("geo. mean", Align::Right));
        columns.push(("min", Align::Right));
        columns.push(("max", Align::Right));
    }
    columns.extend(against.iter().map(|other| (other.as_str(), Align::Right)));
    let mut table = Table::new(&columns);
    for (subject, name) in measured.subjects().iter().enumerate() {
        let mut cells = vec![name.clone()];
        for (index, metric) in measured.metrics.iter().enumerate() {
            let Spread {
                min,
                median,
                max,
                mean,
            } = measured.spread(subject, index);
            cells.extend([median, mean, min, max].map(|value| quantity(value, metric.unit)));
        }
        cells.extend(
            others
                .iter()
                .map(|&other| ratio(measured.ratio(subject, other).median)),
        );
        if subject == 0 {
            table.styled_row(anstyle::Style::new().bold(), cells);
        } else {
            table.row(cells);
        }
    }
    table.text()
}

fn ratio(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

/// A value with three digits and a prefix that keeps it short: 17213 ns is "17.2 µs".
fn quantity(value: f64, unit: &str) -> String {
    if value.is_nan() {
        return "not told".into();
    }
    let (prefixes, base): (&[&str], &str) =
        match unit.split_once(' ').map_or(unit, |(unit, _)| unit) {
            "ns" => (&["ns", "µs", "ms", "s"], ""),
            "ms" => (&["ms", "s"], ""),
            "s" => (&["s"], ""),
            "J" => (&["J", "kJ"], ""),
            "B" => (&["B", "kB", "MB", "GB"], ""),
            "cores" | "ratio" => return format!("{value:.3}"),
            _ => (&["", "k", "M", "G"], " "),
        };
    let mut value = value;
    let mut index = 0;
    while value.abs() >= 999.5 && index + 1 < prefixes.len() {
        value /= 1000.0;
        index += 1;
    }
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$} {}", prefixes[index]);
    if base.is_empty() {
        text
    } else {
        text.trim_end().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits() {
        assert_eq!(quantity(17_213.0, "ns a call"), "17.2 µs");
        assert_eq!(quantity(283.4, "ns"), "283 ns");
        assert_eq!(quantity(999.7, "ns"), "1.00 µs");
        assert_eq!(quantity(4_750_000.0, "frames/s"), "4.75 M");
        assert_eq!(quantity(0.0123, "cores"), "0.012");
    }
}
