//! `creel-cast rooms`: conferences, each of which mixes the streams that arrive on one port.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use creel_cast::Formats;
use creel_cast::rooms::{self, LegReport, Plan};
use creel_console::{Align, Common, Exit, Format, Interrupt, Table, output};
use serde::Serialize;

use super::media::Media;
use super::report::{Body, print_document, warn};
use super::{ObserveArgs, count, exit_code, exit_error, packet_time, parse_duration, period};

const EXAMPLES: &str = "\
Examples:
  creel-cast rooms --on 0.0.0.0:6000 --rooms 400
          run 400 rooms on the ports from 6000 on, with A-law or µ-law and 20 ms per packet
  creel-cast rooms --on 0.0.0.0:6000 --rooms 10 --rate 16000 --codec 9=G722/8000
          run ten wideband rooms, whose legs use G.722";

/// Run conferences: everyone that sends to a room's port receives the sum of the others
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Rooms {
    /// Listen on port + n of this address for room n
    #[arg(
        long,
        value_name = "IP:PORT",
        default_value = "127.0.0.1:6000",
        help_heading = "Rooms"
    )]
    on: SocketAddr,
    /// Open N rooms
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count, help_heading = "Rooms")]
    rooms: usize,
    /// Mix N samples per second. Participants with another rate are ignored, because we do not
    /// resample
    #[arg(long, value_name = "N", default_value_t = 8_000, value_parser = clap::value_parser!(u32).range(8_000..=192_000), help_heading = "Rooms")]
    rate: u32,
    /// Put TIME of sound into each packet
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = packet_time, help_heading = "Rooms")]
    packet_time: Duration,
    /// Admit up to N participants (legs) to one room
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count, help_heading = "Rooms")]
    legs: usize,
    /// Remove a participant that has sent nothing for TIME
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = period, help_heading = "Rooms")]
    silence: Duration,
    #[command(flatten)]
    media: Media,
    /// Share the rooms among N threads (contexts)
    #[arg(long, alias = "groups", value_name = "N", default_value_t = 1, value_parser = count, help_heading = "Contexts")]
    contexts: usize,
    /// Save CPU time by handling packets and timers at most once per TIME in each context. They are
    /// then up to TIME late
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = parse_duration, help_heading = "Contexts")]
    wait: Duration,
    #[command(flatten, next_help_heading = "Contexts")]
    observe_args: ObserveArgs,
    /// Stop when no packet has arrived for TIME, counted from the first packet on
    #[arg(long, value_name = "TIME", value_parser = period, help_heading = "End of the run")]
    idle: Option<Duration>,
    /// Stop after TIME, even if packets still arrive
    #[arg(long, value_name = "TIME", value_parser = period, help_heading = "End of the run")]
    r#for: Option<Duration>,
}

/// A row of the report: one leg of a room.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    room: usize,
    #[cfg_attr(test, schemars(with = "String"))]
    from: SocketAddr,
    format: String,
    packets: u64,
    sent: u64,
    late: u64,
    concealed_share: f64,
    keys: String,
    lost: u64,
    jitter_ms: f64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Rows {
    #[serde(flatten)]
    body: Body,
    packets: u64,
    overflowed: Option<u64>,
    legs: Vec<Row>,
}

impl Rooms {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install()?;
        let mut named = self.media.formats().named().to_vec();
        // Telephones use 101 for keys unless their session description says otherwise.
        if let Ok(events) = "telephone-event/8000".parse() {
            named.push((101, events));
        }
        let plan = Plan {
            formats: Formats::new(named),
            rate: self.rate,
            packet_time: self.packet_time,
            legs: self.legs,
            rtcp: self.media.rtcp,
            silence: self.silence,
            contexts: self.contexts,
            wait: self.wait,
            observe: self.observe_args.observe.unwrap_or_default(),
            idle: self.idle,
            time_limit: self.r#for,
            options: self.media.options(),
            ..Plan::new(self.on, self.rooms)
        };
        let (measured, legs) = rooms::run(&plan, &|| interrupt.requested()).map_err(exit_error)?;
        warn(&measured, common);
        let legs: Vec<Row> = legs.iter().map(Row::new).collect();
        match common.format {
            Format::Text => output::text(&text(&legs))?,
            Format::Csv => output::csv(legs)?,
            Format::Json => {
                let body = Body::new(&measured, true);
                print_document(Rows {
                    body,
                    packets: measured.buffers,
                    overflowed: measured.overflowed,
                    legs,
                })?;
            }
        }
        let exit = match measured.warnings.is_empty() {
            true => Exit::Done,
            false => Exit::SomeFailed,
        };
        Ok(exit_code(&interrupt, exit))
    }
}

impl Row {
    fn new(leg: &LegReport) -> Self {
        Row {
            room: leg.room,
            from: leg.from,
            format: leg.format.to_string(),
            packets: leg.packets,
            sent: leg.sent,
            late: leg.late,
            concealed_share: leg.concealed,
            keys: leg.keys.clone(),
            lost: leg.lost,
            jitter_ms: leg.jitter_ms,
        }
    }
}

fn text(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        ("room", Align::Right),
        ("leg", Align::Left),
        ("format", Align::Left),
        ("packets", Align::Right),
        ("sent", Align::Right),
        ("lost", Align::Right),
        ("late", Align::Right),
        ("jitter, ms", Align::Right),
        ("concealed, %", Align::Right),
        ("keys", Align::Left),
    ]);
    for row in rows {
        table.row([
            row.room.to_string(),
            row.from.to_string(),
            row.format.clone(),
            row.packets.to_string(),
            row.sent.to_string(),
            row.lost.to_string(),
            row.late.to_string(),
            format!("{:.3}", row.jitter_ms),
            format!("{:.2}", 100.0 * row.concealed_share),
            row.keys.clone(),
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema(
            "creel-cast-rooms",
            schemars::schema_for!(creel_console::Document<Rows>),
        );
    }
}
