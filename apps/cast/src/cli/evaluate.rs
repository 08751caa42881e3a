//! `creel-cast evaluate`: measures each number of streams with each way to pass buffers to sinks,
//! and with `--udp` over UDP as well. It writes a table and diagrams.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use creel::Observe;
use creel_cast::standalone;
use creel_cast::stream::SinkMode;
use creel_cast::{Error, Formats, Measured, Rtcp, receive, send};
use creel_console::plot::{Chart, Series};
use creel_console::{Align, Common, Exit, Format, Interrupt, Progress, Table, output};
use serde::Serialize;

use super::article;
use super::finished_runs::{FinishedRuns, Values};
use super::report::{Body, print_document};
use super::{count, free_ports, parse_duration, period, run_error};

/// The first port on which the receiver of the UDP runs listens, unless it is in use. Stream n
/// arrives on port + n.
const PORT: u16 = 20_000;
/// The duration of a packet of the UDP runs.
const PACKET_TIME: Duration = Duration::from_millis(10);

/// The time at the beginning of a run that is left out of the figures.
const RAMP_UP: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  creel-cast evaluate --page evaluation.html --format csv > table.csv
          measure sinks within one process, ten runs each, in about five minutes
  creel-cast evaluate --udp --streams 100,1000,5000 --contexts 1,2 --wait 1ms,20ms --runs 3 --resume runs.csv
          measure senders and receivers over the loopback as well. Give the same command again to
          resume it after an interrupt
  creel-cast evaluate --article --resume runs.csv --page evaluation.html
          measure what the article about threadshare measures, in about eight hours";

/// Measure every way to pass buffers to sinks, and UDP, for several numbers of streams
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Evaluate {
    /// Measure these numbers of streams
    #[arg(long, value_delimiter = ',', value_name = "N,N,…", default_value = "100,200,300,400,500", value_parser = count, help_heading = "What to measure")]
    streams: Vec<usize>,
    /// Measure with these numbers of threads (contexts)
    #[arg(long, alias = "groups", value_delimiter = ',', value_name = "N,N,…", default_value = "1", value_parser = count, help_heading = "What to measure")]
    contexts: Vec<usize>,
    /// Measure contexts that handle packets and timers at most once per TIME, with separate runs
    /// for each TIME
    #[arg(long, value_delimiter = ',', value_name = "TIME,TIME,…", default_value = "20ms", value_parser = parse_duration, help_heading = "What to measure")]
    wait: Vec<Duration>,
    /// Produce a buffer of each stream every TIME. Over UDP this is always 10 ms
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = period, help_heading = "What to measure")]
    period: Duration,
    /// Measure N buffers of each stream in each run
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = count, help_heading = "What to measure")]
    buffers: usize,
    /// Repeat each measurement N times, and report the medians
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count, help_heading = "What to measure")]
    runs: usize,
    /// Measure what the article about GStreamer's threadshare measures: three sinks at 1,000 to 5,000
    /// streams, and UDP at 100 to 500 streams with 5,000 and 10,000 buffers each
    #[arg(long, conflicts_with_all = ["streams", "contexts", "wait", "period", "buffers", "udp"], help_heading = "What to measure")]
    article: bool,
    /// Also measure UDP over the loopback, with one port per stream and with one port for all
    /// streams
    #[arg(long, help_heading = "What to measure")]
    udp: bool,
    /// Measure only UDP over the loopback, and no sinks
    #[arg(long, requires = "udp", help_heading = "What to measure")]
    only_udp: bool,
    /// Write the diagrams as SVG files to DIR: parked.svg, cpu.svg, and one file with the latencies
    /// of each kind of sink (latency-mutex.svg, latency-task.svg, latency-slot.svg,
    /// latency-udp.svg)
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    svg: Option<PathBuf>,
    /// Write the table and the diagrams to FILE, as one HTML page
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    page: Option<PathBuf>,
    /// Append each finished run to FILE (CSV), and skip the runs that it already has. Give the same
    /// command again to resume an interrupted evaluation
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    resume: Option<PathBuf>,
}

