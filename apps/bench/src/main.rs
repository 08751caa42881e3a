//! All workloads beside their peers, each in one interleaved run, in one report.
// A peer behind a feature is C, and so is the heap that is told to give memory back.
#![deny(unsafe_code)]

mod clock;
mod harness;
mod hog;
mod memory;
mod quota;
mod report;
mod run;
mod setting;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use creel_console::knobs::jobs;
use creel_console::{Common, args, conclude};

use setting::Load;
use workloads::render;
#[cfg(target_os = "linux")]
use workloads::serve;

/// Measure Creel beside its peers, in one interleaved run
///
/// Without arguments: reads the machine, says how many workers it allows and why, and runs all
/// workloads but decode, programs and serve in about a quarter of an hour; with --quick in two minutes.
/// Figures are minimum, median and maximum over the rounds, and ratios between samples of the same
/// round.
#[derive(Parser)]
#[command(name = "creel-bench", version)]
struct Cli {
    /// What to run: all but decode, programs and serve, or those named
    #[arg(value_name = "WORKLOAD", value_parser = workloads::names())]
    workloads: Vec<String>,
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
    /// Shorter samples and fewer rounds: shows that all runs, not how fast
    #[arg(long)]
    quick: bool,
    /// For render: songs, or a folder of them, instead of those that creel-vgm carries
    #[arg(long, value_name = "PATH")]
    songs: Option<PathBuf>,
    /// For traffic: a Python that has uxsim and eclipse-sumo, to be peers
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// What else happens on the machine meanwhile
    #[arg(long, value_enum, default_value_t)]
    load: Load,
    #[command(flatten)]
    common: Common,
}

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
