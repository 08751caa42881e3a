//! `creel-cast receive`: streams from UDP, counted, measured, and written to files.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use creel_cast::framing::Framing;
use creel_cast::receive::{self, Plan};
use creel_console::{Common, Exit, Interrupt};

use super::{Contexts, count, failed, period, report};

/// Receive streams from UDP, and tell what was lost, late or out of order
#[derive(Args, Debug)]
pub struct Receive {
    #[command(flatten)]
    contexts: Contexts,
    /// Stream n comes to port + n of this address
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:5004")]
    on: SocketAddr,
    /// All streams come to the same port
    #[arg(long)]
    shared_port: bool,
    /// End after so many buffers of each stream
    #[arg(long, value_name = "N", value_parser = count)]
    buffers: Option<usize>,
    /// End when nothing has come for so long, once something has
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = period)]
    idle: Duration,
    /// End after so long in any case
    #[arg(long, value_name = "TIME", value_parser = period)]
    r#for: Option<Duration>,
    /// A datagram: raw (samples only) or rtp
    #[arg(long, value_name = "FRAMING", default_value_t)]
    framing: Framing,
    /// Write each stream to stream-N.wav in this folder
    #[arg(long, value_name = "DIR")]
    wav: Option<PathBuf>,
}

impl Receive {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install()?;
        let plan = Plan {
            streams: self.contexts.streams,
            on: self.on,
            shared_port: self.shared_port,
            groups: self.contexts.groups,
            wait: self.contexts.wait,
            framing: self.framing,
            buffers: self.buffers.map(|buffers| buffers as u64),
            idle: self.idle,
            at_most: self.r#for,
            wav: self.wav.clone(),
        };
        let measured = receive::run(&plan, &|| interrupt.requested()).map_err(failed)?;
        let came = measured
            .streams
            .iter()
            .any(|stream| stream.latency.count() > 0);
        if came && measured.buffers == 0 && !common.quiet {
            eprintln!("creel-cast: it ended in the first second, which CPU and parked leave out");
        }
        report::print(&measured, common)
    }
}
