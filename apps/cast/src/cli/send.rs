//! `creel-cast send`: streams to clients over UDP.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use creel_cast::audience::Audience;
use creel_cast::audio::RATE;
use creel_cast::framing::Framing;
use creel_cast::rtp;
use creel_cast::send::{self, Plan, Program};
use creel_cast::tone::Shape;
use creel_cast::wav::Sound;
use creel_console::{Common, Exit, Failure, Interrupt, output};

use super::{Contexts, count, failed, report, time};

/// Send streams to clients over UDP: 10 ms a packet, mono S16 at 44,100 Hz
#[derive(Args, Debug)]
pub struct Send {
    #[command(flatten)]
    contexts: Contexts,
    /// Clients; stream n goes to port + n of each
    #[arg(long, required_unless_present = "control", num_args = 1.., value_name = "HOST:PORT")]
    to: Vec<String>,
    /// All streams go to the same port
    #[arg(long)]
    shared_port: bool,
    /// Buffers of each stream, after the ramp-up
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count)]
    buffers: usize,
    /// What is left out of the figures at the begin
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    ramp_up: Duration,
    /// A datagram: raw (samples only), rtp (payload type 11), rtp:N (N from 96 to 127)
    #[arg(long, value_name = "FRAMING", default_value_t)]
    framing: Framing,
    /// The test signal: sine, square, saw, triangle, noise, silence
    #[arg(long, value_name = "SHAPE", default_value_t)]
    tone: Shape,
    /// Its frequency; each stream's is a hertz above the one before
    #[arg(long, value_name = "HZ", default_value_t = 440.0)]
    hertz: f64,
    /// Sound to loop instead, mono or mixed to mono, 44,100 Hz
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tone", "hertz"])]
    wav: Option<PathBuf>,
    /// Forward what comes over UDP instead, framed as --framing says; stream n from port + n
    #[arg(long, value_name = "IP:PORT", conflicts_with_all = ["tone", "hertz", "wav"])]
    udp: Option<SocketAddr>,
    /// Forward the samples that this address gives over TCP, a connection a stream, instead
    #[arg(long, value_name = "IP:PORT", conflicts_with_all = ["tone", "hertz", "wav", "udp"])]
    tcp: Option<SocketAddr>,
    /// Take commands from stdin, one a line: list, add HOST:PORT, remove HOST:PORT, clear
    #[arg(long)]
    control: bool,
    /// Print the session description of stream 0 for a player, and send nothing
    #[arg(long)]
    sdp: bool,
}

impl Send {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let plan = Plan {
            streams: self.contexts.streams,
            to: self.clients()?,
            shared_port: self.shared_port,
            groups: self.contexts.groups,
            wait: self.contexts.wait,
            buffers: self.buffers as u64,
            ramp_up: self.ramp_up,
            framing: self.framing,
            program: self.program()?,
        };
        if self.sdp {
            return self.print_sdp(&plan);
        }
        let interrupt = Interrupt::install()?;
        let audience = Arc::new(plan.audience().map_err(failed)?);
        if self.control {
            let audience = Arc::clone(&audience);
            // It ends with the process: a read of stdin cannot be given up.
            std::thread::spawn(move || obey(&audience));
        }
        let stop = || interrupt.requested();
        let measured = send::run_with(&plan, &audience, &stop).map_err(failed)?;
        let exit = report::print(&measured, common)?;
        Ok(if interrupt.requested() {
            Exit::Interrupted
        } else {
            exit
        })
    }

    fn clients(&self) -> anyhow::Result<Vec<SocketAddr>> {
        let resolve = |client: &String| {
            let wrong = |why: String| Failure::new(Exit::Usage, format!("--to {client}: {why}"));
            let mut found = client.to_socket_addrs().map_err(|e| wrong(e.to_string()))?;
            let found = found.next();
            Ok(found.ok_or_else(|| wrong("no such host".into()))?)
        };
        self.to.iter().map(resolve).collect()
    }

    fn program(&self) -> anyhow::Result<Program> {
        if let Some(from) = self.udp {
            return Ok(Program::Udp(from));
        }
        if let Some(from) = self.tcp {
            return Ok(Program::Tcp(from));
        }
        let Some(path) = &self.wav else {
            return Ok(Program::Tone(self.tone, self.hertz));
        };
        let sound = Sound::read(path).map_err(|error| failed(error.into()))?;
        if sound.rate != RATE {
            let (path, rate) = (path.display(), sound.rate);
            let text = format!("{path}: {rate} samples a second, not {RATE}");
            return Err(Failure::new(Exit::BadData, text).into());
        }
        Ok(Program::Sound(Arc::new(sound)))
    }

    fn print_sdp(&self, plan: &Plan) -> anyhow::Result<Exit> {
        let Framing::Rtp(payload_type) = self.framing else {
            let text = "--sdp: raw framing has no session description";
            return Err(Failure::new(Exit::Usage, text).into());
        };
        for &client in &plan.to {
            output::text(&rtp::sdp(client, payload_type, RATE))?;
        }
        Ok(Exit::Done)
    }
}

/// Does what the lines of stdin say, and answers on stderr: stdout is for the figures.
fn obey(audience: &Audience) {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match line.parse() {
            Ok(command) => eprintln!("{}", audience.obey(command)),
            Err(why) => creel_console::report("creel-cast", &anyhow::anyhow!(why)),
        }
    }
}
