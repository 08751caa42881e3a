//! What a run prints: the fields that other programs read, or a table for people.

use std::time::Duration;

use creel_cast::run::Measured;
use creel_cast::stats::Percentiles;
use creel_console::document::Document;
use creel_console::{Align, Common, Exit, Format, Table, output};
use creel_topology::{Budget, Machine};
use serde::Serialize;

/// A run in the units of the schema.
#[derive(Serialize, Debug, Clone, Copy)]
pub struct Body {
    pub streams: usize,
    pub buffers: u64,
    pub cpu_ns_per_buffer: f64,
    pub parked_share: f64,
    pub interval_ms: Spread,
    pub latency_us: Points,
    pub lateness_ms: Points,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_bytes: Option<u64>,
    pub lost: u64,
    pub late: u64,
    pub reordered: u64,
}

/// Mean and standard deviation.
#[derive(Serialize, Debug, Clone, Copy)]
pub struct Spread {
    pub mean: f64,
    pub sd: f64,
}

/// Three points of a distribution.
#[derive(Serialize, Debug, Clone, Copy)]
pub struct Points {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl From<Percentiles> for Points {
    fn from(Percentiles { p50, p99, max }: Percentiles) -> Self {
        Points { p50, p99, max }
    }
}

/// A row of a spreadsheet: the same, flat.
#[derive(Serialize)]
struct Row {
    streams: usize,
    buffers: u64,
    cpu_ns_per_buffer: f64,
    parked_share: f64,
    interval_mean_ms: f64,
    interval_sd_ms: f64,
    latency_p50_us: f64,
    latency_p99_us: f64,
    latency_max_us: f64,
    lateness_p50_ms: f64,
    lateness_p99_ms: f64,
    lateness_max_ms: f64,
    stream_bytes: Option<u64>,
    lost: u64,
    late: u64,
    reordered: u64,
}

impl Body {
    pub fn new(measured: &Measured) -> Self {
        const MILLISECOND: f64 = 1e6;
        let interval = measured.interval();
        let (us, ms) = (Duration::from_micros(1), Duration::from_millis(1));
        Body {
            streams: measured.streams.len(),
            buffers: measured.buffers,
            cpu_ns_per_buffer: measured.cpu_nanos_per_buffer(),
            parked_share: measured.parked_share(),
            interval_ms: Spread {
                mean: interval.mean() / MILLISECOND,
                sd: interval.deviation() / MILLISECOND,
            },
            latency_us: Percentiles::of(&measured.histograms.latency, us).into(),
            lateness_ms: Percentiles::of(&measured.histograms.lateness, ms).into(),
            stream_bytes: measured.stream_bytes,
            lost: measured.lost,
            late: measured.late,
            reordered: measured.reordered,
        }
    }

    fn row(self) -> Row {
        Row {
            streams: self.streams,
            buffers: self.buffers,
            cpu_ns_per_buffer: self.cpu_ns_per_buffer,
            parked_share: self.parked_share,
            interval_mean_ms: self.interval_ms.mean,
            interval_sd_ms: self.interval_ms.sd,
            latency_p50_us: self.latency_us.p50,
            latency_p99_us: self.latency_us.p99,
            latency_max_us: self.latency_us.max,
            lateness_p50_ms: self.lateness_ms.p50,
            lateness_p99_ms: self.lateness_ms.p99,
            lateness_max_ms: self.lateness_ms.max,
            stream_bytes: self.stream_bytes,
            lost: self.lost,
            late: self.late,
            reordered: self.reordered,
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right)]);
        let mut line = |name: &str, value: String| table.row([name.to_owned(), value]);
        line("streams", self.streams.to_string());
        line("buffers", self.buffers.to_string());
        line("CPU a buffer", format!("{:.0} ns", self.cpu_ns_per_buffer));
        line("parked", format!("{:.1} %", 100.0 * self.parked_share));
        let Spread { mean, sd } = self.interval_ms;
        line("interval", format!("{mean:.3} ms ± {sd:.3}"));
        let points = |p: &Points| format!("{:.3} / {:.3} / {:.3}", p.p50, p.p99, p.max);
        let latency = points(&self.latency_us);
        line("latency, p50 / p99 / max", format!("{latency} µs"));
        let lateness = points(&self.lateness_ms);
        line("lateness, p50 / p99 / max", format!("{lateness} ms"));
        if let Some(bytes) = self.stream_bytes {
            line("memory a stream, buffers included", format!("{bytes} B"));
        }
        line("lost", self.lost.to_string());
        line("late", self.late.to_string());
        line("reordered", self.reordered.to_string());
        table
    }
}

/// Prints a run; its warnings go to stderr, and make the exit code say so.
pub fn print(measured: &Measured, common: &Common) -> anyhow::Result<Exit> {
    for warning in &measured.warnings {
        creel_console::report("creel-cast", &anyhow::anyhow!("{warning}"));
    }
    let body = Body::new(measured);
    match common.format {
        Format::Text => output::text(&body.table().text())?,
        Format::Json => print_document(body)?,
        Format::Csv => output::csv([body.row()])?,
    }
    Ok(Exit::Done)
}

/// Prints a document with the machine and the budget.
pub fn print_document(body: impl Serialize) -> anyhow::Result<()> {
    let machine = Machine::detect()?;
    let budget = Budget::of(&machine);
    output::json(&Document::new(&machine, &budget, body))?;
    Ok(())
}