/// A way to pass buffers to sinks, or both sides of UDP.
#[derive(Debug, Clone, Copy)]
pub enum Subject {
    Sink(&'static str, SinkMode),
    Udp { shared_port: bool },
}

impl Subject {
    /// Returns the names of the rows that a run yields.
    fn names(self) -> Vec<&'static str> {
        match self {
            Subject::Sink(name, _) => vec![name],
            Subject::Udp { shared_port: false } => {
                vec!["UDP send a port each", "UDP receive a port each"]
            }
            Subject::Udp { shared_port: true } => vec!["UDP send one port", "UDP receive one port"],
        }
    }
}

/// One point of the evaluation. It is measured several times.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    pub subject: Subject,
    pub streams: usize,
    pub contexts: usize,
    pub wait: Duration,
    /// The number of buffers of each stream.
    pub buffers: usize,
    /// The time at the beginning that is left out of the figures.
    pub ramp_up: Duration,
}

/// The medians of one point, which are a row of the report.
#[derive(Serialize, Debug, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    sink: String,
    streams: usize,
    contexts: usize,
    wait_ms: f64,
    runs: usize,
    cpu_ns_per_buffer: f64,
    parked_share: f64,
    interval_mean_ms: f64,
    interval_sd_ms: f64,
    latency_p50_us: f64,
    latency_p99_us: f64,
    lateness_p50_ms: f64,
    lateness_p99_ms: f64,
    latency_mean_us: f64,
    buffers: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Rows {
    rows: Vec<Row>,
}

