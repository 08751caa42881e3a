//! `creel-cast evaluate`: the evaluation's table and diagrams, over the number of streams and the
//! ways in which sinks get buffers.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use creel_cast::standalone::{self, Plan};
use creel_cast::stream::Way;
use creel_console::plot::{Chart, Series};
use creel_console::{Align, Common, Exit, Format, Interrupt, Progress, Table, output};
use serde::Serialize;

use super::kept::{Kept, Values};
use super::report::{Body, print_document};
use super::{count, failed, period, time};

/// Measure every way to a sink over the number of streams; five minutes as it stands
#[derive(Args, Debug)]
pub struct Evaluate {
    /// Numbers of streams
    #[arg(long, value_delimiter = ',', value_name = "N,N,…", default_value = "100,200,300,400,500", value_parser = count)]
    streams: Vec<usize>,
    /// Runs of each; the medians are told
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count)]
    runs: usize,
    /// Contexts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    groups: usize,
    /// How long a context waits before it reacts again
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = time)]
    wait: Duration,
    /// From one buffer of a stream to the next
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = period)]
    period: Duration,
    /// Buffers of each stream and run
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = count)]
    buffers: usize,
    /// Write parked.svg, latency.svg and cpu.svg into this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Add each finished run to this file (CSV) and leave out those that it holds already: given
    /// again, an interrupted evaluation goes on where it stopped
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

/// The medians of one way and number of streams.
#[derive(Serialize, Debug, Clone)]
struct Row {
    sink: String,
    streams: usize,
    runs: usize,
    cpu_ns_per_buffer: f64,
    parked_share: f64,
    interval_mean_ms: f64,
    interval_sd_ms: f64,
    latency_p50_us: f64,
    latency_p99_us: f64,
    lateness_p50_ms: f64,
    lateness_p99_ms: f64,
}

#[derive(Serialize)]
struct Rows {
    rows: Vec<Row>,
}

/// A measure of a row, to draw it.
type Measure = (&'static str, &'static str, fn(&Row) -> f64);

const CHARTS: [Measure; 3] = [
    ("parked", "share of time parked, %", |row| {
        100.0 * row.parked_share
    }),
    ("latency", "latency p50, µs", |row| row.latency_p50_us),
    ("cpu", "CPU a buffer, ns", |row| row.cpu_ns_per_buffer),
];

