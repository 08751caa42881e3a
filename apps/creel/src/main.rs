//! `creel`: looks at a machine the way the runtime does.
#![forbid(unsafe_code)]

mod topo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use creel_console::{Common, Exit, args, conclude};

/// Shows what a machine offers and where workers sit
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
}

fn main() -> ExitCode {
    let cli: Cli = args::parse();
    cli.common.apply();
    conclude("creel", run(&cli))
}

fn run(cli: &Cli) -> anyhow::Result<Exit> {
    match &cli.verb {
        Verb::Topo(args) => topo::run(args, &cli.common),
    }
}
