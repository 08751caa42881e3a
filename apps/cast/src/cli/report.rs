//! What a run prints: the fields that other programs read, or a table for people.

use std::time::Duration;

use creel_cast::Measured;
use creel_cast::measure::Percentiles;
use creel_console::document::Document;
use creel_console::{Align, Common, Exit, Format, Table, output};
use creel_topology::{Budget, Machine};
use serde::Serialize;

use super::rows::{self, RowsFormat};

/// A run in the units of the schema.
#[derive(Serialize, Debug, Clone)]
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
    pub duplicates: u64,
    #[serde(flatten)]
    pub network: Option<Network>,
}

/// What came over a network, of all streams.
#[derive(Serialize, Debug, Clone)]
pub struct Network {
    pub packets: u64,
    pub bytes: u64,
    pub expected: u64,
    pub jitter_ms: Option<f64>,
    pub payload_types: Vec<u8>,
    pub malformed: u64,
    pub unvalidated: u64,
    pub rtcp: u64,
    pub restarts: u64,
    pub skipped: u64,
    pub overflowed: u64,
}

impl Network {
    /// The totals; jitter is the streams' mean.
    fn new(measured: &Measured) -> Option<Self> {
        let (received, sent) = (&measured.sources, &measured.sent);
        if received.is_empty()
            && sent.is_empty()
            && measured.streams.is_empty()
            && measured.warnings.is_empty()
        {
            return None;
        }
        let jitters: Vec<f64> = received
            .iter()
            .filter_map(|source| source.jitter_ms)
            .collect();
        let mut types: Vec<u8> = received
            .iter()
            .flat_map(|source| source.payload_types.clone())
            .collect();
        types.sort_unstable();
        types.dedup();
        Some(Network {
            packets: received.iter().map(|source| source.packets).sum::<u64>()
                + sent.iter().map(|sent| sent.packets).sum::<u64>(),
            bytes: received.iter().map(|source| source.bytes).sum::<u64>()
                + sent.iter().map(|sent| sent.bytes).sum::<u64>(),
            expected: received.iter().map(|source| source.expected).sum(),
            jitter_ms: (!jitters.is_empty())
                .then(|| jitters.iter().sum::<f64>() / jitters.len() as f64),
            payload_types: types,
            malformed: measured.unrecognized.malformed,
            unvalidated: measured.unrecognized.unvalidated,
            rtcp: measured.unrecognized.rtcp,
            restarts: received.iter().map(|source| source.restarts).sum(),
            skipped: measured.skipped,
            overflowed: measured.overflowed,
        })
    }
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
    duplicates: u64,
    packets: Option<u64>,
    expected: Option<u64>,
    jitter_ms: Option<f64>,
    payload_types: Option<String>,
    malformed: Option<u64>,
    restarts: Option<u64>,
}

impl Body {
    /// The figures of a run; of one without a network, those that it has.
    pub fn new(measured: &Measured, standalone: bool) -> Self {
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
            duplicates: measured.duplicates,
            network: if standalone {
                None
            } else {
                Network::new(measured)
            },
        }
    }

    fn row(&self) -> Row {
        let network = self.network.as_ref();
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
            duplicates: self.duplicates,
            packets: network.map(|network| network.packets),
            expected: network.map(|network| network.expected),
            jitter_ms: network.and_then(|network| network.jitter_ms),
            payload_types: network.map(|network| {
                let types: Vec<String> = network.payload_types.iter().map(u8::to_string).collect();
                types.join(" ")
            }),
            malformed: network.map(|network| network.malformed),
            restarts: network.map(|network| network.restarts),
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
        line("duplicates", self.duplicates.to_string());
        if let Some(network) = &self.network {
            line("packets", network.packets.to_string());
            if network.expected > 0 {
                line("expected", network.expected.to_string());
                let jitter = network
                    .jitter_ms
                    .map_or("not known".into(), |ms| format!("{ms:.3} ms"));
                line("jitter, mean of the streams", jitter);
                line("payload types", format!("{:?}", network.payload_types));
                line("new starts", network.restarts.to_string());
                line("neither RTP nor RTCP", network.malformed.to_string());
                line("RTCP", network.rtcp.to_string());
            }
        }
        table
    }
}

/// Prints a run: a row a stream, if asked for, and the totals. Its warnings go to stderr, and make
/// the exit code say so.
pub fn print(
    measured: &Measured,
    common: &Common,
    rows: Option<RowsFormat>,
) -> anyhow::Result<Exit> {
    warn(measured, common);
    let standalone = measured.sources.is_empty() && measured.sent.is_empty();
    let body = Body::new(measured, standalone && measured.warnings.is_empty());
    if let Some(format) = rows {
        rows::print(measured, format)?;
    }
    match common.format {
        Format::Text if rows.is_some() => output::note(&body.table().text()),
        Format::Text => output::text(&body.table().text())?,
        // A line, as the rows before it.
        Format::Json if rows.is_some() => output::json_line(&document(body)?)?,
        Format::Json => print_document(body)?,
        Format::Csv => output::csv([body.row()])?,
    }
    Ok(match measured.warnings.is_empty() {
        true => Exit::Done,
        false => Exit::SomeFailed,
    })
}

/// Tells what went wrong, and what is worth knowing.
pub fn warn(measured: &Measured, common: &Common) {
    for warning in &measured.warnings {
        creel_console::report("creel-cast", &anyhow::anyhow!("{warning}"));
    }
    for note in measured.notes.iter().filter(|_| !common.quiet) {
        eprintln!("creel-cast: {note}");
    }
}

/// Prints a document with the machine and the budget.
pub fn print_document(body: impl Serialize) -> anyhow::Result<()> {
    output::json(&document(body)?)?;
    Ok(())
}

fn document<B: Serialize>(body: B) -> anyhow::Result<Document<B>> {
    let machine = Machine::detect()?;
    let budget = Budget::of(&machine);
    Ok(Document::new(&machine, &budget, body))
}
