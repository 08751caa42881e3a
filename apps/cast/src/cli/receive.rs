//! `creel-cast receive`: streams from UDP, TCP or a capture, counted, measured, and written to
//! files.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use creel_cast::RtpSession;
use creel_cast::receive::{self, Plan};
use creel_console::{Common, Exit, Interrupt};

use super::media::{Media, source};
use super::rows::RowsFormat;
use super::{ObserveArgs, count, exit_code, exit_error, period, report, time};

const EXAMPLES: &str = "\
Examples:
  creel-cast receive --on 0.0.0.0:5004 --shared-port --streams-format text
          whatever comes to one port, a row a source
  creel-cast receive --from-sdp session.sdp --rtcp mux --wav heard
          the streams of a session description, written to heard/stream-N.wav
  creel-cast receive --on 239.1.2.3:5004 --interface eth0 --codec 97=L24/48000/2
          a multicast group
  creel-cast receive --pcap capture.pcapng --streams-format csv
          a capture, analysed";

/// Receive streams, and report lost, late, reordered and duplicate packets
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Receive {
    /// Streams that are expected: so many ports, unless they share one [default: 500]
    #[arg(long, value_name = "N", value_parser = count)]
    streams: Option<usize>,
    /// Contexts: threads that share the streams
    #[arg(long, alias = "groups", value_name = "N", default_value_t = 1, value_parser = count)]
    contexts: usize,
    /// How long a context waits before it reacts again; 0ms: as soon as it can
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = time)]
    wait: Duration,
    #[command(flatten)]
    observe_args: ObserveArgs,
    /// A packet is late that comes so long, and a wait, after its time: what a player's buffer holds
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = time)]
    late_after: Duration,
    /// Stream n comes to port + n of this address; a multicast group's is joined
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:5004", conflicts_with_all = ["from_sdp", "pcap"])]
    on: SocketAddr,
    /// Hear only this source of a multicast group
    #[arg(long, value_name = "IP", value_parser = source)]
    source: Option<IpAddr>,
    /// All streams come to the same port
    #[arg(long)]
    shared_port: bool,
    /// Packets come over TCP, each after its length; any number of connections a port
    #[arg(long)]
    tcp: bool,
    /// Analyse this capture instead of what comes
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write all that comes into this capture
    #[arg(long, value_name = "FILE", conflicts_with = "pcap")]
    write_pcap: Option<PathBuf>,
    #[command(flatten)]
    media: Media,
    /// Datagrams are bare samples of --codec, little-endian, or RTP: raw, rtp
    #[arg(long, value_name = "FRAMING", default_value = "rtp", value_parser = framing)]
    framing: bool,
    /// End after so many packets of each stream
    #[arg(long, value_name = "N", value_parser = count)]
    buffers: Option<usize>,
    /// End when nothing has come for so long, once something has
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = period)]
    idle: Duration,
    /// End after so long in any case
    #[arg(long, value_name = "TIME", value_parser = period)]
    r#for: Option<Duration>,
    /// Write each stream to stream-N.wav in this folder
    #[arg(long, value_name = "DIR")]
    wav: Option<PathBuf>,
    /// Print a row a stream; the totals go to stderr then, unless --format asks for more than text
    #[arg(long, value_name = "FORMAT")]
    streams_format: Option<RowsFormat>,
}

/// Whether datagrams are bare samples.
pub fn framing(text: &str) -> Result<bool, String> {
    match text {
        "raw" => Ok(true),
        "rtp" => Ok(false),
        _ => Err(format!(
            "`{text}` is not raw or rtp; use --codec N=NAME/CLOCK to describe a payload type"
        )),
    }
}

impl Receive {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install()?;
        let plan = self.plan()?;
        let measured = match &self.pcap {
            Some(capture) => receive::analyse(&plan, capture),
            None => receive::run(&plan, &|| interrupt.requested()),
        };
        let measured = measured.map_err(exit_error)?;
        if !measured.sources.is_empty() && measured.buffers == 0 && !common.quiet {
            eprintln!("creel-cast: it ended in the first second, which CPU and parked leave out");
        }
        let exit = report::print(&measured, common, self.streams_format)?;
        Ok(exit_code(&interrupt, exit))
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let (sessions, described) = match self.media.described()? {
            Some(sessions) => (sessions, true),
            None => (self.sessions()?, false),
        };
        let streams = match described {
            true => self.streams.or(Some(sessions.len())),
            false => self.streams,
        };
        Ok(Plan {
            streams,
            raw: self.framing,
            contexts: self.contexts,
            wait: self.wait,
            observe: self.observe_args.observe.unwrap_or_default(),
            late_after: self.late_after,
            buffers: self.buffers.map(|buffers| buffers as u64),
            idle: self.idle,
            time_limit: self.r#for,
            wav: self.wav.clone(),
            capture: self.write_pcap.clone(),
            options: self.media.options(),
            ..Plan::new(sessions)
        })
    }

    fn sessions(&self) -> anyhow::Result<Vec<RtpSession>> {
        let ports = match (self.shared_port, self.streams) {
            (true, _) => 1,
            (false, Some(streams)) => streams,
            // Any number of connections to one port.
            (false, None) if self.tcp => 1,
            (false, None) => 500,
        };
        let sessions = Plan::sessions(self.on, ports, &self.media.formats(), self.media.rtcp);
        let mut sessions = sessions.map_err(exit_error)?;
        for session in &mut sessions {
            session.source = self.source;
            session.tcp = self.tcp;
        }
        Ok(sessions)
    }
}
