//! The HTML report: one file without scripts and without links to other sites.

use std::fmt::Write;

use creel_console::plot::{Chart, Series};
use creel_topology::{Budget, Machine};

use super::report::{COLUMNS, NOTE, cells, findings, of, title};
use super::{Measured, Row};

const STYLE: &str = "\
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 62rem; padding: 1.25rem; font: 1rem/1.5 system-ui, sans-serif; }
h2 { margin-top: 2.5rem; }
li { margin: .2rem 0; }
figure { margin: 1rem 0; display: inline-block; width: 30rem; max-width: 100%; }
figure svg { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #8886; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
@media print { figure { break-inside: avoid; } }
";

/// The maximum number of curves in a chart, because more would be hard to distinguish.
const CURVES: usize = 6;

/// A figure of a run, with its name, its unit and the way to draw it.
struct Metric {
    name: &'static str,
    unit: &'static str,
    /// Whether the axis is logarithmic.
    decades: bool,
    of: fn(&Row) -> f64,
}

/// Converts microseconds to milliseconds. A missing value becomes NaN, which is not drawn.
fn ms(us: Option<u64>) -> f64 {
    us.map_or(f64::NAN, |us| us as f64 / 1e3)
}

const METRICS: [Metric; 5] = [
    Metric {
        name: "Goodput",
        unit: "good answers per second",
        decades: false,
        of: |row| row.goodput_per_second,
    },
    Metric {
        name: "p50",
        unit: "ms",
        decades: true,
        of: |row| ms(row.p50_us),
    },
    Metric {
        name: "p99",
        unit: "ms",
        decades: true,
        of: |row| ms(row.p99_us),
    },
    Metric {
        name: "p99.9",
        unit: "ms",
        decades: true,
        of: |row| ms(row.p999_us),
    },
    Metric {
        name: "Memory",
        unit: "MB, peak",
        decades: true,
        of: |row| row.memory_bytes as f64 / 1e6,
    },
];

/// Returns the whole page.
pub fn page(places: &[Measured], rows: &[Row], machine: &Machine, budget: &Budget) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>A service under load</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>A service under load</h1>\n\
         <p>{} processing units, {} usable, bound by {}. The load runs on the same units. \
         Latencies are those of good answers and count from when a request was due.</p>\n",
        machine.pus().len(),
        budget.workers(),
        escaped(&budget.bound_by().to_string())
    );
    for measured in places {
        let rows: Vec<&Row> = of(rows, measured.place).collect();
        let _ = writeln!(out, "<h2>{}</h2>\n<ul>", escaped(&title(measured)));
        for finding in findings(&rows) {
            let _ = writeln!(out, "<li>{}</li>", escaped(&finding));
        }
        out += "</ul>\n";
        by_load(&mut out, &rows);
        by_workers(&mut out, &rows);
        table(&mut out, &rows);
    }
    let _ = writeln!(out, "<p>{NOTE}</p>\n</body>\n</html>");
    out
}

/// Draws the metrics over the load, for the service with the fewest and the most workers, and for
/// other programs.
fn by_load(out: &mut String, rows: &[&Row]) {
    let loaded = || rows.iter().filter(|row| row.load_share.is_some());
    let sets = || loaded().filter_map(|row| row.workers);
    let (least, most) = (sets().min(), sets().max());
    let is_drawn = |row: &&&Row| row.workers.is_none() || [least, most].contains(&row.workers);
    let mut names: Vec<&str> = Vec::new();
    for row in loaded().filter(is_drawn) {
        // We leave out the curve with the most workers and admission control, because it lies
        // between the others.
        let is_middling =
            row.set.is_some_and(|(_, admission)| admission) && row.workers == most && least != most;
        if !names.contains(&row.subject.as_str()) && !is_middling {
            names.push(&row.subject);
        }
    }
    names.truncate(CURVES);
    for metric in &METRICS {
        let curve = |name: &&str| {
            let runs = loaded().filter(|row| row.subject == *name);
            let point = |row: &&Row| Some((row.load_share? * 100.0, (metric.of)(row)));
            Series {
                name: (*name).to_owned(),
                points: runs.filter_map(point).collect(),
            }
        };
        let series = names.iter().map(curve).collect();
        figure(
            out,
            metric,
            "load, % of the capacity",
            String::new(),
            series,
        );
    }
}

/// Draws the metrics over the number of workers, at the highest load. Draws nothing if all runs had
/// the same number of workers.
fn by_workers(out: &mut String, rows: &[&Row]) {
    let Some(load) = rows
        .iter()
        .filter_map(|row| row.load_share)
        .reduce(f64::max)
    else {
        return;
    };
    let at = || rows.iter().filter(|row| row.load_share == Some(load));
    let curve = |metric: &Metric, name: &str, admission: bool| {
        let point = |row: &&Row| {
            let (workers, is_admitted) = row.set?;
            (is_admitted == admission).then(|| (workers as f64, (metric.of)(row)))
        };
        let points = at().filter_map(point).collect();
        let name = name.to_owned();
        Series { name, points }
    };
    for metric in &METRICS {
        let series: Vec<Series> = [("admission", true), ("without", false)]
            .map(|(name, admission)| curve(metric, name, admission))
            .into();
        if series.iter().any(|series| series.points.len() > 1) {
            let title = format!(", at {:.0} %", load * 100.0);
            figure(out, metric, "workers", title, series);
        }
    }
}

/// Appends a chart to the page.
fn figure(out: &mut String, metric: &Metric, x_label: &str, of: String, series: Vec<Series>) {
    let chart = Chart {
        title: format!("{}{of}", metric.name),
        x_label: x_label.into(),
        y_label: metric.unit.into(),
        series,
    };
    let svg = match metric.decades {
        true => chart.svg_on_decades(),
        false => chart.svg(),
    };
    let _ = writeln!(out, "<figure>{svg}</figure>");
}

/// Appends the table of all runs in a place.
fn table(out: &mut String, rows: &[&Row]) {
    let line = |tag: &str, cells: &[String]| {
        let cell = |cell: &String| format!("<{tag}>{}</{tag}>", escaped(cell));
        let cells: String = cells.iter().map(cell).collect();
        format!("<tr>{cells}</tr>\n")
    };
    *out += "<div class=\"scroll\"><table>\n";
    *out += &line("th", &COLUMNS.map(String::from));
    for row in rows {
        *out += &line("td", &cells(row));
    }
    *out += "</table></div>\n";
}

/// Escapes a text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
