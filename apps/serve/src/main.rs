//! The program `creel-serve`: a signing service, and a load generator that measures it.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use creel_console::{Common, args, conclude};

const EXAMPLES: &str = "\
Examples:
  creel-serve
          Serve on http://127.0.0.1:8080 with the key and the records in ./creel-serve-data.
          Try it with: curl -d 'a message' http://127.0.0.1:8080/sign
  creel-serve --store redis://127.0.0.1:6379 --config serve.toml
          Keep the records in Redis and read the other settings from a file";

/// Run a signing service that stays responsive under overload
#[derive(Parser, Debug)]
#[command(name = "creel-serve", version, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    serve: cli::serve::Serve,
    #[command(flatten, next_help_heading = "Common options")]
    common: Common,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    Load(cli::load::Load),
    Evaluate(cli::evaluate::Evaluate),
}

fn main() -> ExitCode {
    let cli: Cli = args::parse();
    cli.common.apply();
    let done = match &cli.command {
        None => cli.serve.run(&cli.common),
        Some(Command::Load(load)) => load.run(&cli.common),
        Some(Command::Evaluate(evaluate)) => evaluate.run(&cli.common),
    };
    conclude("creel-serve", done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use creel_console::documented;

    #[test]
    fn the_flag_patience_is_an_alias_of_the_flag_request_timeout() {
        for flag in ["--request-timeout", "--patience"] {
            let words = ["creel-serve", "load", "http://127.0.0.1:8080", flag, "1s"];
            let parsed = Cli::try_parse_from(words);
            assert!(parsed.is_ok(), "{flag}: {parsed:?}");
        }
    }

    #[test]
    fn the_documents_match_the_command_line() {
        documented::check(
            Cli::command(),
            documented::Documents {
                manifest: env!("CARGO_MANIFEST_DIR"),
                own: &["docs/guide/src/service.md"],
                foreign: &[],
            },
        );
    }
}
