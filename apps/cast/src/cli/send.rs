//! `creel-cast send`: sends streams to clients over UDP or TCP.

use std::io::BufRead;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use creel_cast::send::{self, Content, Plan, Replay};
use creel_cast::{ClientRegistry, Rtcp, RtpSession, Shape, Sound};
use creel_console::{Common, Exit, Failure, Interrupt, output};

use super::media::{Media, resolve};
use super::rows::RowsFormat;
use super::{
    ContextArgs, Framing, count, exit_code, exit_error, packet_time, parse_duration, report,
};

const EXAMPLES: &str = "\
Examples:
  creel-cast send --streams 100 --to 127.0.0.1:5004 --buffers 500
          send a hundred tones, with 10 ms of L16 in each packet
  creel-cast send --to [::1]:5004 --codec PCMA --packet-time 20ms --rtcp mux --streams 1
          send A-law, and exchange RTCP reports
  creel-cast send --to 127.0.0.1:5004 --streams 2 --codec 96=opus/48000/2 --sdp > session.sdp
          print the session description that a player needs
  creel-cast send --pcap capture.pcap --to 127.0.0.1:5004
          replay a capture at its own pace";

/// The flags that would change what is sent. A replay sends the packets of the capture as they are.
const NOT_FOR_REPLAYS: [&str; 13] = [
    "control",
    "framing",
    "from_sdp",
    "hertz",
    "keys",
    "packet_time",
    "sdp",
    "sequence",
    "ssrc",
    "tcp",
    "timestamp",
    "tone",
    "wav",
];

/// Send streams to clients
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Send {
    /// Send to these clients. Stream n goes to port + n of each client
    #[arg(long, required_unless_present_any = ["control", "from_sdp"], num_args = 1.., value_name = "HOST:PORT", help_heading = "Clients")]
    to: Vec<String>,
    /// Send all streams to the same port
    #[arg(long, help_heading = "Clients")]
    shared_port: bool,
    /// Send over TCP. Each packet follows two bytes with its length (RFC 4571)
    #[arg(long, conflicts_with_all = ["control", "pcap"], help_heading = "Clients")]
    over_tcp: bool,
    /// Read commands from stdin, one per line: list, add HOST:PORT, remove HOST:PORT, clear
    #[arg(long, help_heading = "Clients")]
    control: bool,
    /// Send this test signal: sine, square, saw, triangle, noise, silence
    #[arg(long, value_name = "SHAPE", default_value_t, help_heading = "Content")]
    tone: Shape,
    /// Send a test signal of HZ hertz. Each further stream is one hertz higher
    #[arg(
        long,
        value_name = "HZ",
        default_value_t = 440.0,
        help_heading = "Content"
    )]
    hertz: f64,
    /// Loop this WAV file instead of a test signal. Its rate must be that of the format
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tone", "hertz"], help_heading = "Content")]
    wav: Option<PathBuf>,
    /// Read samples from this TCP address instead of sending a test signal, with one connection per
    /// stream
    #[arg(long, value_name = "IP:PORT", conflicts_with_all = ["tone", "hertz", "wav"], help_heading = "Content")]
    tcp: Option<SocketAddr>,
    /// Replay this capture (pcap or pcapng) instead of sending a test signal, with its original
    /// timing. The packets of the nth port of the capture go to port + n
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_FOR_REPLAYS, help_heading = "Content")]
    pcap: Option<PathBuf>,
    /// Press these telephone keys at the beginning of each stream: 0 to 9, *, #, A to D, and !
    /// (hook flash). Their payload type is the one that --codec or --from-sdp defines for
    /// telephone-event, or otherwise 101
    #[arg(long, value_name = "KEYS", value_parser = keys, help_heading = "Content")]
    keys: Option<String>,
    #[command(flatten)]
    media: Media,
    /// Put TIME of sound into each packet [default: that of the session description, or 10ms]
    #[arg(long, value_name = "TIME", value_parser = packet_time, help_heading = "Formats")]
    packet_time: Option<Duration>,
    /// Send RTP packets (rtp), or datagrams of bare little-endian samples (raw)
    #[arg(
        long,
        value_enum,
        value_name = "FRAMING",
        default_value = "rtp",
        help_heading = "Formats"
    )]
    framing: Framing,
    /// Use N as the SSRC of the first stream. The other streams count up from it [default: random]
    #[arg(long, value_name = "N", value_parser = number, help_heading = "Formats")]
    ssrc: Option<u32>,
    /// Start each stream at sequence number N [default: random]
    #[arg(long, value_name = "N", help_heading = "Formats")]
    sequence: Option<u16>,
    /// Start each stream at timestamp N [default: random]
    #[arg(long, value_name = "N", help_heading = "Formats")]
    timestamp: Option<u32>,
    /// Seed the random numbers with N, so that you can repeat a run [default: random]
    #[arg(long, value_name = "N", help_heading = "Formats")]
    seed: Option<u64>,
    #[command(flatten)]
    contexts: ContextArgs,
    /// Stop each stream after N packets, not counting those of the ramp-up
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count, help_heading = "Streams and contexts")]
    buffers: usize,
    /// Leave the first TIME of the run out of the figures
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration, help_heading = "Streams and contexts")]
    ramp_up: Duration,
    /// Print the session description of all streams for each client, and send nothing. With --pcap,
    /// this has no effect
    #[arg(long, help_heading = "Output")]
    sdp: bool,
    /// Print one row per stream, with what receivers reported. The totals then go to stderr, unless
    /// --format is json or csv
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    streams_format: Option<RowsFormat>,
}

