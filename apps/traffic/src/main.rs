//! The `creel-traffic` program: a deterministic road traffic simulation on any number of cores.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use creel_console::{Common, args, conclude};

const EXAMPLES: &str = "\
Examples:
  creel-traffic run --city 100x100 --cars 50000 --seconds 3600
          simulate an hour in a generated city with traffic lights, and print a summary
  creel-traffic convert --city 30x30 --cars 5000 --demand gravity --roads-to city.net.xml --demand-to city.rou.xml
          write the same city and its demand for SUMO

Each subcommand has more examples: see creel-traffic run --help, for example.";

/// Simulate road traffic, with identical results on any number of cores
#[derive(Parser, Debug)]
#[command(name = "creel-traffic", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand, Debug)]
enum Command {
    Run(Box<cli::run::Run>),
    Assign(cli::assign::Assign),
    Watch(Box<cli::watch::Watch>),
    Draw(Box<cli::draw::Draw>),
    Convert(Box<cli::convert::Convert>),
}

fn main() -> ExitCode {
    let cli: Cli = args::parse();
    cli.common.apply();
    let done = match &cli.command {
        Command::Run(run) => run.run(&cli.common),
        Command::Assign(assign) => assign.run(&cli.common),
        Command::Watch(watch) => watch.run(&cli.common),
        Command::Draw(draw) => draw.run(&cli.common),
        Command::Convert(convert) => convert.run(&cli.common),
    };
    conclude("creel-traffic", done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use creel_console::documented;

    #[test]
    fn the_documents_match_the_command_line() {
        documented::check(
            Cli::command(),
            documented::Documents {
                manifest: env!("CARGO_MANIFEST_DIR"),
                own: &["docs/guide/src/traffic.md"],
                foreign: &[],
            },
        );
    }
}
