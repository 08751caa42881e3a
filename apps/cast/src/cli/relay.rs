//! `creel-cast relay`: from N ports to M clients each.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use creel_cast::relay::{self, Plan, PortReport};
use creel_cast::{Options, Rtcp};
use creel_console::{Align, Common, Exit, Format, Interrupt, Table, output};
use serde::Serialize;

use super::media::resolve;
use super::report::{Body, print_document, warn};
use super::{ObserveArgs, count, exit_code, exit_error, period, time};

const EXAMPLES: &str = "\
Examples:
  creel-cast relay --on 127.0.0.1:5004 --to 127.0.0.1:6004 127.0.0.1:7004
          all that comes to one port, to two clients
  creel-cast relay --on 0.0.0.0:5004 --ports 100 --control 127.0.0.1:8080 --rewrite
          a hundred ports, with names of our own; then
          curl -X PUT http://127.0.0.1:8080/clients/10.0.0.1:6004";

/// Pass packets on to clients, payloads byte for byte
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Relay {
    /// What comes to port + n of this address goes to port + n of each client
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:5004")]
    on: SocketAddr,
    /// Ports
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    ports: usize,
    /// Clients at the beginning
    #[arg(long, num_args = 1.., value_name = "HOST:PORT")]
    to: Vec<String>,
    /// All ports' packets go to one port of a client
    #[arg(long)]
    shared_port: bool,
    /// Contexts: threads that share the ports
    #[arg(long, alias = "groups", value_name = "N", default_value_t = 1, value_parser = count)]
    contexts: usize,
    /// How long a context waits before it reacts again; 0ms: as soon as it can
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = time)]
    wait: Duration,
    #[command(flatten)]
    observe_args: ObserveArgs,
    /// Give sources new names and numbers
    #[arg(long)]
    rewrite: bool,
    /// Reports are passed on the ports of the packets (mux), on the next ones (own; ports are two
    /// apart then), or not at all (off)
    #[arg(long, value_name = "WHERE", default_value = "mux")]
    rtcp: Rtcp,
    /// Packets that wait for a client at most; then the oldest are dropped
    #[arg(long, value_name = "N", default_value_t = 1_024, value_parser = count)]
    queue: usize,
    /// Take commands here, a line or an HTTP request each: list, add HOST:PORT, remove HOST:PORT,
    /// clear, metrics
    #[arg(long, value_name = "IP:PORT")]
    control: Option<SocketAddr>,
    /// End when nothing has come for so long, once something has
    #[arg(long, value_name = "TIME", value_parser = period)]
    idle: Option<Duration>,
    /// End after so long in any case
    #[arg(long, value_name = "TIME", value_parser = period)]
    r#for: Option<Duration>,
    /// The service class of what is sent, 0 to 63
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u8).range(0..64))]
    dscp: Option<u8>,
    /// The interface to send by and to join groups on
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
}

/// A client of a port.
#[derive(Serialize)]
struct Row {
    port: u16,
    packets: u64,
    rtcp: u64,
    refused: u64,
    client: Option<SocketAddr>,
    sent: u64,
    dropped: u64,
}

#[derive(Serialize)]
struct Rows {
    #[serde(flatten)]
    body: Body,
    packets: u64,
    rtcp: u64,
    overflowed: u64,
    ports: Vec<Row>,
}

impl Relay {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install()?;
        let to: anyhow::Result<Vec<SocketAddr>> = self
            .to
            .iter()
            .map(|client| resolve("--to", client))
            .collect();
        let plan = Plan {
            ports: self.ports,
            to: to?,
            shared_port: self.shared_port,
            contexts: self.contexts,
            wait: self.wait,
            observe: self.observe_args.observe.unwrap_or_default(),
            rewrite: self.rewrite,
            rtcp: self.rtcp,
            queue: self.queue,
            idle: self.idle,
            time_limit: self.r#for,
            options: Options {
                dscp: self.dscp,
                interface: self.interface.clone(),
                ttl: None,
            },
            ..Plan::new(self.on)
        };
        let relay = relay::Relay::open(&plan).map_err(exit_error)?;
        if let Some(control) = self.control {
            let figures = relay.figures();
            let metrics = move || prometheus(&figures());
            let bound =
                relay::serve(control, relay.client_registry(), metrics).map_err(exit_error)?;
            if !common.quiet {
                eprintln!("creel-cast: commands are taken at {bound}");
            }
        }
        let (measured, reports) = relay.run(&|| interrupt.requested());
        warn(&measured, common);
        let ports: Vec<Row> = reports.iter().flat_map(rows).collect();
        match common.format {
            Format::Text => output::text(&text(&ports))?,
            Format::Csv => output::csv(ports)?,
            Format::Json => {
                let body = Body::new(&measured, true);
                print_document(Rows {
                    body,
                    packets: measured.buffers,
                    rtcp: reports.iter().map(|report| report.rtcp).sum(),
                    overflowed: measured.overflowed,
                    ports,
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

fn rows(report: &PortReport) -> Vec<Row> {
    let row = |client: Option<&relay::ClientReport>| Row {
        port: report.port,
        packets: report.packets,
        rtcp: report.rtcp,
        refused: report.refused,
        client: client.map(|client| client.to),
        sent: client.map_or(0, |client| client.sent),
        dropped: client.map_or(0, |client| client.dropped),
    };
    match report.clients.is_empty() {
        true => vec![row(None)],
        false => report
            .clients
            .iter()
            .map(|client| row(Some(client)))
            .collect(),
    }
}

fn text(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        ("port", Align::Right),
        ("packets", Align::Right),
        ("reports", Align::Right),
        ("refused", Align::Right),
        ("client", Align::Left),
        ("sent", Align::Right),
        ("dropped", Align::Right),
    ]);
    for row in rows {
        table.row([
            row.port.to_string(),
            row.packets.to_string(),
            row.rtcp.to_string(),
            row.refused.to_string(),
            row.client.map_or("–".into(), |client| client.to_string()),
            row.sent.to_string(),
            row.dropped.to_string(),
        ]);
    }
    table.text()
}

/// The figures in Prometheus' format.
fn prometheus(reports: &[PortReport]) -> String {
    let mut text = String::from(
        "# HELP creel_cast_relay_packets_total Packets that came.\n\
         # TYPE creel_cast_relay_packets_total counter\n",
    );
    for report in reports {
        text += &format!(
            "creel_cast_relay_packets_total{{port=\"{}\"}} {}\n",
            report.port, report.packets
        );
    }
    type Count = fn(&relay::ClientReport) -> u64;
    let of_clients: [(&str, &str, Count); 2] = [
        ("sent", "Packets that were sent to a client.", |client| {
            client.sent
        }),
        (
            "dropped",
            "Packets that waited too long for a client.",
            |client| client.dropped,
        ),
    ];
    for (name, help, count) in of_clients {
        text += &format!(
            "# HELP creel_cast_relay_{name}_total {help}\n# TYPE creel_cast_relay_{name}_total counter\n"
        );
        for report in reports {
            for client in &report.clients {
                let labels = format!("port=\"{}\",client=\"{}\"", report.port, client.to);
                text += &format!(
                    "creel_cast_relay_{name}_total{{{labels}}} {}\n",
                    count(client)
                );
            }
        }
    }
    text
}
