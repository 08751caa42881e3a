//! `creel-cast relay`: passes the packets of N ports on to M clients each.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use creel_cast::relay::{self, Plan, PortReport};
use creel_cast::{Options, Rtcp};
use creel_console::{Align, Common, Exit, Format, Interrupt, Table, output};
use serde::Serialize;

use super::media::resolve;
use super::report::{Body, print_document, warn};
use super::{ObserveArgs, count, exit_code, exit_error, parse_duration, period};

const EXAMPLES: &str = "\
Examples:
  creel-cast relay --on 127.0.0.1:5004 --to 127.0.0.1:6004 127.0.0.1:7004
          pass everything that arrives on one port on to two clients
  creel-cast relay --on 0.0.0.0:5004 --ports 100 --control 127.0.0.1:8080 --rewrite
          relay a hundred ports, and hide their sources. To add a client while it runs:
          curl -X PUT http://127.0.0.1:8080/clients/10.0.0.1:6004";

/// Pass packets on to clients, with unchanged payloads
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Relay {
    /// Receive on port + n of this address, and send to port + n of each client
    #[arg(
        long,
        value_name = "IP:PORT",
        default_value = "127.0.0.1:5004",
        help_heading = "Ports and clients"
    )]
    on: SocketAddr,
    /// Receive on N ports
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count, help_heading = "Ports and clients")]
    ports: usize,
    /// Send to these clients from the beginning
    #[arg(long, num_args = 1.., value_name = "HOST:PORT", help_heading = "Ports and clients")]
    to: Vec<String>,
    /// Send the packets of all ports to one port of each client
    #[arg(long, help_heading = "Ports and clients")]
    shared_port: bool,
    /// Accept commands on this TCP port, as a line or as an HTTP request: list, add HOST:PORT,
    /// remove HOST:PORT, clear, metrics
    #[arg(long, value_name = "IP:PORT", help_heading = "Ports and clients")]
    control: Option<SocketAddr>,
    /// Queue up to N packets per port while the socket is busy. If more arrive, drop the oldest for
    /// all clients
    #[arg(long, value_name = "N", default_value_t = 1_024, value_parser = count, help_heading = "Packets")]
    queue: usize,
    /// Hide the sources from the clients, by replacing SSRCs, sequence numbers and timestamps
    #[arg(long, help_heading = "Packets")]
    rewrite: bool,
    /// Pass RTCP reports on: mux (on the ports of the packets), own (each on the port after that of
    /// the packets, so that the ports of the packets are two apart), or off (not at all)
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "mux",
        help_heading = "Packets"
    )]
    rtcp: Rtcp,
    /// Mark sent packets with this DSCP service class, 0 to 63. For example, 46 is expedited
    /// forwarding
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u8).range(0..64), help_heading = "Network")]
    dscp: Option<u8>,
    /// Send on this network interface, and join multicast groups on it
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    interface: Option<String>,
    /// Share the ports among N threads (contexts)
    #[arg(long, alias = "groups", value_name = "N", default_value_t = 1, value_parser = count, help_heading = "Contexts")]
    contexts: usize,
    /// Save CPU time by handling packets and timers at most once per TIME in each context. They are
    /// then up to TIME late. 0ms means at once
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = parse_duration, help_heading = "Contexts")]
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

/// A row of the report: one client of one port.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    port: u16,
    packets: u64,
    rtcp: u64,
    refused: u64,
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    client: Option<SocketAddr>,
    sent: u64,
    dropped: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Rows {
    #[serde(flatten)]
    body: Body,
    packets: u64,
    rtcp: u64,
    overflowed: Option<u64>,
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
                eprintln!("creel-cast: accepting commands on {bound}");
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

/// Returns the figures in Prometheus' exposition format.
fn prometheus(reports: &[PortReport]) -> String {
    let mut text = String::from(
        "# HELP creel_cast_relay_packets_total Packets received.\n\
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
        ("sent", "Packets sent to a client.", |client| client.sent),
        (
            "dropped",
            "Packets dropped for a client because the queue of the port was full.",
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

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema(
            "creel-cast-relay",
            schemars::schema_for!(creel_console::Document<Rows>),
        );
    }
}
