//! `creel-cast standalone`: sources and sinks without a network.

use std::time::Duration;

use clap::Args;
use creel_cast::standalone::{self, Plan};
use creel_cast::stream::SinkMode;
use creel_console::{Common, Exit, Interrupt};

use super::{ContextArgs, count, exit_error, period, report, time};

/// Run sources and sinks without a network, and measure every stream
#[derive(Args, Debug)]
pub struct Standalone {
    #[command(flatten)]
    contexts: ContextArgs,
    /// From one buffer of a stream to the next
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = period)]
    period: Duration,
    /// Buffers of each stream that are measured
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = count)]
    buffers: usize,
    /// How sinks get buffers: sync-mutex, async-mutex, task, slot
    #[arg(long, value_name = "MODE", default_value_t)]
    sink: SinkMode,
    /// Samples of a buffer
    #[arg(long, value_name = "N", default_value_t = 80, value_parser = count)]
    samples: usize,
    /// What is left out at the beginning
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    ramp_up: Duration,
}

impl Standalone {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install()?;
        let plan = Plan {
            streams: self.contexts.streams,
            contexts: self.contexts.contexts,
            wait: self.contexts.wait,
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