/// Parses a 32-bit number, either decimal or hexadecimal after `0x`.
fn number(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| format!("`{text}` is not a number from 0 to 4294967295 (0xffffffff)"))
}

/// Parses the keys of a telephone.
fn keys(text: &str) -> Result<String, String> {
    let is_key = |key: char| key.is_ascii_digit() || "*#ABCDabcd!".contains(key);
    match text.chars().all(is_key) && text.len() <= 64 {
        true => Ok(text.into()),
        false => Err("expected up to 64 keys, each of them 0 to 9, *, #, or A to D".into()),
    }
}

impl Send {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install()?;
        let stop = || interrupt.requested();
        let measured = if let Some(capture) = &self.pcap {
            send::replay(&self.replay(capture)?, &stop).map_err(exit_error)?
        } else {
            let plan = self.plan()?;
            if self.sdp {
                return self.print_sdp(&plan);
            }
            let registry = Arc::new(plan.client_registry().map_err(exit_error)?);
            if self.control {
                let registry = Arc::clone(&registry);
                // This thread ends with the process, because a read of stdin cannot be cancelled.
                std::thread::spawn(move || execute_commands(&registry));
            }
            send::run_with(&plan, &registry, &stop).map_err(exit_error)?
        };
        let exit = report::print(&measured, common, self.streams_format)?;
        Ok(exit_code(&interrupt, exit))
    }

    fn clients(&self) -> anyhow::Result<Vec<SocketAddr>> {
        self.to
            .iter()
            .map(|client| resolve("--to", client))
            .collect()
    }

    fn replay(&self, capture: &std::path::Path) -> anyhow::Result<Replay> {
        Ok(Replay {
            capture: capture.into(),
            to: self.clients()?,
            shared_port: self.shared_port,
            wait: self.contexts.wait(None),
            observe: self.contexts.observe_args.observe.unwrap_or_default(),
            options: self.media.options(),
        })
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let described = self.media.described()?;
        let is_described = described.is_some();
        let to = self.clients()?;
        let first = to
            .first()
            .copied()
            .unwrap_or(SocketAddr::from(([127, 0, 0, 1], 5004)));
        let mut plan = Plan::new(first, self.contexts.streams);
        if let Some(sessions) = described {
            plan.sessions = sessions;
        } else {
            self.flags(&mut plan.sessions)?;
        }
        if let Some(time) = self.packet_time {
            plan.sessions
                .iter_mut()
                .for_each(|session| session.packet_time = time);
        }
        plan.described = is_described;
        plan.to = to;
        plan.shared_port = self.shared_port;
        plan.contexts = self.contexts.contexts;
        let shortest = plan
            .sessions
            .iter()
            .map(|session| session.packet_time)
            .min();
        plan.wait = self.contexts.wait(shortest);
        plan.observe = self.contexts.observe_args.observe.unwrap_or_default();
        plan.buffers = self.buffers as u64;
        plan.ramp_up = self.ramp_up;
        plan.raw = self.framing == Framing::Raw;
        plan.content = self.content()?;
        (plan.ssrc, plan.sequence) = (self.ssrc, self.sequence);
        (plan.timestamp, plan.seed) = (self.timestamp, self.seed);
        plan.keys = self
            .keys
            .clone()
            .map(|keys| (self.key_type(&plan.sessions), keys));
        plan.options = self.media.options();
        if plan.options.ttl.is_none() {
            plan.options.ttl = plan.sessions.first().and_then(|session| session.ttl);
        }
        Ok(plan)
    }

    fn flags(&self, sessions: &mut [RtpSession]) -> anyhow::Result<()> {
        let Some(&first) = self.clients()?.first() else {
            return Ok(());
        };
        for (stream, session) in sessions.iter_mut().enumerate() {
            if self.media.preferred().is_some() {
                session.formats = self.media.formats();
            }
            session.rtcp = self.media.rtcp;
            session.tcp = self.over_tcp;
            if self.over_tcp && !self.shared_port {
                let step = if self.media.rtcp == Rtcp::Own { 2 } else { 1 };
                let port = usize::from(first.port()) + stream * step;
                let port = u16::try_from(port).map_err(|_| {
                    Failure::new(
                        Exit::Usage,
                        format!("cannot give stream {stream} a port of its own above {first}: use a lower port or --shared-port"),
                    )
                })?;
                session.address.set_port(port);
            }
        }
        Ok(())
    }

    /// Returns the payload type of telephone keys.
    fn key_type(&self, sessions: &[RtpSession]) -> u8 {
        let named = sessions.iter().flat_map(|session| session.formats.named());
        let mut events = named.filter(|(_, format)| format.encoding == creel_cast::Encoding::Event);
        events.next().map_or(101, |&(number, _)| number)
    }

    fn content(&self) -> anyhow::Result<Content> {
        if let Some(from) = self.tcp {
            return Ok(Content::Tcp(from));
        }
        let Some(path) = &self.wav else {
            return Ok(Content::Tone(self.tone, self.hertz));
        };
        let sound = Sound::read(path).map_err(|error| exit_error(error.into()))?;
        Ok(Content::Sound(Arc::new(sound)))
    }

    fn print_sdp(&self, plan: &Plan) -> anyhow::Result<Exit> {
        if self.framing == Framing::Raw {
            let text = "cannot print a session description for --framing raw, because only RTP has \
                        one: remove --sdp or --framing raw";
            return Err(Failure::new(Exit::Usage, text).into());
        }
        if plan.to.is_empty() {
            let sessions: Vec<RtpSession> = plan.sessions.iter().map(|s| plan.as_sent(s)).collect();
            output::text(&RtpSession::describe(&sessions))?;
        }
        for &client in &plan.to {
            let sessions = plan.described_to(client).map_err(exit_error)?;
            output::text(&RtpSession::describe(&sessions))?;
        }
        Ok(Exit::Done)
    }
}

/// Executes the commands on stdin. It answers on stderr, because stdout is for the figures.
fn execute_commands(registry: &ClientRegistry) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.parse() {
            Ok(command) => eprintln!("{}", registry.execute(command)),
            Err(why) => creel_console::report("creel-cast", &anyhow::anyhow!(why)),
        }
    }
}
