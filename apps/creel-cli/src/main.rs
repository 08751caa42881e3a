//! The creel tool: what the machine is, right-sizing any program, and measuring it.
#![deny(unsafe_code)]

mod drawing;
mod inherited;
mod measure;
mod options;
mod pools;
mod process;
mod run;
mod top;
mod topo;

use anyhow::Result;
use clap::{Parser, Subcommand};
use creel_console::{Common, Exit, args, conclude};
use std::process::ExitCode;

/// Sees what a machine has, right-sizes programs to it, and measures what that brought
#[derive(Parser)]
#[command(name = "creel", version)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show the machine, the budget, and where workers sit
    Topo(topo::Args),
    Run(run::RunArgs),
    Measure(Box<measure::MeasureArgs>),
    Top(top::TopArgs),
}

fn main() -> ExitCode {
    let mut first = std::env::args_os().skip(1);
    if first
        .next()
        .is_some_and(|verb| verb == measure::RUNNER_COMMAND)
    {
        return conclude("creel", measure::run_runner());
    }
    let cli: Cli = args::parse();
    cli.common.apply();
    conclude("creel", run(&cli))
}

fn run(cli: &Cli) -> Result<Exit> {
    match &cli.verb {
        Verb::Topo(args) => topo::run(args, &cli.common),
        Verb::Run(args) => run::run(args, &cli.common),
        Verb::Measure(args) => measure::measure(args, &cli.common),
        Verb::Top(args) => top::top(args, &cli.common),
    }
}