/// A chart. The fields are its file name, the label of its vertical axis, a text, and a function
/// that returns the value of a row. The chart shows the rows whose sink has the text in its name.
type Measure = (&'static str, &'static str, &'static str, fn(&Row) -> f64);

/// A buffer passes through a mutex in about a thousandth of the time that it takes to pass through
/// a task. The latencies therefore have one chart per kind: mutex, task, slot and UDP.
const CHARTS: [Measure; 6] = [
    ("parked", "share of time parked, %", "", |row| {
        100.0 * row.parked_share
    }),
    ("latency-mutex", LATENCY, "mutex", |row| row.latency_mean_us),
    ("latency-task", LATENCY, "task", |row| row.latency_mean_us),
    ("latency-slot", LATENCY, "slot", |row| row.latency_mean_us),
    ("latency-udp", LATENCY, "UDP", |row| row.latency_mean_us),
    ("cpu", "CPU per buffer, ns", "", |row| row.cpu_ns_per_buffer),
];
const LATENCY: &str = "latency mean, µs";

/// Returns the charts that have any rows.
fn charts(rows: &[Row]) -> impl Iterator<Item = Measure> {
    CHARTS
        .into_iter()
        .filter(|(_, _, part, _)| rows.iter().any(|row| row.sink.contains(part)))
}

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

    /// Returns all points, in the order of the report.
    fn points(&self) -> Vec<Point> {
        if self.article {
            return article::points();
        }
        let mut subjects = Vec::new();
        if !self.only_udp {
            subjects.extend(SinkMode::ALL.map(|(name, mode)| Subject::Sink(name, mode)));
        }
        if self.udp {
            subjects.extend([false, true].map(|shared_port| Subject::Udp { shared_port }));
        }
        let mut points = Vec::new();
        for subject in subjects {
            for &wait in &self.wait {
                for &contexts in &self.contexts {
                    let of = |&streams| Point {
                        subject,
                        streams,
                        contexts,
                        wait,
                        buffers: self.buffers,
                        ramp_up: RAMP_UP,
                    };
                    points.extend(self.streams.iter().map(of));
                }
            }
        }
        points
    }

    /// Performs the runs that the file does not have yet, and returns the medians of all points.
    fn measure(&self, common: &Common) -> anyhow::Result<Vec<Row>> {
        let interrupt = Interrupt::install()?;
        let mut finished = self
            .resume
            .as_deref()
            .map_or(Ok(FinishedRuns::none()), FinishedRuns::open)?;
        let points = self.points();
        let total = (points.len() * self.runs) as u64;
        let progress = Progress::new(total, "runs", common.quiet);
        self.report_finished(&finished, &points, common, &progress);
        self.report_time(&finished, &points, common, &progress);
        let mut rows = Vec::new();
        for point in points {
            let names = point.subject.names();
            progress.set_message(format!("{}, {} streams", names[0], point.streams));
            let mut runs: Vec<Vec<Values>> = names
                .iter()
                .map(|name| finished.of(&self.key(name, &point), self.runs))
                .collect();
            // A run over UDP has two rows. If the program was killed between them, the file has
            // only the first row, and we repeat the run. We then keep the row that the file has.
            let done = runs.iter().map(Vec::len).min().unwrap_or(0);
            progress.advance(done as u64);
            for _ in done..self.runs {
                let values = self
                    .once(&point, &|| interrupt.requested())
                    .map_err(|error| run_error(error, &interrupt))?;
                for ((name, values), runs) in names.iter().zip(values).zip(&mut runs) {
                    if runs.len() < self.runs {
                        finished.add(&self.key(name, &point), values)?;
                        runs.push(values);
                    }
                }
                progress.advance(1);
            }
            let measured = names.iter().zip(&runs);
            rows.extend(measured.map(|(name, runs)| medians(name, &point, runs)));
        }
        Ok(rows)
    }

    /// Runs one point once, and returns the values of its rows.
    fn once(&self, point: &Point, interrupted: &dyn Fn() -> bool) -> Result<Vec<Values>, Error> {
        match point.subject {
            Subject::Sink(_, mode) => {
                let measured = standalone::run(&self.plan(point, mode), interrupted)?;
                Ok(vec![values(&measured, false)])
            }
            Subject::Udp { shared_port } => {
                let (sent, received) = self.over_udp(point, shared_port, interrupted)?;
                Ok(vec![values(&sent, true), values(&received, true)])
            }
        }
    }

    /// Sends over the loopback and receives at the same time, each side in its own contexts.
    fn over_udp(
        &self,
        point: &Point,
        shared_port: bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(Measured, Measured), Error> {
        let ports = if shared_port { 1 } else { point.streams };
        let on = free_ports(PORT, ports);
        let receive = receive::Plan {
            streams: Some(point.streams),
            contexts: point.contexts,
            wait: point.wait,
            idle: Duration::from_millis(300) + point.wait,
            ..receive::Plan::new(receive::Plan::sessions(
                on,
                ports,
                &Formats::default(),
                Rtcp::Off,
            )?)
        };
        let send = send::Plan {
            shared_port,
            contexts: point.contexts,
            wait: point.wait,
            // The receiver leaves its first second out of the figures, so we send that much more.
            buffers: point.buffers as u64
                + (Duration::from_secs(1).as_nanos() / PACKET_TIME.as_nanos()) as u64,
            ramp_up: point.ramp_up,
            ..send::Plan::new(on, point.streams)
        };
        let receiver = receive::Receiver::open(&receive)?;
        std::thread::scope(|scope| {
            let receiving = scope.spawn(move || receiver.run(&|| false));
            let sent = send::run(&send, interrupted);
            let received = receiving
                .join()
                .map_err(|_| Error::Plan("the thread of the receiver panicked".into()))?;
            let sent = sent?;
            if interrupted() {
                return Err(Error::Interrupted);
            }
            Ok((sent, received))
        })
    }

    /// Reports how long the runs that are left will take.
    fn report_time(
        &self,
        finished: &FinishedRuns,
        points: &[Point],
        common: &Common,
        progress: &Progress,
    ) {
        let of_point = |point: &Point| {
            let names = point.subject.names().into_iter();
            let done = names.map(|name| finished.of(&self.key(name, point), self.runs).len());
            let left = self.runs - done.min().unwrap_or(0);
            let (period, more) = match point.subject {
                Subject::Sink(..) => (self.period, Duration::ZERO),
                // We allow two more seconds for a UDP run: one for the ramp-up of the receiver, and
                // up to one for its wait for further packets at the end.
                Subject::Udp { .. } => (PACKET_TIME, Duration::from_secs(2)),
            };
            let buffers = u32::try_from(point.buffers).unwrap_or(u32::MAX);
            let one = point.ramp_up + more + period.saturating_mul(buffers);
            one.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX))
        };
        let time: Duration = points.iter().map(of_point).sum();
        if !common.quiet && time >= Duration::from_secs(60) {
            let minutes = time.as_secs().div_ceil(60);
            let (hours, minutes) = (minutes / 60, minutes % 60);
            progress.println(&format!("the runs will take about {hours} h {minutes} min"));
        }
    }

    /// Reports how many runs the file already has.
    fn report_finished(
        &self,
        finished: &FinishedRuns,
        points: &[Point],
        common: &Common,
        progress: &Progress,
    ) {
        let total = points.len() * self.runs;
        let of_point = |point: &Point| {
            let names = point.subject.names().into_iter();
            let done = names.map(|name| finished.of(&self.key(name, point), self.runs).len());
            done.min().unwrap_or(0)
        };
        let done: usize = points.iter().map(of_point).sum();
        if let Some(path) = self.resume.as_ref().filter(|_| done > 0 && !common.quiet) {
            let path = path.display();
            progress.println(&format!(
                "{path}: skipping {done} of {total} runs, which are in this file"
            ));
        }
    }

    /// Returns the columns that identify a run in the file.
    fn key(&self, sink: &str, point: &Point) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (streams, contexts, buffers) = (point.streams, point.contexts, point.buffers);
        let period = match point.subject {
            Subject::Sink(..) => ms(self.period),
            Subject::Udp { .. } => ms(PACKET_TIME),
        };
        format!(
            "{sink},{streams},{contexts},{},{period},{buffers}",
            ms(point.wait)
        )
    }

    fn plan(&self, point: &Point, mode: SinkMode) -> standalone::Plan {
        standalone::Plan {
            streams: point.streams,
            contexts: point.contexts,
            wait: point.wait,
            observe: Observe::Off,
            period: self.period,
            buffers: point.buffers as u64,
            mode,
            samples: 80,
            ramp_up: point.ramp_up,
        }
    }

    fn draw(&self, rows: &[Row]) -> anyhow::Result<()> {
        if let Some(folder) = &self.svg {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot create the folder {}", folder.display()))?;
            for measure in charts(rows) {
                let path = folder.join(format!("{}.svg", measure.0));
                write_whole(&path, &chart(rows, measure).svg())?;
            }
        }
        match &self.page {
            Some(path) => write_whole(path, &page(rows)),
            None => Ok(()),
        }
    }
}

