//! `creel-cast send`: streams to clients over UDP or TCP.

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
use super::receive::framing;
use super::rows::RowsFormat;
use super::{ContextArgs, count, exit_code, exit_error, period, report, time};

const EXAMPLES: &str = "\
Examples:
  creel-cast send --streams 100 --to 127.0.0.1:5004 --buffers 500
          a hundred tones, 10 ms of L16 a packet
  creel-cast send --to [::1]:5004 --codec PCMA --packet-time 20ms --rtcp mux --streams 1
          A-law with reports
  creel-cast send --to 127.0.0.1:5004 --streams 2 --codec 96=opus/48000/2 --sdp > session.sdp
          what a player needs to hear them
  creel-cast send --pcap capture.pcap --to 127.0.0.1:5004
          a capture, at its own pace";

/// Send streams to clients
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Send {
    #[command(flatten)]
    contexts: ContextArgs,
    /// Clients; stream n goes to port + n of each
    #[arg(long, required_unless_present_any = ["control", "from_sdp"], num_args = 1.., value_name = "HOST:PORT")]
    to: Vec<String>,
    /// All streams go to the same port
    #[arg(long)]
    shared_port: bool,
    /// Over TCP, each packet after its length
    #[arg(long, conflicts_with_all = ["control", "pcap"])]
    over_tcp: bool,
    #[command(flatten)]
    media: Media,
    /// How long a packet lasts; 10ms unless a description says otherwise
    #[arg(long, value_name = "TIME", value_parser = period)]
    packet_time: Option<Duration>,
    /// Packets of each stream, after the ramp-up
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count)]
    buffers: usize,
    /// What is left out of the figures at the beginning
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    ramp_up: Duration,
    /// Datagrams are bare samples, little-endian, or RTP: raw, rtp
    #[arg(long, value_name = "FRAMING", default_value = "rtp", value_parser = framing)]
    framing: bool,
    /// The first stream's source; the others' follow. Random otherwise
    #[arg(long, value_name = "N", value_parser = number)]
    ssrc: Option<u32>,
    /// The number of the first packets. Random otherwise
    #[arg(long, value_name = "N")]
    sequence: Option<u16>,
    /// The timestamp of the first packets. Random otherwise
    #[arg(long, value_name = "N")]
    timestamp: Option<u32>,
    /// Of what is random
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The test signal: sine, square, saw, triangle, noise, silence
    #[arg(long, value_name = "SHAPE", default_value_t)]
    tone: Shape,
    /// Its frequency; each stream's is a hertz above the one before
    #[arg(long, value_name = "HZ", default_value_t = 440.0)]
    hertz: f64,
    /// Sound to loop instead, of the formats' rate
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tone", "hertz"])]
    wav: Option<PathBuf>,
    /// Forward the samples that this address gives over TCP, a connection a stream, instead
    #[arg(long, value_name = "IP:PORT", conflicts_with_all = ["tone", "hertz", "wav"])]
    tcp: Option<SocketAddr>,
    /// Send this capture again instead, at its own pace; its nth port's packets to port + n
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tone", "hertz", "wav", "tcp", "from_sdp", "control"])]
    pcap: Option<PathBuf>,
    /// Keys that each stream presses at its begin: 0 to 9, *, #, A to D; of payload type 101, or
    /// that of a telephone-event among the formats
    #[arg(long, value_name = "KEYS", value_parser = keys)]
    keys: Option<String>,
    /// Take commands from stdin, one a line: list, add HOST:PORT, remove HOST:PORT, clear
    #[arg(long)]
    control: bool,
    /// Print the session description of all streams for each client, and send nothing
    #[arg(long)]
    sdp: bool,
    /// Print a row a stream, with what receivers reported; the totals go to stderr then, unless
    /// --format asks for more than text
    #[arg(long, value_name = "FORMAT")]
    streams_format: Option<RowsFormat>,
}

/// A number, decimal or after 0x.
fn number(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| format!("`{text}` is no number of 32 bits"))
}

fn keys(text: &str) -> Result<String, String> {
    let is_key = |key: char| key.is_ascii_digit() || "*#ABCDabcd".contains(key);
    match text.chars().all(is_key) && text.len() <= 64 {
        true => Ok(text.into()),
        false => Err("up to 64 of 0 to 9, *, #, A to D".into()),
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
                // It ends with the process: a read of stdin cannot be given up.
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
            wait: self.contexts.wait,
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
        plan.wait = self.contexts.wait;
        plan.observe = self.contexts.observe_args.observe.unwrap_or_default();
        plan.buffers = self.buffers as u64;
        plan.ramp_up = self.ramp_up;
        plan.raw = self.framing;
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
                        format!("{first}: stream {stream} has no port above it; use --shared-port"),
                    )
                })?;
                session.address.set_port(port);
            }
        }
        Ok(())
    }

    /// The payload type of keys.
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
        if self.framing {
            let text = "--sdp: raw framing has no session description";
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

/// Does what the lines of stdin say, and answers on stderr: stdout is for the figures.
fn execute_commands(registry: &ClientRegistry) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.parse() {
            Ok(command) => eprintln!("{}", registry.execute(command)),
            Err(why) => creel_console::report("creel-cast", &anyhow::anyhow!(why)),
        }
    }
}
