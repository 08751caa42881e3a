//! `creel measure`: what a command costs, over several runs, alone or beside others.

mod one;
mod plan;
mod report;
mod sample;

use crate::options;
use anyhow::{Context, Result, bail};
use clap::Args;
use creel_console::{Common, Exit, Failure, Format, Interrupt, Progress};
use plan::{Axis, Subject};
use report::Measured;
use sample::Sample;
use std::{
    ffi::OsString,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Run a command several times and tell what it cost
///
/// Wall, user and system time, the peak memory of the whole process tree, context switches,
/// migrations and, where readable, energy. Processes that outlive their parent are waited for
/// and counted. Several commands take turns (A B A B …), so that a machine whose speed drifts
/// treats them alike.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel measure -n 10 -- ./render song.vgz
  creel measure --vs './old song.vgz' -- ./new song.vgz
  creel measure --matrix jobs=1,2,4 --csv runs.csv -- make -B -j{jobs}
  creel measure --from runs.csv --markdown")]
pub struct MeasureArgs {
    /// Counted runs of each command
    #[arg(short = 'n', long, default_value_t = 5, value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Runs before those, not counted
    #[arg(long, default_value_t = 0, value_name = "RUNS")]
    warmup: u32,
    /// Seconds of rest before each run
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS", value_parser = options::seconds)]
    cooldown: f64,
    /// A second command, split into words as a shell does, run in turn with the first
    #[arg(long, value_name = "COMMAND")]
    vs: Option<String>,
    /// Put each value in the place of {NAME} in the commands; may be given several times
    #[arg(long, value_name = "NAME=VALUE,…")]
    matrix: Vec<Axis>,
    /// Also write every run to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Run nothing: read the runs from such a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["vs", "matrix", "csv", "command"])]
    from: Option<PathBuf>,
    /// Print tables in Markdown
    #[arg(long)]
    markdown: bool,
    /// Pass on to stderr what the commands print, instead of dropping it
    #[arg(long)]
    show_output: bool,
    /// Go on when a command fails
    #[arg(long)]
    ignore_failure: bool,
    /// The command and its arguments
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        required_unless_present = "from"
    )]
    command: Vec<OsString>,
}

/// Runs `creel measure`.
pub fn measure(args: &MeasureArgs, common: &Common) -> Result<Exit> {
    let measured = match &args.from {
        Some(file) => {
            report::from_csv(file).map_err(|e| Failure::new(Exit::BadData, format!("{e:#}")))?
        }
        None => run_all(args, common)?,
    };
    if let Some(file) = &args.csv {
        report::csv_file(&measured, file)?;
    }
    match common.format {
        Format::Json => report::json(&measured)?,
        Format::Csv => report::csv(&measured)?,
        Format::Text => report::text(&measured, args.markdown)?,
    }
    Ok(Exit::Done)
}

fn run_all(args: &MeasureArgs, common: &Common) -> Result<Vec<Measured>> {
    let subjects = plan::subjects(&args.command, args.vs.as_deref(), &args.matrix)
        .map_err(|e| Failure::new(Exit::Usage, format!("{e:#}")))?;
    let interrupt = Interrupt::install()?;
    let rounds = args.warmup + args.runs;
    let total = u64::from(rounds) * subjects.len() as u64;
    let progress = Progress::new(total, "runs", common.quiet);
    let mut measured: Vec<Measured> = subjects.iter().map(Measured::begin).collect();
    for round in 0..rounds {
        for (subject, measured) in subjects.iter().zip(&mut measured) {
            progress.set_message(subject.label.clone());
            rest(args.cooldown, &interrupt)?;
            let sample = run_one(subject, args, &interrupt)?;
            if round >= args.warmup {
                measured.samples.push(sample);
            }
            progress.advance(1);
        }
    }
    progress.finish();
    Ok(measured)
}

impl Measured {
    fn begin(subject: &Subject) -> Self {
        Self {
            label: subject.label.clone(),
            samples: Vec::new(),
        }
    }
}

/// Sleeps, in steps short enough for Ctrl-C.
fn rest(time_s: f64, interrupt: &Interrupt) -> Result<()> {
    let end = Instant::now() + Duration::from_secs_f64(time_s);
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        interrupt.check()?;
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    Ok(interrupt.check()?)
}

/// The first argument with which this program runs one command: see [`one`].
pub const ONE: &str = "measure-one";

/// One run, in a fresh process of this program: see [`one`].
fn run_one(subject: &Subject, args: &MeasureArgs, interrupt: &Interrupt) -> Result<Sample> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let output = Command::new(own)
        .arg(ONE)
        .arg(if args.show_output { "show" } else { "drop" })
        .args(&subject.command)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start this program again")?;
    interrupt.check()?;
    if !output.status.success() {
        // The inner process has told the reason on stderr already.
        bail!(Failure::new(
            Exit::Usage,
            format!("`{}` could not be run", subject.label)
        ));
    }
    let outcome: one::Outcome =
        serde_json::from_slice(&output.stdout).context("the inner run told nothing")?;
    if outcome.exit != 0 && !args.ignore_failure {
        bail!(
            "`{}` ended with exit code {}; --ignore-failure measures it all the same",
            subject.label,
            outcome.exit
        );
    }
    Ok(outcome.sample)
}

/// The inner run: `measure-one show|drop COMMAND ARGS`. It is parsed by hand and before all
/// else, because what this process allocates, the command starts with.
pub fn measure_one(mut args: impl Iterator<Item = OsString>) -> Result<Exit> {
    let show = args.next().is_some_and(|word| word == "show");
    let command: Vec<OsString> = args.collect();
    let outcome = one::run(&command, show)?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(Exit::Done)
}
