//! Prints one row per stream: as text, as CSV, as JSON, or for Prometheus.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use creel_cast::Measured;
use creel_cast::receive::SourceReport;
use creel_cast::send::SentReport;
use creel_console::{Align, Table, output};
use serde::Serialize;

/// The format of the rows.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsFormat {
    /// A table
    Text,
    /// A header line, and one line per stream
    Csv,
    /// One line per stream, with a JSON object
    Json,
    /// The text format in which Prometheus reads metrics
    Prometheus,
}

/// The row of a received stream.
#[derive(Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReceivedRow {
    stream: usize,
    ssrc: u32,
    port: u16,
    from: String,
    format: Option<String>,
    payload_types: String,
    packets: u64,
    bytes: u64,
    seconds: f64,
    expected: u64,
    lost: u64,
    late: u64,
    reordered: u64,
    duplicates: u64,
    strays: u64,
    restarts: u64,
    jitter_ms: Option<f64>,
    jitter_max_ms: Option<f64>,
    interval_ms: f64,
    interval_sd_ms: f64,
    drift_ppm: Option<f64>,
    keys: String,
    sender_packets: Option<u32>,
    sender_bytes: Option<u32>,
    left: bool,
    lost_rfc3550: i64,
    lost_percent: f64,
    delta_min_ms: Option<f64>,
    delta_mean_ms: Option<f64>,
    delta_max_ms: Option<f64>,
    jitter_min_ms: Option<f64>,
    jitter_mean_ms: Option<f64>,
    packet_ms: Option<f64>,
    bursts: u64,
    burst_density: f64,
    burst_ms: Option<f64>,
    gap_density: f64,
    gap_ms: Option<f64>,
    r_factor: Option<f64>,
    mos: Option<f64>,
    timestamp_jumps: u64,
    clock_changes: u64,
    codec_changes: u64,
    collision: bool,
    overflowed: Option<u64>,
    round_trip_ms: Option<f64>,
    reported_lost: Option<u32>,
    reported_jitter_ms: Option<f64>,
    reported_r_factor: Option<u8>,
    reported_mos: Option<f64>,
}

impl ReceivedRow {
    fn new(row: &SourceReport) -> Self {
        let types: Vec<String> = row.payload_types.iter().map(u8::to_string).collect();
        ReceivedRow {
            stream: row.stream,
            ssrc: row.ssrc,
            port: row.port,
            from: row.from.to_string(),
            format: row.format.map(|format| format.to_string()),
            payload_types: types.join(" "),
            packets: row.packets,
            bytes: row.bytes,
            seconds: row.seconds,
            expected: row.expected,
            lost: row.lost,
            late: row.late,
            reordered: row.reordered,
            duplicates: row.duplicates,
            strays: row.strays,
            restarts: row.restarts,
            jitter_ms: row.jitter_ms,
            jitter_max_ms: row.jitter.map(|jitter| jitter.max),
            interval_ms: row.interval_ms,
            interval_sd_ms: row.interval_sd_ms,
            drift_ppm: row.drift_ppm,
            keys: row.keys.clone(),
            sender_packets: row.sender_packets,
            sender_bytes: row.sender_bytes,
            left: row.left,
            lost_rfc3550: row.lost_rfc3550,
            lost_percent: 100.0 * row.lost as f64 / row.expected.max(1) as f64,
            delta_min_ms: row.delta.map(|delta| delta.min),
            delta_mean_ms: row.delta.map(|delta| delta.mean),
            delta_max_ms: row.delta.map(|delta| delta.max),
            jitter_min_ms: row.jitter.map(|jitter| jitter.min),
            jitter_mean_ms: row.jitter.map(|jitter| jitter.mean),
            packet_ms: row.packet_ms,
            bursts: row.bursts.bursts,
            burst_density: row.bursts.burst_density,
            burst_ms: row.packet_ms.map(|ms| ms * row.bursts.burst_packets),
            gap_density: row.bursts.gap_density,
            gap_ms: row.packet_ms.map(|ms| ms * row.bursts.gap_packets),
            r_factor: row.rating,
            mos: row.mos,
            timestamp_jumps: row.timestamp_jumps,
            clock_changes: row.clock_changes,
            codec_changes: row.codec_changes,
            collision: row.collision,
            overflowed: row.overflowed,
            round_trip_ms: row.round_trip_ms,
            reported_lost: row.reported_lost,
            reported_jitter_ms: row.reported_jitter_ms,
            reported_r_factor: row.reported_rating,
            reported_mos: row.reported_mos,
        }
    }
}

/// The row of a sent stream and one of its receivers. A stream has a row per receiver.
#[derive(Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SentRow {
    stream: usize,
    ssrc: u32,
    packets: u64,
    bytes: u64,
    skipped: u64,
    receiver: Option<String>,
    receiver_lost: Option<u32>,
    receiver_fraction_lost: Option<f64>,
    receiver_jitter_ms: Option<f64>,
    round_trip_ms: Option<f64>,
    receiver_discarded: Option<f64>,
    receiver_r_factor: Option<u8>,
    receiver_mos: Option<f64>,
}

