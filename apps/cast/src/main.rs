//! The program: many audio streams on one core, sent, received and measured.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use creel_console::{Common, args, conclude};

const EXAMPLES: &str = "\
Examples:
  creel-cast standalone --streams 4000 --wait 20ms
          4,000 streams on one thread, without a network
  creel-cast receive --streams 100 --on 127.0.0.1:5004 --wav heard
  creel-cast send --streams 100 --to 127.0.0.1:5004 --buffers 500
          five seconds of a hundred tones, each written to heard/stream-N.wav
  creel-cast relay --on 0.0.0.0:5004 --to 10.0.0.1:5004 10.0.0.2:5004 --control 127.0.0.1:8080
          from one sender to many clients, who come and go by `PUT /clients/HOST:PORT`
  creel-cast rooms --on 0.0.0.0:6000 --rooms 400
          conferences: whoever sends to a port hears all others who do
  creel-cast evaluate --svg diagrams --format csv > table.csv
          the evaluation's table and diagrams: 200 runs, five minutes; with --resume runs.csv
          an interrupted one goes on where it stopped";

/// Many audio streams on one core
#[derive(Parser, Debug)]
#[command(name = "creel-cast", version, after_help = EXAMPLES)]
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
    Relay(cli::relay::Relay),
    Rooms(cli::rooms::Rooms),
    Evaluate(cli::evaluate::Evaluate),
}

fn main() -> ExitCode {
    let cli: Cli = args::parse();
    cli.common.apply();
    let done = match &cli.command {
        Command::Standalone(standalone) => standalone.run(&cli.common),
        Command::Send(send) => send.run(&cli.common),
        Command::Receive(receive) => receive.run(&cli.common),
        Command::Relay(relay) => relay.run(&cli.common),
        Command::Rooms(rooms) => rooms.run(&cli.common),
        Command::Evaluate(evaluate) => evaluate.run(&cli.common),
    };
    conclude("creel-cast", done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_is_an_alias_of_contexts() {
        for line in [
            "standalone",
            "send --to 127.0.0.1:5004",
            "receive",
            "relay",
            "rooms",
            "evaluate",
        ] {
            for flag in ["--contexts", "--groups"] {
                let words = format!("creel-cast {line} {flag} 2");
                let parsed = Cli::try_parse_from(words.split(' '));
                assert!(parsed.is_ok(), "{words}: {parsed:?}");
            }
        }
    }
}