/// Writes a file atomically: readers see the previous contents or the complete new ones.
fn write_whole(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = creel_console::AtomicFile::write(path, text.as_bytes());
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the measured values of a run in the order of [`COLUMNS`](super::finished_runs::COLUMNS).
/// Over UDP (`of_contexts`) the CPU time is that of the contexts of this side, because both sides
/// share a process.
fn values(measured: &Measured, of_contexts: bool) -> Values {
    let body = Body::new(measured, true);
    let cpu = match of_contexts {
        true => measured.used.contexts.as_nanos() as f64 / measured.buffers.max(1) as f64,
        false => body.cpu_ns_per_buffer,
    };
    [
        cpu,
        body.parked_share,
        body.interval_ms.mean,
        body.interval_ms.sd,
        body.latency_us.p50,
        body.latency_us.p99,
        body.lateness_ms.p50,
        body.lateness_ms.p99,
        measured.histograms.latency_moments.mean() / 1e3,
    ]
}

fn medians(sink: &str, point: &Point, runs: &[Values]) -> Row {
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
        latency_mean,
    ] = medians;
    Row {
        sink: sink.into(),
        streams: point.streams,
        contexts: point.contexts,
        buffers: point.buffers,
        wait_ms: point.wait.as_secs_f64() * 1e3,
        runs: runs.len(),
        cpu_ns_per_buffer: cpu,
        parked_share: parked,
        interval_mean_ms: mean,
        interval_sd_ms: sd,
        latency_p50_us: latency_p50,
        latency_p99_us: latency_p99,
        lateness_p50_ms: lateness_p50,
        lateness_p99_ms: lateness_p99,
        latency_mean_us: latency_mean,
    }
}

