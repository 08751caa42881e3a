//! `creel-cast standalone`: runs sources and sinks without a network.

use std::time::Duration;

use clap::Args;
use creel_cast::standalone::{self, Plan};
use creel_cast::stream::SinkMode;
use creel_console::{Common, Exit, Interrupt};

use super::{ContextArgs, count, exit_error, parse_duration, period, report};

const EXAMPLES: &str = "\
Examples:
  creel-cast standalone --streams 4000 --wait 20ms
          run 4,000 streams on one thread
  creel-cast standalone --streams 1000 --contexts 2 --sink slot --format json
          run 1,000 streams on two threads, with a task per sink, and print JSON";

/// Run sources and sinks without a network, and measure every stream
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Standalone {
    /// Produce a buffer of each stream every TIME
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = period, help_heading = "Buffers")]
    period: Duration,
    /// Measure N buffers of each stream
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = count, help_heading = "Buffers")]
    buffers: usize,
    /// Put N samples into each buffer
    #[arg(long, value_name = "N", default_value_t = 80, value_parser = count, help_heading = "Buffers")]
    samples: usize,
    /// Choose how buffers reach the sinks: sync-mutex (a call under a mutex), async-mutex (a call
    /// under an asynchronous mutex), task (a channel to a task per sink), slot (as task but with
    /// room for one buffer)
    #[arg(long, value_name = "MODE", default_value_t, help_heading = "Buffers")]
    sink: SinkMode,
    /// Leave the first TIME of the run out of the figures
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration, help_heading = "Buffers")]
    ramp_up: Duration,
    #[command(flatten)]
    contexts: ContextArgs,
}

impl Standalone {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install()?;
        let plan = Plan {
            streams: self.contexts.streams,
            contexts: self.contexts.contexts,
            wait: self.contexts.wait(None),
            observe: self.contexts.observe_args.observe.unwrap_or_default(),
            period: self.period,
            buffers: self.buffers as u64,
            mode: self.sink,
            samples: self.samples,
            ramp_up: self.ramp_up,
        };
        let measured = standalone::run(&plan, &|| interrupt.requested());
        if measured.is_err() {
            interrupt.check()?;
        }
        let measured = measured.map_err(exit_error)?;
        report::print(&measured, common, None)
    }
}