impl Evaluate {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let rows = self.measure(common)?;
        self.draw(&rows)?;
        match common.format {
            Format::Text => output::text(&text(&rows))?,
            Format::Json => print_document(Rows { rows })?,
            Format::Csv => output::csv(rows)?,
        }
        Ok(Exit::Done)
    }

    /// Runs what has not been run yet.
    fn measure(&self, common: &Common) -> anyhow::Result<Vec<Row>> {
        let interrupt = Interrupt::install()?;
        let mut kept = self
            .resume
            .as_deref()
            .map_or(Ok(Kept::none()), Kept::open)?;
        let total = (Way::ALL.len() * self.streams.len() * self.runs) as u64;
        let progress = Progress::new(total, "runs", common.quiet);
        self.tell_kept(&kept, total, common, &progress);
        let mut rows = Vec::new();
        for (name, way) in Way::ALL {
            for &streams in &self.streams {
                progress.set_message(format!("{name}, {streams} streams"));
                let key = self.key(name, streams);
                let mut runs = kept.of(&key, self.runs);
                progress.advance(runs.len() as u64);
                while runs.len() < self.runs {
                    let plan = self.plan(streams, way);
                    let measured = standalone::run(&plan, &|| interrupt.requested());
                    let values = values(&Body::new(&measured.map_err(failed)?, true));
                    kept.add(&key, values)?;
                    runs.push(values);
                    progress.advance(1);
                }
                rows.push(medians(name, streams, &runs));
            }
        }
        Ok(rows)
    }

    /// Says what need not be run again.
    fn tell_kept(&self, kept: &Kept, total: u64, common: &Common, progress: &Progress) {
        let keys = Way::ALL.iter().flat_map(|(name, _)| {
            let streams = self.streams.iter();
            streams.map(|&streams| self.key(name, streams))
        });
        let there: usize = keys.map(|key| kept.of(&key, self.runs).len()).sum();
        if let Some(path) = self.resume.as_ref().filter(|_| there > 0 && !common.quiet) {
            let path = path.display();
            progress.println(&format!(
                "{path}: {there} of {total} runs are there already"
            ));
        }
    }

    /// What tells runs apart in the file.
    fn key(&self, sink: &str, streams: usize) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (groups, buffers) = (self.groups, self.buffers);
        let (wait, period) = (ms(self.wait), ms(self.period));
        format!("{sink},{streams},{groups},{wait},{period},{buffers}")
    }

    fn plan(&self, streams: usize, way: Way) -> Plan {
        Plan {
            streams,
            groups: self.groups,
            wait: self.wait,
            period: self.period,
            buffers: self.buffers as u64,
            way,
            samples: 80,
            ramp_up: Duration::from_millis(500),
        }
    }

    fn draw(&self, rows: &[Row]) -> anyhow::Result<()> {
        let Some(folder) = &self.svg else {
            return Ok(());
        };
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for measure in CHARTS {
            let path = folder.join(format!("{}.svg", measure.0));
            let part = folder.join(format!("{}.svg.part", measure.0));
            let written = fs::write(&part, chart(rows, measure).svg());
            written
                .and_then(|()| fs::rename(&part, &path))
                .with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// What is kept of a run, in the order of [`COLUMNS`](super::kept::COLUMNS).
fn values(body: &Body) -> Values {
    [
        body.cpu_ns_per_buffer,
        body.parked_share,
        body.interval_ms.mean,
        body.interval_ms.sd,
        body.latency_us.p50,
        body.latency_us.p99,
        body.lateness_ms.p50,
        body.lateness_ms.p99,
    ]
}

fn medians(sink: &str, streams: usize, runs: &[Values]) -> Row {
    let medians: Values = std::array::from_fn(|column| {
        let mut values: Vec<f64> = runs.iter().map(|run| run[column]).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        (values[last / 2] + values[last.div_ceil(2)]) / 2.0
    });
    let [
        cpu,
        parked,
        mean,
        sd,
        latency_p50,
        latency_p99,
        lateness_p50,
        lateness_p99,
    ] = medians;
    Row {
        sink: sink.into(),
        streams,
        runs: runs.len(),
        cpu_ns_per_buffer: cpu,
        parked_share: parked,
        interval_mean_ms: mean,
        interval_sd_ms: sd,
        latency_p50_us: latency_p50,
        latency_p99_us: latency_p99,
        lateness_p50_ms: lateness_p50,
        lateness_p99_ms: lateness_p99,
    }
}

/// A measure over the number of streams, a curve a way.
fn chart(rows: &[Row], (title, label, value): Measure) -> Chart {
    let series = Way::ALL.map(|(name, _)| Series {
        name: name.into(),
        points: rows
            .iter()
            .filter(|row| row.sink == name)
            .map(|row| (row.streams as f64, value(row)))
            .collect(),
    });
    Chart {
        title: title.into(),
        x_label: "streams".into(),
        y_label: label.into(),
        series: series.into(),
    }
}

fn text(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        ("sink", Align::Left),
        ("streams", Align::Right),
        ("CPU, ns a buffer", Align::Right),
        ("parked, %", Align::Right),
        ("interval, ms", Align::Right),
        ("latency p50 / p99, µs", Align::Right),
        ("lateness p50 / p99, ms", Align::Right),
    ]);
    for row in rows {
        table.row([
            row.sink.clone(),
            row.streams.to_string(),
            format!("{:.0}", row.cpu_ns_per_buffer),
            format!("{:.1}", 100.0 * row.parked_share),
            format!("{:.3} ± {:.3}", row.interval_mean_ms, row.interval_sd_ms),
            format!("{:.3} / {:.3}", row.latency_p50_us, row.latency_p99_us),
            format!("{:.3} / {:.3}", row.lateness_p50_ms, row.lateness_p99_ms),
        ]);
    }
    let charts = CHARTS.map(|measure| chart(rows, measure).text(50, 10));
    format!("{}\n{}", table.text(), charts.join("\n"))
}
