//! The program: many audio streams on one core, sent, received and measured.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use creel_console::{Common, args, conclude};

/// Many audio streams on one core
#[derive(Parser, Debug)]
#[command(name = "creel-cast", version)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Standalone(cli::standalone::Standalone),
    Send(cli::send::Send),
    Receive(cli::receive::Receive),
    Evaluate(cli::evaluate::Evaluate),
}

fn main() -> ExitCode {
    let cli: Cli = args::parse();
    cli.common.apply();
    let done = match &cli.command {
        Command::Standalone(standalone) => standalone.run(&cli.common),
        Command::Send(send) => send.run(&cli.common),
        Command::Receive(receive) => receive.run(&cli.common),
        Command::Evaluate(evaluate) => evaluate.run(&cli.common),
    };
    conclude("creel-cast", done)
}
