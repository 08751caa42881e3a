//! `creel-bench` measures all workloads next to their peers, in interleaved rounds, and writes one
//! report. docs/benchmarks.md explains how to run it, how to read its tables and how it measures.
//!
//! The modules are layered. [`harness`] defines cases, subjects and samples. [`rounds`] takes the
//! samples. [`report`] prints them in five formats, and [`compare`] compares two reports. Each
//! module in [`workloads`] defines the cases of one workload.
// We allow unsafe code in two places: the OpenMP peer, which is C, and a call of `malloc_trim`.
#![deny(unsafe_code)]

mod clock;
mod compare;
mod costs;
mod foreign;
mod harness;
mod hog;
mod host;
mod memory;
#[cfg(target_os = "linux")]
mod neighbours;
mod quota;
mod readme;
mod record;
mod report;
mod rounds;
mod run;
mod setting;
mod sweep;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Parser};
use creel_console::knobs::jobs;
use creel_console::{Common, args, conclude, duration};

use setting::Load;
use sweep::Values;
use workloads::render;
#[cfg(target_os = "linux")]
use workloads::serve;

/// Compare Creel with other libraries on your machine
///
/// Without arguments, measures the most important cases of all workloads in a minute or two, and
/// writes creel-report.html. Each round takes one sample of every subject, and ratios compare only
/// samples of the same round. A difference is reported only if it exceeds 5 % and the noise of the
/// run.
#[derive(Parser)]
#[command(name = "creel-bench", version, after_help = EXAMPLES)]
#[command(group(ArgGroup::new("earlier run").args(["compare", "resume"]).multiple(true)))]
struct Cli {
    /// Run these workloads (loops, render, messages, streams, traffic, serve, decode, sizing,
    /// programs, gstreamer) or cases [default: all workloads except programs and gstreamer]
    #[arg(value_name = "WORKLOAD|CASE", help_heading = "What to measure")]
    workloads: Vec<String>,
    /// Run only these workloads, separated by commas
    #[arg(
        long,
        value_name = "WORKLOAD,…",
        value_delimiter = ',',
        value_parser = workloads::possible_values(),
        help_heading = "What to measure"
    )]
    only: Vec<String>,
    /// Run only cases with this name; may be repeated
    #[arg(long = "case", value_name = "CASE", help_heading = "What to measure")]
    cases: Vec<String>,
    /// Measure only subjects (the libraries or settings that a case compares) whose name contains
    /// TEXT; may be repeated
    #[arg(
        long = "subject",
        value_name = "TEXT",
        help_heading = "What to measure"
    )]
    subjects: Vec<String>,
    /// Measure the subjects at several values of one setting, for example workers=1..4. Each round
    /// measures all values. The case `article` also accepts items= and work=
    #[arg(long, value_name = "KEY=VALUES", help_heading = "What to measure")]
    sweep: Option<Values>,
    /// Measure all cases at full length, which takes about half an hour on two cores
    #[arg(long, conflicts_with = "quick", help_heading = "How to measure")]
    full: bool,
    /// Take shorter samples and fewer rounds. If you name no workload and no case, this is the
    /// default, and only the most important cases are measured
    #[arg(long, help_heading = "How to measure")]
    quick: bool,
    /// Take N samples of each subject, one per round [default: a number that each case chooses]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=1000),
        help_heading = "How to measure"
    )]
    runs: Option<u16>,
    /// Use N workers [default: as many as the process may use, see `creel topo`]
    #[arg(short, long, value_name = "N", value_parser = jobs, help_heading = "How to measure")]
    jobs: Option<usize>,
    /// Put a load on the machine while measuring
    #[arg(long, value_enum, default_value_t, help_heading = "How to measure")]
    load: Load,
    /// Continue an interrupted run: read its JSON report, and measure only what is missing there
    #[arg(
        long,
        value_name = "FILE.json",
        conflicts_with_all = ["from", "sweep", "matrix"],
        help_heading = "How to measure"
    )]
    resume: Option<PathBuf>,
    /// Render these songs (a file, a folder or a playlist) instead of the included ones
    #[arg(
        long,
        value_name = "PATH",
        help_heading = "Options of render and traffic"
    )]
    songs: Option<PathBuf>,
    /// Render with all combinations of settings. Repeat the flag for each setting: workers=20,4,1
    /// (threads), jobs=20,4,1 (songs at a time) and yield=no,block (never yield, or after each
    /// block)
    #[arg(
        long,
        value_name = "KEY=VALUES",
        help_heading = "Options of render and traffic"
    )]
    matrix: Vec<Values>,
    /// Wait for TIME before each sample of render, so that the processor cools down, for example 30s
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration::value_parser,
        help_heading = "Options of render and traffic"
    )]
    cool_down: Option<Duration>,
    /// Compare the workload traffic with the simulators UXsim and SUMO. PROGRAM is a Python
    /// interpreter in which the packages uxsim and eclipse-sumo are installed
    #[arg(
        long,
        value_name = "PROGRAM",
        help_heading = "Options of render and traffic"
    )]
    python: Option<PathBuf>,
    /// Write the report to FILE, which ends in .html, .md, .json or .csv; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    report: Vec<PathBuf>,
    /// Show the JSON report of an earlier run again, and measure nothing
    #[arg(
        long,
        value_name = "FILE.json",
        conflicts_with_all = ["sweep", "matrix"],
        help_heading = "Reports"
    )]
    from: Option<PathBuf>,
    /// Compare the results with the JSON report of an earlier run. Exit with 1 if something became
    /// slower
    #[arg(long, value_name = "OLD.json", help_heading = "Reports")]
    compare: Option<PathBuf>,
    /// Let --compare compare runs whose conditions differ, or --resume continue a run of another
    /// commit
    #[arg(long, requires = "earlier run", help_heading = "Reports")]
    anyway: bool,
    /// Keep the run in a new folder in DIR. The folder contains the reports, a description of the
    /// machine, and the versions of the compilers and libraries
    #[arg(long, value_name = "DIR", help_heading = "Reports")]
    record: Option<PathBuf>,
    /// Update the table in FILE from the newest record in benches/runs. This also updates
    /// docs/benchmarks.md and docs/benchmarks.svg in the folder of FILE
    #[arg(long, value_name = "FILE", exclusive = true, help_heading = "Reports")]
    readme: Option<PathBuf>,
    /// Check whether --readme would change a file; exit with 1 if so
    #[arg(long, value_name = "FILE", exclusive = true, help_heading = "Reports")]
    check_readme: Option<PathBuf>,
    /// Make each call of subjects whose name contains TEXT twice, to test whether it is detected
    #[arg(long, value_name = "TEXT", hide = true)]
    slow_down: Option<String>,
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
Examples:
  creel-bench                                the most important cases, and creel-report.html
  creel-bench loops --case hot --runs 25     one case with more rounds
  creel-bench loops --sweep workers=1..8     the same cases with one to eight workers
  creel-bench --only loops --report old.json; …; creel-bench --only loops --compare old.json
  creel-bench --full --record benches/runs   the record of a machine, in about half an hour";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == render::SAMPLE {
        return conclude("creel-bench", render::answer(arguments.next()));
    }
    #[cfg(target_os = "linux")]
    if first == serve::SERVER {
        return conclude("creel-bench", serve::answer(arguments.next()));
    }
    let cli: Cli = args::parse();
    cli.common.apply();
    conclude("creel-bench", run::run(&cli))
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
                own: &["docs/benchmarks.md"],
                // The page also mentions these flags, which belong to cargo and to `creel run`.
                foreign: &["--features", "--gc"],
            },
        );
    }
}