/// Returns the name of a row's curve. It mentions the number of contexts and the wait only if rows
/// differ in them, and the number of buffers only if rows of the same sink differ in it.
fn curve(row: &Row, rows: &[Row]) -> String {
    let mut name = row.sink.clone();
    if rows.iter().any(|other| other.contexts != row.contexts) {
        name += &format!(", {} contexts", row.contexts);
    }
    let is_like = |other: &&Row| other.sink == row.sink;
    if rows
        .iter()
        .filter(is_like)
        .any(|other| other.buffers != row.buffers)
    {
        name += &format!(", {} buffers", row.buffers);
    }
    if rows.iter().any(|other| other.wait_ms != row.wait_ms) {
        name += &format!(", {} ms", row.wait_ms);
    }
    name
}

/// Draws a value over the number of streams, with one curve per way to pass buffers.
fn chart(rows: &[Row], (title, label, part, value): Measure) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|row| row.sink.contains(part)) {
        let (name, point) = (curve(row, rows), (row.streams as f64, value(row)));
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series {
                name,
                points: vec![point],
            }),
        }
    }
    Chart {
        title: title.into(),
        x_label: "streams".into(),
        y_label: label.into(),
        series,
    }
}

/// The header of the table.
const HEADER: [&str; 9] = [
    "sink",
    "streams",
    "contexts",
    "wait, ms",
    "CPU, ns per buffer",
    "parked, %",
    "interval, ms",
    "latency mean / p50 / p99, µs",
    "lateness p50 / p99, ms",
];

fn cells(row: &Row) -> [String; 9] {
    [
        row.sink.clone(),
        row.streams.to_string(),
        row.contexts.to_string(),
        row.wait_ms.to_string(),
        format!("{:.0}", row.cpu_ns_per_buffer),
        format!("{:.1}", 100.0 * row.parked_share),
        format!("{:.3} ± {:.3}", row.interval_mean_ms, row.interval_sd_ms),
        format!(
            "{:.3} / {:.3} / {:.3}",
            row.latency_mean_us, row.latency_p50_us, row.latency_p99_us
        ),
        format!("{:.3} / {:.3}", row.lateness_p50_ms, row.lateness_p99_ms),
    ]
}

fn text(rows: &[Row]) -> String {
    let align = |(at, name)| (name, if at == 0 { Align::Left } else { Align::Right });
    let columns: Vec<_> = HEADER.into_iter().enumerate().map(align).collect();
    let mut table = Table::new(&columns);
    for row in rows {
        table.row(cells(row));
    }
    let charts: Vec<String> = charts(rows)
        .map(|measure| chart(rows, measure).text(50, 10))
        .collect();
    format!("{}\n{}", table.text(), charts.join("\n"))
}

/// Returns the table and the diagrams as one HTML page, which needs no other files.
fn page(rows: &[Row]) -> String {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>creel-cast evaluate</title>\n\
         <style>body{font:14px sans-serif;max-width:70em;margin:2em auto}td,th{padding:.2em .8em;\
         text-align:right}td:first-child,th:first-child{text-align:left}svg{max-width:100%}</style>\n\
         <h1>creel-cast evaluate</h1>\n",
    );
    let _ = writeln!(page, "<p>{}</p>", article::machine());
    for measure in charts(rows) {
        // Writing to a string cannot fail, so we ignore the results.
        let _ = writeln!(
            page,
            "<h2>{}: {}</h2>\n{}",
            measure.0,
            measure.1,
            chart(rows, measure).svg()
        );
    }
    let cell = |tag: &str, text: &str| format!("<{tag}>{text}</{tag}>");
    let header: String = HEADER.iter().map(|name| cell("th", name)).collect();
    let _ = writeln!(
        page,
        "<h2>Medians of the runs</h2>\n<table>\n<tr>{header}</tr>"
    );
    for row in rows {
        let line: String = cells(row).iter().map(|text| cell("td", text)).collect();
        let _ = writeln!(page, "<tr>{line}</tr>");
    }
    page + "</table>\n</html>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema(
            "creel-cast-evaluate",
            schemars::schema_for!(creel_console::Document<Rows>),
        );
    }
}
