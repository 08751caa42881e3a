//! The creel tool: what the machine is, right-sizing any program, and measuring it.
#![forbid(unsafe_code)]

mod measure;
mod run;

use anyhow::Result;
use clap::{Parser, Subcommand};
use creel_console::{Common, Exit};
use std::process::ExitCode;

/// Sees what a machine has, right-sizes programs to it, and measures what that brought
#[derive(Parser)]
#[command(name = "creel", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum Command {
    Run(run::RunArgs),
    Measure(measure::MeasureArgs),
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == measure::ONE) {
        return creel_console::conclude("creel", measure::measure_one(args));
    }
    let cli: Cli = creel_console::args::parse();
    cli.common.apply();
    creel_console::conclude("creel", run(&cli))
}

fn run(cli: &Cli) -> Result<Exit> {
    match &cli.command {
        Command::Run(args) => run::run(args, &cli.common),
        Command::Measure(args) => measure::measure(args, &cli.common),
    }
}
