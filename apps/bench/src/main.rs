//! All workloads beside their peers, each in one interleaved run, in one report.
// A peer behind a feature is C, and so is the heap that is told to give memory back.
#![deny(unsafe_code)]

mod clock;
mod compare;
mod costs;
mod foreign;
mod harness;
mod hog;
mod host;
mod memory;
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

use clap::Parser;
use creel_console::knobs::jobs;
use creel_console::{Common, args, conclude};

use setting::Load;
use sweep::Values;
use workloads::render;
#[cfg(target_os = "linux")]
use workloads::serve;

/// Measure Creel beside its peers, in one interleaved run
///
/// Without arguments: a quick look at all workloads, a minute, and a report to read,
/// creel-report.html. --full takes its time. Ratios are between samples of the same round; a
/// difference is called one only beyond 5 % and beyond the run's own noise.
#[derive(Parser)]
#[command(name = "creel-bench", version, after_help = EXAMPLES)]
struct Cli {
    /// What to run: workloads (loops, render, messages, streams, traffic, serve, decode, sizing,
    /// programs) or cases; all workloads if nothing is named
    #[arg(value_name = "WORKLOAD|CASE")]
    workloads: Vec<String>,
    /// The same as a list
    #[arg(long, value_name = "WORKLOAD,…", value_delimiter = ',', value_parser = workloads::possible_values())]
    only: Vec<String>,
    /// Only the cases of this name; may be repeated
    #[arg(long = "case", value_name = "CASE")]
    cases: Vec<String>,
    /// Only subjects whose name contains this; may be repeated
    #[arg(long = "subject", value_name = "TEXT")]
    subjects: Vec<String>,
    /// Rounds: samples of each subject
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: Option<u16>,
    /// Workers; by default the machine's budget
    #[arg(short, long, value_name = "N", value_parser = jobs)]
    jobs: Option<usize>,
    /// Shorter samples, fewer rounds, and of all workloads the most telling cases
    #[arg(long)]
    quick: bool,
    /// All cases at their full length: about half an hour on two cores
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Values of one setting beside each other: workers=1..4; of article also items=, work=
    #[arg(long, value_name = "KEY=VALUES")]
    sweep: Option<Values>,
    /// For render: settings crossed: workers=20,4,1, jobs=20,4,1, yield=no,block; may be repeated
    #[arg(long, value_name = "KEY=VALUES")]
    matrix: Vec<Values>,
    /// For render: songs, a folder or a list of them, instead of those that creel-vgm carries
    #[arg(long, value_name = "PATH")]
    songs: Option<PathBuf>,
    /// For render: seconds to wait before each sample, so that the processor is cool again
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    cool_down: u16,
    /// For traffic: a Python that has uxsim and eclipse-sumo, to be peers
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// What else happens on the machine meanwhile
    #[arg(long, value_enum, default_value_t)]
    load: Load,
    /// Compare with a report written as JSON; exit code 1 if something became slower
    #[arg(long, value_name = "OLD.json")]
    compare: Option<PathBuf>,
    /// Compare, or go on from, what does not match
    #[arg(long, requires = "compare")]
    anyway: bool,
    /// Measure nothing: take the figures of a report that was written as JSON
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["sweep", "matrix"])]
    from: Option<PathBuf>,
    /// Go on from the JSON report of a run that was cut short: measure what it does not have
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["from", "sweep", "matrix"])]
    resume: Option<PathBuf>,
    /// Write the report: FILE ends in html, md, json or csv; may be repeated
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
    /// Keep the run: a folder of its own in DIR, with report, figures, machine and versions; not of
    /// a quick look, and with --from that of the machine it was made on
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Write the newest record of benches/runs beside FILE into FILE's table and plot
    #[arg(long, value_name = "FILE", exclusive = true)]
    readme: Option<PathBuf>,
    /// Say whether that would change FILE; exit code 1 if so
    #[arg(long, value_name = "FILE", exclusive = true)]
    check_readme: Option<PathBuf>,
    /// Make each call of subjects with this in their name twice, to see whether it is noticed
    #[arg(long, value_name = "TEXT", hide = true)]
    slow_down: Option<String>,
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
Examples:
  creel-bench                                   a quick look at all, and creel-report.html
  creel-bench --full --record benches/runs      the record of a machine, half an hour
  creel-bench loops --case hot --runs 25      one case, more rounds
  creel-bench loops --sweep workers=1..8      what a worker more brings
  creel-bench --only loops --report old.json; …; creel-bench --only loops --compare old.json
  creel-bench render --songs DIR --matrix workers=4,1 --matrix jobs=4,1 --matrix yield=no,block";

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
