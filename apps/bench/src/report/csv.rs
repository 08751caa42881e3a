//! The CSV format of a report: one row per metric of a subject.

use serde::Serialize;

use super::Report;
use crate::workloads::schema_name;

/// A row of the CSV file. Its fields are the columns, in this order.
#[derive(Serialize)]
struct Line<'a> {
    workload: &'a str,
    subject: &'a str,
    case: &'a str,
    metric: &'a str,
    unit: &'a str,
    min: Option<f64>,
    median: Option<f64>,
    max: Option<f64>,
    runs: usize,
}

/// Returns all rows below one header.
///
/// # Errors
///
/// Returns an error if a row cannot be encoded, which does not happen with these rows.
pub fn rows(report: &Report) -> anyhow::Result<String> {
    // A value that the system did not report is an empty field.
    let finite = |value: f64| value.is_finite().then_some(value);
    let mut out = ::csv::Writer::from_writer(Vec::new());
    for section in &report.sections {
        for row in &section.rows {
            out.serialize(Line {
                workload: schema_name(&section.workload),
                subject: &row.subject,
                case: &row.case,
                metric: &row.metric,
                unit: &row.unit,
                min: finite(row.min),
                median: finite(row.median),
                max: finite(row.max),
                runs: row.runs,
            })?;
        }
    }
    Ok(String::from_utf8(out.into_inner()?)?)
}
