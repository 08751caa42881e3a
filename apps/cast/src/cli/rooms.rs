//! `creel-cast rooms`: conferences.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use creel_cast::Formats;
use creel_cast::rooms::{self, LegReport, Plan};
use creel_console::{Align, Common, Exit, Format, Interrupt, Table, output};
use serde::Serialize;

use super::media::Media;
use super::report::{Body, print_document, warn};
use super::{ObserveArgs, count, exit_code, exit_error, period, time};

const EXAMPLES: &str = "\
Examples:
  creel-cast rooms --on 0.0.0.0:6000 --rooms 400
          room n is port 6000 + n; A-law and µ-law, 20 ms a packet
  creel-cast rooms --on 0.0.0.0:6000 --rooms 10 --rate 16000 --codec 9=G722/8000";

/// Let people confer: whoever sends to a room's port hears all others who do
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Rooms {
    /// Room n is port + n of this address
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:6000")]
    on: SocketAddr,
    /// Rooms
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    rooms: usize,
    /// Samples a second in the rooms; legs of another rate are not heard
    #[arg(long, value_name = "N", default_value_t = 8_000, value_parser = clap::value_parser!(u32).range(8_000..=192_000))]
    rate: u32,
    /// How long a packet lasts that is sent
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = period)]
    packet_time: Duration,
    /// Legs in one room at most
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count)]
    legs: usize,
    /// A leg that sends nothing for so long has left
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = period)]
    silence: Duration,
    /// Contexts: threads that share the rooms
    #[arg(long, alias = "groups", value_name = "N", default_value_t = 1, value_parser = count)]
    contexts: usize,
    /// How long a context waits before it reacts again
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = time)]
    wait: Duration,
    #[command(flatten)]
    observe_args: ObserveArgs,
    /// End when nothing has come for so long, once something has
    #[arg(long, value_name = "TIME", value_parser = period)]
    idle: Option<Duration>,
    /// End after so long in any case
    #[arg(long, value_name = "TIME", value_parser = period)]
    r#for: Option<Duration>,
    #[command(flatten)]
    media: Media,
}

/// A leg.
#[derive(Serialize)]
struct Row {
    room: usize,
    from: SocketAddr,
    format: String,
    packets: u64,
    sent: u64,
    late: u64,
    concealed_share: f64,
    keys: String,
}

#[derive(Serialize)]
struct Rows {
    #[serde(flatten)]
    body: Body,
    packets: u64,
    overflowed: u64,
    legs: Vec<Row>,
}

impl Rooms {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install()?;
        let mut named = self.media.formats().named().to_vec();
        // What telephones use where nothing says otherwise.
        if let Ok(events) = "telephone-event/8000".parse() {
            named.push((101, events));
        }
        let plan = Plan {
            formats: Formats::new(named),
            rate: self.rate,
            packet_time: self.packet_time,
            legs: self.legs,
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
        ("late", Align::Right),
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
            row.late.to_string(),
            format!("{:.2}", 100.0 * row.concealed_share),
            row.keys.clone(),
        ]);
    }
    table.text()
}
