//! The program: road traffic, deterministic, on as many cores as there are.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use creel_console::{Common, args, conclude};

const EXAMPLES: &str = "\
Examples:
  creel-traffic run --city 100x100 --cars 50000 --seconds 3600
          an hour of a city with lights, and what became of it
  creel-traffic run --city 512x512 --cars 1000000 --seconds 600 --format json
  creel-traffic run --city 100x100 --cars 50000 --seconds 1800 --snapshot half.creel
  creel-traffic run --city 100x100 --resume half.creel --seconds 1800
          goes on where that ended; both together end as one run of an hour does
  creel-traffic run --network NY.gr.xz --cars 1000000 --demand gravity --again --seconds 900
  creel-traffic assign --network roads.tntp --trips trips.tntp
  creel-traffic watch --city 100x100 --cars 50000
  creel-traffic draw --city 100x100 --noise 30 --avenues 5 --cars 50000 --output city.png
  creel-traffic convert --city 30x30 --cars 5000 --demand gravity --roads-to city.net.xml --demand-to city.rou.xml
          the same city and its demand for SUMO";

/// Road traffic: the same bits on any number of cores
#[derive(Parser, Debug)]
#[command(name = "creel-traffic", version, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
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