impl SentRow {
    fn rows(row: &SentReport) -> Vec<SentRow> {
        let one = |receiver: Option<&creel_cast::send::ReceiverReport>| SentRow {
            stream: row.stream,
            ssrc: row.ssrc,
            packets: row.packets,
            bytes: row.bytes,
            skipped: row.skipped,
            receiver: receiver.map(|receiver| receiver.from.to_string()),
            receiver_lost: receiver.map(|receiver| receiver.lost),
            receiver_fraction_lost: receiver.map(|receiver| receiver.fraction_lost),
            receiver_jitter_ms: receiver.map(|receiver| receiver.jitter_ms),
            round_trip_ms: receiver.and_then(|receiver| receiver.round_trip_ms),
            receiver_discarded: receiver.and_then(|receiver| receiver.discarded),
            receiver_r_factor: receiver.and_then(|receiver| receiver.rating),
            receiver_mos: receiver.and_then(|receiver| receiver.mos),
        };
        match row.receivers.is_empty() {
            true => vec![one(None)],
            false => row
                .receivers
                .iter()
                .map(|receiver| one(Some(receiver)))
                .collect(),
        }
    }
}

/// Prints the rows of all streams to stdout.
pub fn print(measured: &Measured, format: RowsFormat) -> anyhow::Result<()> {
    let received: Vec<ReceivedRow> = measured.sources.iter().map(ReceivedRow::new).collect();
    let sent: Vec<SentRow> = measured.sent.iter().flat_map(SentRow::rows).collect();
    match format {
        RowsFormat::Text if sent.is_empty() => output::text(&received_table(&received))?,
        RowsFormat::Text => output::text(&sent_table(&sent))?,
        RowsFormat::Csv if sent.is_empty() => output::csv(received)?,
        RowsFormat::Csv => output::csv(sent)?,
        RowsFormat::Json => {
            for row in &received {
                output::json_line(row)?;
            }
            for row in &sent {
                output::json_line(row)?;
            }
        }
        RowsFormat::Prometheus => output::text(&prometheus(measured))?,
    }
    Ok(())
}

fn received_table(rows: &[ReceivedRow]) -> String {
    let mut table = Table::new(&[
        ("stream", Align::Right),
        ("SSRC", Align::Right),
        ("from", Align::Left),
        ("format", Align::Left),
        ("packets", Align::Right),
        ("lost", Align::Right),
        ("late", Align::Right),
        ("reordered", Align::Right),
        ("duplicates", Align::Right),
        ("breaks", Align::Right),
        ("max delta, ms", Align::Right),
        ("jitter, ms", Align::Right),
        ("max", Align::Right),
        ("burst, ms", Align::Right),
        ("MOS", Align::Right),
        ("clock, ppm", Align::Right),
        ("keys", Align::Left),
    ]);
    let number = |value: Option<f64>, digits: usize| {
        value.map_or("–".into(), |value| format!("{value:.digits$}"))
    };
    for row in rows {
        let format = row
            .format
            .clone()
            .unwrap_or_else(|| format!("type {}", row.payload_types));
        table.row([
            row.stream.to_string(),
            format!("{:08x}", row.ssrc),
            row.from.clone(),
            format,
            row.packets.to_string(),
            row.lost.to_string(),
            row.late.to_string(),
            row.reordered.to_string(),
            row.duplicates.to_string(),
            (row.restarts + row.timestamp_jumps + row.clock_changes).to_string(),
            number(row.delta_max_ms, 3),
            number(row.jitter_mean_ms, 3),
            number(row.jitter_max_ms, 3),
            number(row.burst_ms.filter(|_| row.bursts > 0), 0),
            number(row.mos, 2),
            number(row.drift_ppm, 0),
            row.keys.clone(),
        ]);
    }
    table.text()
}

fn sent_table(rows: &[SentRow]) -> String {
    let mut table = Table::new(&[
        ("stream", Align::Right),
        ("SSRC", Align::Right),
        ("packets", Align::Right),
        ("not sent", Align::Right),
        ("receiver", Align::Left),
        ("lost there", Align::Right),
        ("jitter, ms", Align::Right),
        ("round trip, ms", Align::Right),
        ("MOS there", Align::Right),
    ]);
    for row in rows {
        let number = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
        table.row([
            row.stream.to_string(),
            format!("{:08x}", row.ssrc),
            row.packets.to_string(),
            row.skipped.to_string(),
            row.receiver.clone().unwrap_or_else(|| "–".into()),
            row.receiver_lost
                .map_or("–".into(), |lost| lost.to_string()),
            number(row.receiver_jitter_ms),
            number(row.round_trip_ms),
            row.receiver_mos
                .map_or("–".into(), |mos| format!("{mos:.1}")),
        ]);
    }
    table.text()
}

