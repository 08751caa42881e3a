//! What one run cost, and what several runs say together.

use serde::{Deserialize, Serialize};

/// The cost of one run: of the command and of every process that descends from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// From the start of the command to its end, seconds.
    pub wall_s: f64,
    /// CPU time in user code, seconds.
    pub user_s: f64,
    /// CPU time in the kernel, seconds.
    pub sys_s: f64,
    /// The most memory resident at one time, bytes. Of several processes the sum; what they
    /// share counts once for each.
    pub peak_rss_bytes: u64,
    /// Voluntary and involuntary switches.
    pub context_switches: u64,
    /// Moves of a thread to another CPU, where the kernel tells.
    pub migrations: Option<u64>,
    /// The packages' energy while it ran, joules, where readable.
    pub energy_j: Option<f64>,
}

/// A figure of a sample: its name in JSON and CSV, its title, and how to take and show it.
pub struct Figure {
    pub name: &'static str,
    pub title: &'static str,
    pub of: fn(&Sample) -> Option<f64>,
    pub show: fn(f64) -> String,
}

/// Every figure, in the order that tables show them.
pub const FIGURES: [Figure; 7] = [
    Figure {
        name: "wall_s",
        title: "wall",
        of: |s| Some(s.wall_s),
        show: seconds,
    },
    Figure {
        name: "user_s",
        title: "user",
        of: |s| Some(s.user_s),
        show: seconds,
    },
    Figure {
        name: "sys_s",
        title: "sys",
        of: |s| Some(s.sys_s),
        show: seconds,
    },
    Figure {
        name: "peak_rss_bytes",
        title: "peak memory",
        of: |s| Some(s.peak_rss_bytes as f64),
        show: bytes,
    },
    Figure {
        name: "context_switches",
        title: "switches",
        of: |s| Some(s.context_switches as f64),
        show: count,
    },
    Figure {
        name: "migrations",
        title: "migrations",
        of: |s| s.migrations.map(|n| n as f64),
        show: count,
    },
    Figure {
        name: "energy_j",
        title: "energy",
        of: |s| s.energy_j,
        show: |j| format!("{j:.1} J"),
    },
];

/// The least, the middle, the most and the geometric mean of one figure over the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub min: f64,
    pub median: f64,
    pub max: f64,
    /// Zero if any value is.
    pub geometric_mean: f64,
}

impl Summary {
    /// Sums up the values; `None` if there are none.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        let logs: f64 = sorted.iter().map(|v| v.ln()).sum();
        Some(Self {
            min,
            median,
            max,
            geometric_mean: (logs / n as f64).exp(),
        })
    }

    /// Sums up one figure; `None` where a run does not tell it.
    pub fn of_figure(figure: &Figure, samples: &[Sample]) -> Option<Self> {
        let values: Option<Vec<f64>> = samples.iter().map(figure.of).collect();
        Self::of(values?.into_iter())
    }
}

/// Seconds in the unit that reads best.
fn seconds(s: f64) -> String {
    match s {
        s if s >= 100.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.3} s"),
        s => format!("{:.2} ms", s * 1e3),
    }
}

/// Bytes in binary units, as memory is sold.
fn bytes(b: f64) -> String {
    match b {
        b if b >= 1024.0 * 1024.0 * 1024.0 => format!("{:.2} GiB", b / 1024.0 / 1024.0 / 1024.0),
        b if b >= 1024.0 * 1024.0 => format!("{:.1} MiB", b / 1024.0 / 1024.0),
        b => format!("{:.0} KiB", b / 1024.0),
    }
}

fn count(n: f64) -> String {
    format!("{n:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_what_the_schoolbook_says() {
        let s = Summary::of([8.0, 2.0, 4.0, 1.0].into_iter()).unwrap();
        assert_eq!((s.min, s.median, s.max), (1.0, 3.0, 8.0));
        assert!((s.geometric_mean - 64_f64.powf(0.25)).abs() < 1e-12);
        assert_eq!(
            Summary::of([0.0, 5.0].into_iter()).unwrap().geometric_mean,
            0.0
        );
        assert_eq!(Summary::of([].into_iter()), None);
    }
}
