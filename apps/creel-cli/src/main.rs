//! The `creel` tool. It shows the machine, starts programs with the right number of threads, and
//! measures them.
#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod advise;
mod drawing;
#[cfg(target_os = "linux")]
mod inherited;
mod measure;
#[cfg(not(target_os = "linux"))]
mod only_linux;
mod options;
#[cfg(target_os = "linux")]
mod pools;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod top;
mod topo;

#[cfg(not(target_os = "linux"))]
use only_linux::{advise, run, top};

use anyhow::Result;
use clap::{Parser, Subcommand};
use creel_console::{Common, Exit, Verbose, args, conclude};
use std::process::ExitCode;

/// Show a machine, start programs with the right number of threads, and measure them
#[derive(Parser)]
#[command(
    name = "creel",
    version,
    after_help = "Examples:
  creel topo
          Show the machine and the number of workers that it has room for
  creel run -- java -jar server.jar
          Start a program with the right number of threads
  creel measure --vs './old input' -- ./new input
          Compare the running times of two commands

Run 'creel COMMAND --help' for the options of a command."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    verbose: Verbose,
}

#[derive(Subcommand)]
enum Verb {
    /// Show the machine, the number of workers that it has room for, and where they are placed
    Topo(topo::Args),
    Run(run::RunArgs),
    Advise(advise::AdviseArgs),
    Measure(Box<measure::MeasureArgs>),
    Top(top::TopArgs),
}

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if std::env::args_os()
        .nth(1)
        .is_some_and(|verb| verb == measure::RUNNER_COMMAND)
    {
        return conclude("creel", measure::run_runner());
    }
    let cli: Cli = args::parse();
    cli.common.apply();
    conclude("creel", run(&cli))
}

fn run(cli: &Cli) -> Result<Exit> {
    let verbose = cli.verbose.verbose;
    match &cli.verb {
        Verb::Topo(args) => topo::run(args, &cli.common, verbose),
        Verb::Advise(args) => advise::advise(args, &cli.common, verbose),
        Verb::Run(args) => run::run(args, &cli.common, verbose),
        Verb::Measure(args) => measure::measure(args, &cli.common, verbose),
        Verb::Top(args) => top::top(args, &cli.common, verbose),
    }
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
                own: &["docs/guide/src/measuring.md", "docs/measuring.md"],
                // These options belong to hyperfine, or to programs that use Creel.
                foreign: &[
                    "--export-csv",
                    "--export-json",
                    "--export-markdown",
                    "--observe",
                ],
            },
        );
    }
}