/// A metric of a received stream: its name, its help text, and its value.
type Measure = (&'static str, &'static str, fn(&SourceReport) -> Option<f64>);

const MEASURES: [Measure; 18] = [
    (
        "packets_total",
        "Packets received, including duplicates.",
        |row| Some(row.packets as f64),
    ),
    ("bytes_total", "Payload bytes received.", |row| {
        Some(row.bytes as f64)
    }),
    (
        "expected_total",
        "Packets that should have arrived.",
        |row| Some(row.expected as f64),
    ),
    ("lost_total", "Packets that never arrived.", |row| {
        Some(row.lost as f64)
    }),
    (
        "late_total",
        "Packets that arrived too late to be played.",
        |row| Some(row.late as f64),
    ),
    (
        "reordered_total",
        "Packets that arrived after a later one.",
        |row| Some(row.reordered as f64),
    ),
    ("duplicates_total", "Packets that arrived again.", |row| {
        Some(row.duplicates as f64)
    }),
    ("restarts_total", "Restarts of the source.", |row| {
        Some(row.restarts as f64)
    }),
    (
        "timestamp_jumps_total",
        "Jumps of the timestamps while the sequence numbers went on.",
        |row| Some(row.timestamp_jumps as f64),
    ),
    (
        "codec_changes_total",
        "Changes to another audio format.",
        |row| Some(row.codec_changes as f64),
    ),
    (
        "overflowed_total",
        "Datagrams that this machine dropped at the port.",
        |row| row.overflowed.map(|overflowed| overflowed as f64),
    ),
    ("bursts_total", "Bursts of losses (RFC 3611).", |row| {
        Some(row.bursts.bursts as f64)
    }),
    ("jitter_seconds", "Interarrival jitter (RFC 3550).", |row| {
        row.jitter_ms.map(|ms| ms / 1e3)
    }),
    ("jitter_max_seconds", "Maximum of the jitter.", |row| {
        row.jitter.map(|jitter| jitter.max / 1e3)
    }),
    (
        "delta_max_seconds",
        "Maximum time between two packets.",
        |row| row.delta.map(|delta| delta.max / 1e3),
    ),
    ("r_factor", "Rating of the E-model (ITU-T G.107).", |row| {
        row.rating
    }),
    ("mos", "Estimated mean opinion score.", |row| row.mos),
    (
        "clock_drift_ppm",
        "How much faster the sender's clock runs than ours.",
        |row| row.drift_ppm,
    ),
];

/// Returns the figures of all streams in Prometheus' exposition format.
pub fn prometheus(measured: &Measured) -> String {
    let mut text = String::new();
    let head = |text: &mut String, name: &str, help: &str| {
        let kind = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        // Writing to a string cannot fail, so we ignore the results.
        let _ = write!(
            text,
            "# HELP creel_cast_{name} {help}\n# TYPE creel_cast_{name} {kind}\n"
        );
    };
    if !measured.sources.is_empty() || measured.sent.is_empty() {
        for (name, help, value) in MEASURES {
            head(&mut text, name, help);
            for row in &measured.sources {
                let Some(value) = value(row) else { continue };
                let (stream, ssrc, port) = (row.stream, row.ssrc, row.port);
                let labels = format!("stream=\"{stream}\",ssrc=\"{ssrc:08x}\",port=\"{port}\"");
                let _ = writeln!(text, "creel_cast_{name}{{{labels}}} {value}");
            }
        }
        head(
            &mut text,
            "malformed_total",
            "Datagrams that were neither RTP nor RTCP.",
        );
        let _ = writeln!(
            text,
            "creel_cast_malformed_total {}",
            measured.unrecognized.malformed
        );
        return text;
    }
    head(&mut text, "sent_packets_total", "Packets sent.");
    for row in &measured.sent {
        let _ = writeln!(
            text,
            "creel_cast_sent_packets_total{{stream=\"{}\",ssrc=\"{:08x}\"}} {}",
            row.stream, row.ssrc, row.packets
        );
    }
    head(
        &mut text,
        "receiver_lost",
        "Packets that the receiver reports as lost.",
    );
    for row in &measured.sent {
        for receiver in &row.receivers {
            let (stream, ssrc, from) = (row.stream, row.ssrc, receiver.from);
            let labels = format!("stream=\"{stream}\",ssrc=\"{ssrc:08x}\",receiver=\"{from}\"");
            let _ = writeln!(
                text,
                "creel_cast_receiver_lost{{{labels}}} {}",
                receiver.lost
            );
        }
    }
    text
}

/// Reads a file that the user named on the command line.
pub fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema(
            "creel-cast-receive-streams",
            schemars::schema_for!(ReceivedRow),
        );
        documented::check_schema("creel-cast-send-streams", schemars::schema_for!(SentRow));
    }
}
