//! The output of a run: documents with stable fields for other programs, and a table for people.

use std::time::Duration;

use creel_cast::Measured;
use creel_cast::measure::Percentiles;
use creel_console::document::Document;
use creel_console::{Align, Common, Exit, Format, Table, output};
use creel_topology::{Budget, Machine};
use serde::Serialize;

use super::rows::{self, RowsFormat};

/// The figures of a run, in the units of the schema (docs/schema.md).
#[derive(Serialize, Debug, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// The figures of a run over a network, for all streams together.
#[derive(Serialize, Debug, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub overflowed: Option<u64>,
}

impl Network {
    /// Adds up the figures of all streams. The jitter is the mean of the streams. Returns `None` if
    /// the run had no streams and no warnings.
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

/// A mean with its standard deviation.
#[derive(Serialize, Debug, Clone, Copy)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    pub mean: f64,
    pub sd: f64,
}

/// Three points of a distribution.
#[derive(Serialize, Debug, Clone, Copy)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// The figures of a run as one flat row for CSV.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    bytes: Option<u64>,
    unvalidated: Option<u64>,
    rtcp: Option<u64>,
    skipped: Option<u64>,
    overflowed: Option<u64>,
}

impl Body {
    /// Returns the figures of a run. `standalone` leaves the figures of the network out.
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
            bytes: network.map(|network| network.bytes),
            unvalidated: network.map(|network| network.unvalidated),
            rtcp: network.map(|network| network.rtcp),
            skipped: network.map(|network| network.skipped),
            overflowed: network.and_then(|network| network.overflowed),
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right)]);
        let mut line = |name: &str, value: String| table.row([name.to_owned(), value]);
        line("streams", self.streams.to_string());
        line("buffers", self.buffers.to_string());
        line(
            "CPU per buffer",
            format!("{:.0} ns", self.cpu_ns_per_buffer),
        );
        line("parked", format!("{:.1} %", 100.0 * self.parked_share));
        let Spread { mean, sd } = self.interval_ms;
        line("interval", format!("{mean:.3} ms ± {sd:.3}"));
        let points = |p: &Points| format!("{:.3} / {:.3} / {:.3}", p.p50, p.p99, p.max);
        let latency = points(&self.latency_us);
        line("latency, p50 / p99 / max", format!("{latency} µs"));
        let lateness = points(&self.lateness_ms);
        line("lateness, p50 / p99 / max", format!("{lateness} ms"));
        if let Some(bytes) = self.stream_bytes {
            line("memory per stream, with its buffers", format!("{bytes} B"));
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
                    .map_or("unknown".into(), |ms| format!("{ms:.3} ms"));
                line("jitter, mean of the streams", jitter);
                line("payload types", format!("{:?}", network.payload_types));
                line("restarts", network.restarts.to_string());
                line("neither RTP nor RTCP", network.malformed.to_string());
                line("RTCP", network.rtcp.to_string());
            }
        }
        table
    }
}

/// Prints the rows of the streams, if `rows` is given, and the totals of a run. Warnings go to
/// stderr. Returns [`Exit::SomeFailed`] if there are any.
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
        // The rows are JSON lines, so the totals are a line as well.
        Format::Json if rows.is_some() => output::json_line(&document(body)?)?,
        Format::Json => print_document(body)?,
        Format::Csv => output::csv([body.row()])?,
    }
    Ok(match measured.warnings.is_empty() {
        true => Exit::Done,
        false => Exit::SomeFailed,
    })
}

/// Prints the warnings and the notes of a run on stderr.
pub fn warn(measured: &Measured, common: &Common) {
    for warning in &measured.warnings {
        creel_console::report("creel-cast", &anyhow::anyhow!("{warning}"));
    }
    for note in measured.notes.iter().filter(|_| !common.quiet) {
        eprintln!("creel-cast: {note}");
    }
}

/// Prints a JSON document, to which it adds the machine and the budget.
pub fn print_document(body: impl Serialize) -> anyhow::Result<()> {
    output::json(&document(body)?)?;
    Ok(())
}

fn document<B: Serialize>(body: B) -> anyhow::Result<Document<B>> {
    let machine = Machine::detect()?;
    let budget = Budget::of(&machine);
    Ok(Document::new(&machine, &budget, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn csv_has_the_fields_of_the_document() {
        documented::check_columns(&schemars::schema_for!(Body), &schemars::schema_for!(Row));
    }

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema("creel-cast", schemars::schema_for!(Document<Body>));
    }
}
