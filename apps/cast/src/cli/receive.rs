//! `creel-cast receive`: receives streams from UDP, TCP or a capture, measures them, and writes
//! them to files.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use creel_cast::receive::{self, Live, Plan};
use creel_cast::{RtpSession, Senders};
use creel_console::{Common, Exit, Interrupt};

use super::live::{End, LiveView};
use super::media::{Media, source};
use super::rows::RowsFormat;
use super::{Framing, ObserveArgs, count, exit_code, exit_error, parse_duration, period, report};

const EXAMPLES: &str = "\
Examples:
  creel-cast receive --on 0.0.0.0:5004 --shared-port --streams-format text
          receive everything that arrives on one port, and print one row per source
  creel-cast receive --from-sdp session.sdp --rtcp mux --wav heard
          write the streams of a session description to heard/stream-N.wav
  creel-cast receive --on 239.1.2.3:5004 --interface eth0 --codec 97=L24/48000/2
          join a multicast group
  creel-cast receive --on 0.0.0.0:5004 --shared-port --live --idle 1h
          watch all streams that arrive on one port
  creel-cast receive --pcap capture.pcapng --streams-format csv
          analyse a capture";

/// The flags that need a socket, which the analysis of a capture does not have.
const NOT_FOR_CAPTURES: [&str; 6] = ["live", "on", "rtcp_xr", "source", "tcp", "write_pcap"];

/// Receive streams, and report lost, late, reordered and duplicate packets
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Receive {
    /// Receive stream n on port + n of this address. If it is a multicast group, join it
    #[arg(
        long,
        value_name = "IP:PORT",
        default_value = "127.0.0.1:5004",
        conflicts_with = "from_sdp",
        help_heading = "Input"
    )]
    on: SocketAddr,
    /// Expect N streams, each on a port of its own unless --shared-port is given [default: 500]
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Input")]
    streams: Option<usize>,
    /// Receive all streams on the same port
    #[arg(long, help_heading = "Input")]
    shared_port: bool,
    /// Accept only this sender of a multicast group
    #[arg(long, value_name = "IP", value_parser = source, help_heading = "Input")]
    source: Option<IpAddr>,
    /// Accept any number of TCP connections per port. Each packet follows two bytes with its length
    /// (RFC 4571)
    #[arg(long, help_heading = "Input")]
    tcp: bool,
    /// Analyse this capture instead of receiving from the network: pcap or pcapng, also compressed
    /// with gzip. `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_FOR_CAPTURES, help_heading = "Input")]
    pcap: Option<PathBuf>,
    /// Read datagrams as RTP packets, or as bare samples of --codec, little-endian (raw)
    #[arg(
        long,
        value_enum,
        value_name = "FRAMING",
        default_value = "rtp",
        help_heading = "Formats"
    )]
    framing: Framing,
    #[command(flatten)]
    media: Media,
    /// Add the quality of voice streams to the reports (RTCP XR, RFC 3611), and measure the
    /// round-trip time to senders that answer
    #[arg(long, help_heading = "Network")]
    rtcp_xr: bool,
    /// Share the streams among N threads (contexts)
    #[arg(long, alias = "groups", value_name = "N", default_value_t = 1, value_parser = count, help_heading = "Contexts")]
    contexts: usize,
    /// Save CPU time by handling packets and timers at most once per TIME in each context. 0ms
    /// means at once. The figures use the kernel's time of arrival, so a longer wait only delays
    /// recordings and reports
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = parse_duration, help_heading = "Contexts")]
    wait: Duration,
    #[command(flatten, next_help_heading = "Contexts")]
    observe_args: ObserveArgs,
    /// Stop after N packets of each stream
    #[arg(long, value_name = "N", value_parser = count, help_heading = "End of the run")]
    buffers: Option<usize>,
    /// Stop when no packet has arrived for TIME, counted from the first packet on
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = period, help_heading = "End of the run")]
    idle: Duration,
    /// Stop after TIME, even if packets still arrive
    #[arg(long, value_name = "TIME", value_parser = period, help_heading = "End of the run")]
    r#for: Option<Duration>,
    /// Count a packet as late if it arrives more than TIME after it was due. Use the length of your
    /// player's buffer
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_duration, help_heading = "Output")]
    late_after: Duration,
    /// Write each stream to stream-N.wav in this folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    wav: Option<PathBuf>,
    /// Write all packets that arrive to this capture file, in the format pcap
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    write_pcap: Option<PathBuf>,
    /// Show one row per stream while they arrive, sorted by a column that you choose with the arrow
    /// keys. `q` ends the run
    #[arg(long, help_heading = "Output")]
    live: bool,
    /// Print one row per stream. The totals then go to stderr, unless --format is json or csv
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    streams_format: Option<RowsFormat>,
}

impl Receive {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install()?;
        let mut plan = self.plan()?;
        let mut ended = None;
        let measured = match &self.pcap {
            Some(capture) => receive::analyse(&plan, capture),
            None if self.live => {
                let live = plan.live.insert(Live::default()).clone();
                let receiver = receive::Receiver::open(&plan).map_err(exit_error)?;
                let view = LiveView::enter(live)?;
                let measured = receiver.run(&|| view.update() || interrupt.requested());
                ended = view.leave();
                Ok(measured)
            }
            None => receive::run(&plan, &|| interrupt.requested()),
        };
        let measured = measured.map_err(exit_error)?;
        if !measured.sources.is_empty() && measured.buffers == 0 && !common.quiet {
            eprintln!(
                "creel-cast: the run ended within its first second, so the figures for CPU and \
                 parked mean nothing: they leave out the first second"
            );
        }
        let exit = report::print(&measured, common, self.streams_format)?;
        match ended {
            Some(End::Interrupted) => Ok(Exit::Interrupted),
            _ => Ok(exit_code(&interrupt, exit)),
        }
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let (sessions, described) = match self.media.described()? {
            Some(sessions) => (RtpSession::combined(sessions), true),
            None => (self.sessions()?, false),
        };
        let streams = match described {
            true => self.streams.or(Some(sessions.len())),
            false => self.streams,
        };
        Ok(Plan {
            packet_time_is_known: described,
            streams,
            raw: self.framing == Framing::Raw,
            contexts: self.contexts,
            wait: self.wait,
            observe: self.observe_args.observe.unwrap_or_default(),
            late_after: self.late_after,
            buffers: self.buffers.map(|buffers| buffers as u64),
            idle: self.idle,
            time_limit: self.r#for,
            wav: self.wav.clone(),
            capture: self.write_pcap.clone(),
            extended_reports: self.rtcp_xr,
            options: self.media.options(),
            ..Plan::new(sessions)
        })
    }

    fn sessions(&self) -> anyhow::Result<Vec<RtpSession>> {
        let ports = match (self.shared_port, self.streams) {
            (true, _) => 1,
            (false, Some(streams)) => streams,
            // With TCP, one port accepts any number of connections.
            (false, None) if self.tcp => 1,
            (false, None) => 500,
        };
        let sessions = Plan::sessions(self.on, ports, &self.media.formats(), self.media.rtcp);
        let mut sessions = sessions.map_err(exit_error)?;
        for session in &mut sessions {
            if let Some(source) = self.source {
                session.sources = Senders::Only(vec![source]);
            }
            session.tcp = self.tcp;
        }
        Ok(sessions)
    }
}
