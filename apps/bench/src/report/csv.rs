//! The rows for a spreadsheet.

use serde::Serialize;

use super::Report;
use crate::workloads::schema_name;

/// A row after its workload.
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

/// All rows under one header.
///
/// # Errors
///
/// None that a row of this kind can have.
pub fn rows(report: &Report) -> anyhow::Result<String> {
    // What was not told is an empty field.
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
