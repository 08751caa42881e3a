//! `creel-cast`: sends, receives, relays, mixes and measures many audio streams on one core.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand};
use creel_console::{Common, args, conclude};

/// The heading of the flags that all commands have. They come last in the help.
const COMMON: &str = "Common options";

const EXAMPLES: &str = "\
Examples:
  creel-cast standalone --streams 4000 --wait 20ms
          run 4,000 streams on one thread, without a network
  creel-cast receive --streams 100 --on 127.0.0.1:5004 --wav heard
  creel-cast send --streams 100 --to 127.0.0.1:5004 --buffers 500
          send a hundred tones for five seconds, and write each to heard/stream-N.wav
  creel-cast relay --on 0.0.0.0:5004 --to 10.0.0.1:5004 10.0.0.2:5004 --control 127.0.0.1:8080
          pass one sender's packets on to many clients. `PUT /clients/HOST:PORT` adds a client
  creel-cast rooms --on 0.0.0.0:6000 --rooms 400
          run 400 conferences: everyone that sends to a port receives the sum of the others
  creel-cast evaluate --svg diagrams --format csv > table.csv
          measure 200 runs in five minutes, and write a table and diagrams";

/// Send, receive, relay, mix and measure many audio streams on one core
#[derive(Parser, Debug)]
#[command(name = "creel-cast", version, after_help = EXAMPLES)]
#[command(disable_help_flag = true, disable_version_flag = true)]
struct Cli {
    #[command(flatten, next_help_heading = COMMON)]
    common: Common,
    /// Print this help
    #[arg(short, long, action = ArgAction::Help, global = true, help_heading = COMMON)]
    help: Option<bool>,
    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version, help_heading = COMMON)]
    version: Option<bool>,
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
    use clap::CommandFactory;
    use clap::error::ErrorKind;
    use creel_console::documented;

    #[test]
    fn the_flag_groups_is_an_alias_of_the_flag_contexts() {
        for line in COMMANDS {
            for flag in ["--contexts", "--groups"] {
                let parsed = parse(&format!("{line} {flag} 2"));
                assert!(parsed.is_ok(), "{line} {flag}: {parsed:?}");
            }
        }
    }

    /// The arguments that each command requires.
    const COMMANDS: [&str; 6] = [
        "standalone",
        "send --to 127.0.0.1:5004",
        "receive",
        "relay",
        "rooms",
        "evaluate",
    ];

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(format!("creel-cast {line}").split(' '))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_of_each_command_explains_each_flag() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands().filter(|c| c.get_name() != "help") {
            let name = command.get_name();
            let help = parse(&format!("{name} --help")).unwrap_err();
            assert_eq!(help.kind(), ErrorKind::DisplayHelp, "{name}: {help}");
            assert_eq!(help.exit_code(), 0, "{name}");
            let help = help.to_string();
            for flag in command.get_arguments() {
                let id = flag.get_id();
                let long = format!("--{}", flag.get_long().unwrap());
                assert!(help.contains(&long), "{name} {long}: {help}");
                assert!(flag.get_help().is_some(), "{name} {long} has no help");
                assert!(
                    flag.get_help_heading().is_some(),
                    "{name} {id} has no heading"
                );
            }
            let (flags, examples) = help.split_once("Examples:").expect("there are examples");
            assert!(examples.matches("creel-cast ").count() >= 2, "{examples}");
            let (own, common) = flags.split_once(COMMON).expect("there are common options");
            assert!(!own.contains("--quiet"), "{own}");
            let last = ["--format", "--color", "--quiet", "--help"];
            assert!(last.iter().all(|flag| common.contains(flag)), "{common}");
        }
    }

    #[test]
    fn durations_may_exceed_an_hour() {
        for time in ["2h", "90m", "7200s", "1.5s", "20ms", "1h30m"] {
            for command in ["receive", "relay", "rooms"] {
                let line = format!("{command} --idle {time} --for {time} --wait {time}");
                assert!(parse(&line).is_ok(), "{line}: {:?}", parse(&line).err());
            }
        }
        for line in [
            "receive --for 20",
            "receive --for 0s",
            "rooms --packet-time 2m",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn the_flag_framing_accepts_raw_and_rtp() {
        for command in ["send --to 127.0.0.1:5004", "receive"] {
            for framing in ["raw", "rtp"] {
                let line = format!("{command} --framing {framing}");
                assert!(parse(&line).is_ok(), "{line}: {:?}", parse(&line).err());
            }
            assert!(parse(&format!("{command} --framing wav")).is_err());
        }
    }

    #[test]
    fn the_documents_match_the_command_line() {
        documented::check(
            Cli::command(),
            documented::Documents {
                manifest: env!("CARGO_MANIFEST_DIR"),
                own: &["docs/guide/src/cast.md", "apps/cast/README.md"],
                foreign: &[],
            },
        );
    }
}
