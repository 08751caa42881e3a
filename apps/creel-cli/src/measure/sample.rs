//! The cost of one run as named figures. Each figure may be missing.

use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;

/// The cost of one run, including all descendants of the command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The exit code of the command, or 128 plus the signal that ended it.
    pub exit_code: i32,
    /// The figures by name: those of [`FIGURES`] that were measured, and those of `--metric`.
    pub values: BTreeMap<String, f64>,
}

/// The unit of a figure, which decides its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    Count,
    Joules,
    /// The unit of figures of `--metric`.
    Plain,
}

/// A figure that we measure, with its name in JSON and CSV, its title and its unit.
pub struct Figure {
    pub name: &'static str,
    pub title: &'static str,
    pub unit: Unit,
}

const fn figure(name: &'static str, title: &'static str, unit: Unit) -> Figure {
    Figure { name, title, unit }
}

/// Every figure that we measure, in the order of the tables.
///
/// The kernel splits `user_s` and `sys_s` by ticks, so one of them may be zero for a short run.
/// However, their sum `cpu_s` is exact to the microsecond.
pub const FIGURES: [Figure; 10] = [
    figure(WALL, "wall", Unit::Seconds),
    figure("cpu_s", "user + sys", Unit::Seconds),
    figure("user_s", "user", Unit::Seconds),
    figure("sys_s", "sys", Unit::Seconds),
    figure("peak_rss_bytes", "peak memory", Unit::Bytes),
    figure("context_switches", "switches", Unit::Count),
    figure("migrations", "migrations", Unit::Count),
    figure("cycles", "cycles", Unit::Count),
    figure("instructions", "instructions", Unit::Count),
    figure("energy_j", "energy", Unit::Joules),
];

/// The wall time, which is the figure that the sentences of a report compare.
pub const WALL: &str = "wall_s";

/// Returns the unit of the figure with this name.
pub fn unit(name: &str) -> Unit {
    let known = FIGURES.iter().find(|figure| figure.name == name);
    known.map_or(Unit::Plain, |figure| figure.unit)
}

/// Returns the title of the figure in tables.
pub fn title(name: &str) -> &str {
    let known = FIGURES.iter().find(|figure| figure.name == name);
    known.map_or(name, |figure| figure.title)
}

impl Sample {
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    pub fn set(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.values.insert(name.into(), value);
        }
    }
}

impl Serialize for Sample {
    /// Serializes a map of the figures. Missing figures are null, and counts are integers.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = self.values.keys().map(String::as_str);
        let own = own.filter(|name| unit(name) == Unit::Plain);
        let names = FIGURES.iter().map(|figure| figure.name).chain(own);
        let mut map = serializer.serialize_map(None)?;
        for name in names {
            match (self.get(name), unit(name)) {
                (Some(value), Unit::Bytes | Unit::Count) => {
                    map.serialize_entry(name, &(value as u64))?;
                }
                (value, _) => map.serialize_entry(name, &value)?,
            }
        }
        map.serialize_entry("exit_code", &self.exit_code)?;
        map.end()
    }
}

/// Formats a value in a readable unit. The text usually has at most eight characters, so that a
/// table fits into 80 columns.
pub fn show(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds => seconds(value),
        Unit::Bytes => bytes(value),
        Unit::Count => count(value),
        Unit::Joules => format!("{value:.1} J"),
        Unit::Plain => plain(value),
    }
}

fn seconds(s: f64) -> String {
    match s {
        s if s >= 100.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.3} s"),
        s if s >= 0.1 => format!("{:.1} ms", s * 1e3),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}

/// Formats a count, which is exact up to a million.
fn count(n: f64) -> String {
    match n {
        n if n.abs() >= 1e9 => format!("{:.2} G", n / 1e9),
        n if n.abs() >= 1e6 => format!("{:.2} M", n / 1e6),
        n => format!("{n:.0}"),
    }
}

/// Formats bytes in binary units.
fn bytes(b: f64) -> String {
    match b {
        b if b >= 1000.0 * 1024.0 * 1024.0 => format!("{:.2} GiB", b / 1024.0 / 1024.0 / 1024.0),
        b if b >= 100.0 * 1024.0 * 1024.0 => format!("{:.0} MiB", b / 1024.0 / 1024.0),
        b if b >= 1024.0 * 1024.0 => format!("{:.1} MiB", b / 1024.0 / 1024.0),
        b => format!("{:.0} KiB", b / 1024.0),
    }
}

/// Formats a number with about four significant digits.
fn plain(value: f64) -> String {
    match value.abs() {
        a if a >= 1e6 => count(value),
        a if a >= 1000.0 || a == 0.0 => format!("{value:.0}"),
        a if a >= 100.0 => format!("{value:.1}"),
        a if a >= 10.0 => format!("{value:.2}"),
        a if a >= 1.0 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}
