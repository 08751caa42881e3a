//! `creel measure`: what a command costs, over several runs, alone or beside others.

mod agent;
mod article;
mod counters;
mod hooks;
mod plan;
mod report;
mod runner;
mod sample;
mod store;
mod verdict;

use crate::{drawing, options};
use agent::Agent;
pub use agent::RUNNER_COMMAND;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use creel_console::{Common, Exit, Failure, Format, Interrupt, Progress, energy, output};
use creel_stats::Summary;
use creel_topology::Machine;
use hooks::Hooks;
use plan::{Axis, Labels, MeasureRequest, Subject};
use regex_lite::Regex;
use report::Plot;
use runner::{RunRequest, processes};
use sample::{Sample, WALL};
use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use store::{Measured, Mode, Store};

/// Without -n, the least number of runs of a command.
const RUNS_LEAST: usize = 5;
const RUNS_MOST: usize = 10_000;

/// Run a command several times and tell what it cost
///
/// Wall, user and system time, the peak memory of the whole process tree, context switches and,
/// where the kernel tells them, migrations, cycles, instructions and energy. Several commands
/// take turns (A B A B …), so that a machine whose speed drifts treats them alike. Without -n it
/// runs until the mean is known well enough.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel measure -- ./render song.vgz
  creel measure --vs './old song.vgz' --name new --name old -- ./new song.vgz
  creel measure --scan jobs=1..8 --prepare 'make clean' --csv runs.csv -- make -j{jobs}
  creel measure --aa --vs 'xz -9 -k f' --prepare 'rm -f f.*' -- zstd f
  creel measure --metric 'samples=rendered (\\d+) samples' -- ./render song.vgz
  creel measure --from old.csv new.csv --markdown

Exit codes: 0; 1 when a command failed (what was measured until then is printed); 2 for a command
line that is wrong; 65 for a file that is no measurement; 130 or 143 when interrupted (likewise).")]
pub struct MeasureArgs {
    /// Counted runs of each command; by default as many as --within asks for
    #[arg(short = 'n', short_alias = 'r', long, value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..=RUNS_MOST as i64))]
    runs: Option<u32>,
    /// Without -n: run until the 95 % interval of the mean is within so many percent of it
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT")]
    within: f64,
    /// Without -n: but begin no further run after so many seconds for each command, once there
    /// are five
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS", value_parser = options::seconds)]
    at_most: f64,
    /// Runs before those, not counted
    #[arg(short, long, default_value_t = 0, value_name = "RUNS")]
    warmup: u32,
    /// Seconds of rest before each run
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS", value_parser = options::seconds)]
    cooldown: f64,
    /// A further command, split into words as a shell does, run in turn with the first; may be
    /// given several times
    #[arg(long, value_name = "COMMAND")]
    vs: Vec<String>,
    /// What tables call the commands, in their order; may be given several times
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Also run the first command against itself: differences below that are not called any
    #[arg(long)]
    aa: bool,
    /// Put each value in the place of {NAME} in the commands; may be given several times
    #[arg(long, value_name = "NAME=VALUE,…")]
    matrix: Vec<Axis>,
    /// The same with numbers: NAME=FROM..TO[:STEP]
    #[arg(long, value_name = "NAME=RANGE", value_parser = plan::scan)]
    scan: Vec<Axis>,
    /// A line for the shell, once before a command's first run; {NAME} is filled in
    #[arg(long, value_name = "LINE")]
    setup: Option<String>,
    /// A line for the shell before each run, not measured
    #[arg(long, value_name = "LINE")]
    prepare: Option<String>,
    /// A line for the shell, once after a command's last run
    #[arg(long, value_name = "LINE")]
    cleanup: Option<String>,
    /// Record a figure that the command prints: what the first group of the expression holds, in
    /// its last match
    #[arg(long, value_name = "NAME=REGEX", value_parser = metric)]
    metric: Vec<(String, Regex)>,
    /// Also write every run to this file, as it comes; - writes to stdout, and prints nothing else
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Add to that file instead of replacing it
    #[arg(long, requires = "csv")]
    append: bool,
    /// Count the runs that are in that file already, and do the missing ones
    #[arg(long, requires = "csv", requires = "runs")]
    resume: bool,
    /// A column for that file and for the tables; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = plan::label)]
    label: Vec<(String, String)>,
    /// Run nothing: read the runs from such files, and compare the first with the others
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["vs", "matrix", "scan", "csv", "command"])]
    from: Vec<PathBuf>,
    /// Print tables in Markdown
    #[arg(long)]
    markdown: bool,
    /// Also draw the runs
    #[arg(long, value_enum, value_name = "WHAT")]
    plot: Option<Plot>,
    /// Draw into this file, as SVG; - draws on stdout, and prints nothing else
    #[arg(long, value_name = "FILE", requires = "plot")]
    svg: Option<PathBuf>,
    /// Let the command's stdout through
    #[arg(long)]
    show_stdout: bool,
    /// Let the command's stderr through
    #[arg(long)]
    show_stderr: bool,
    /// Both
    #[arg(long)]
    show_output: bool,
    /// Count runs that fail as well
    #[arg(short, long)]
    ignore_failure: bool,
    /// End a run that takes longer; it has failed then
    #[arg(long, value_name = "SECONDS", value_parser = options::seconds)]
    timeout: Option<f64>,
    /// How long to wait for processes that outlive the command before they are ended
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS", value_parser = options::seconds)]
    linger: f64,
    /// The command and its arguments; all that follows the command is its own
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        required_unless_present = "from"
    )]
    command: Vec<OsString>,
}

/// Reads `samples=(\d+) samples`.
fn metric(text: &str) -> Result<(String, Regex)> {
    let (name, expression) = text.split_once('=').context("not of the form NAME=REGEX")?;
    if sample::unit(name) != sample::Unit::Plain || name.is_empty() || name == "exit_code" {
        bail!("`{name}` is no name for a figure of the program's own");
    }
    let regex = Regex::new(expression)
        .map_err(|error| anyhow!("`{expression}` is no regular expression: {error}"))?;
    if regex.captures_len() < 2 {
        bail!("`{expression}` has no group: put the figure in parentheses");
    }
    Ok((name.into(), regex))
}

/// Runs `creel measure`.
pub fn measure(args: &MeasureArgs, common: &Common) -> Result<Exit> {
    let mixes = (args.show_stdout || args.show_output) && common.format != Format::Text;
    if mixes {
        let text = "--show-stdout would mix the command's output with the data";
        return Err(Failure::new(Exit::Usage, text).into());
    }
    let rows = args.csv.as_deref().is_some_and(drawing::is_stdout);
    if rows && (args.append || args.resume || args.show_stdout || args.show_output) {
        let text = "--csv - writes to stdout: that holds no earlier runs, and no command's output";
        return Err(Failure::new(Exit::Usage, text).into());
    }
    let (measured, ended) = if args.from.is_empty() {
        run_all(args, common)?
    } else {
        let bad = |e: anyhow::Error| Failure::new(Exit::BadData, format!("{e:#}"));
        (read_all(&args.from).map_err(bad)?, Ok(()))
    };
    if measured.iter().any(|m| !m.samples.is_empty()) {
        print(&measured, args, common)?;
    }
    ended.map(|()| Exit::Done)
}

fn print(measured: &[Measured], args: &MeasureArgs, common: &Common) -> Result<()> {
    if let (Some(plot), Some(file)) = (args.plot, &args.svg)
        && drawing::is_stdout(file)
    {
        return Ok(output::text(&report::chart(measured, plot).svg())?);
    }
    if args.csv.as_deref().is_some_and(drawing::is_stdout) {
        return Ok(());
    }
    let missing_energy = energy::Meter::start().is_none().then_some(NO_ENERGY);
    match common.format {
        Format::Json => {
            let here = args.from.is_empty().then(Machine::detect);
            report::json(measured, here.and_then(Result::ok).as_ref(), missing_energy)?;
        }
        Format::Csv => store::write_all(measured, io::stdout().lock())?,
        Format::Text => {
            report::text(measured, args.markdown)?;
            if let Some(reason) = missing_energy.filter(|_| common.verbose > 0) {
                eprintln!("creel: {reason}");
            }
        }
    }
    let Some(plot) = args.plot else {
        return Ok(());
    };
    let chart = report::chart(measured, plot);
    match &args.svg {
        Some(file) => drawing::write(file, &chart.svg())
            .with_context(|| format!("cannot write {}", file.display()))?,
        None if common.format == Format::Text => output::text(&chart.text(72, 16))?,
        None => {}
    }
    Ok(())
}

const NO_ENERGY: &str = "no energy is told: no package's counter in /sys/class/powercap is \
                         readable; virtual machines have none, and elsewhere only root may read it";

/// All files' commands; one that several files have is named by its file too.
fn read_all(files: &[PathBuf]) -> Result<Vec<Measured>> {
    let mut all: Vec<Measured> = Vec::new();
    let mut of_files: Vec<(String, Vec<Measured>)> = Vec::new();
    for file in files {
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let found = if article::is_one(&text) {
            article::parse(&text, file)?
        } else {
            store::read(file)?
        };
        let stem = file.file_stem().unwrap_or_default();
        of_files.push((stem.to_string_lossy().into(), found));
    }
    let several = |label: &str| {
        let has = |found: &&(String, Vec<Measured>)| found.1.iter().any(|m| m.label == label);
        of_files.iter().filter(has).count() > 1
    };
    for (stem, found) in &of_files {
        for m in found {
            let mut m = m.clone();
            if several(&m.label) {
                m.label = format!("{stem}: {}", m.label);
            }
            all.push(m);
        }
    }
    store::pair(&mut all);
    Ok(all)
}

type Ended = Result<()>;

/// Everything that is measured, and how it ended: what was measured before a failure or an
/// interrupt counts.
fn run_all(args: &MeasureArgs, common: &Common) -> Result<(Vec<Measured>, Ended)> {
    let request = MeasureRequest {
        command: &args.command,
        versus: &args.vs,
        names: &args.name,
        matrix: [&args.matrix[..], &args.scan[..]].concat(),
        is_aa_control: args.aa,
    };
    let subjects =
        plan::subjects(&request).map_err(|e| Failure::new(Exit::Usage, format!("{e:#}")))?;
    let labels: Labels = args.label.iter().cloned().collect();
    let mut measured: Vec<Measured> = subjects
        .iter()
        .map(|s| empty_measurement(s, &labels))
        .collect();
    store::pair(&mut measured);
    if args.resume {
        resume(args, &mut measured)?;
    }
    let mut session = Session::begin(args, common, &labels, &measured)?;
    let ended = session.rounds(&subjects, &mut measured);
    let cleaned = subjects.iter().try_for_each(|s| session.hooks.cleanup(s));
    drop(session);
    Ok((measured, ended.and(cleaned)))
}

fn empty_measurement(subject: &Subject, labels: &Labels) -> Measured {
    let mut labels = labels.clone();
    labels.extend(subject.settings.iter().cloned());
    Measured {
        label: subject.label.clone(),
        labels,
        base: 0,
        is_aa_control: subject.is_aa_control,
        samples: Vec::new(),
    }
}

/// Other programs take each command as one word.
fn hint(program: &std::ffi::OsStr) -> String {
    let program = program.to_string_lossy();
    match program.contains(char::is_whitespace) {
        true => format!(
            "; a command's words stand apart: `creel measure -- {program}`, and a further command \
             is given by --vs"
        ),
        false => String::new(),
    }
}

/// Takes over the runs that the file has of these commands.
fn resume(args: &MeasureArgs, measured: &mut [Measured]) -> Result<()> {
    let Some(file) = args.csv.as_ref().filter(|file| file.exists()) else {
        return Ok(());
    };
    let bad = |e: anyhow::Error| Failure::new(Exit::BadData, format!("{e:#}"));
    let there = match store::read(file) {
        Ok(there) => there,
        Err(error) if error.to_string().contains("holds no runs") => return Ok(()),
        Err(error) => return Err(bad(error).into()),
    };
    for (i, m) in measured.iter().enumerate() {
        let is_same = |t: &Measured| t.label == m.label && t.labels == m.labels;
        if measured[..i].iter().any(is_same) {
            let text = format!(
                "--resume cannot tell two `{}` apart: give each a --name",
                m.label
            );
            return Err(Failure::new(Exit::Usage, text).into());
        }
    }
    for m in measured {
        let same = |t: &&Measured| t.label == m.label && t.labels == m.labels;
        if let Some(known) = there.iter().find(same) {
            m.samples.clone_from(&known.samples);
        }
    }
    Ok(())
}

/// What a measurement works with while it runs.
struct Session<'a> {
    args: &'a MeasureArgs,
    interrupt: Interrupt,
    agent: Agent,
    store: Option<Store>,
    hooks: Hooks<'a>,
    progress: Progress,
    /// Where what a command prints is kept to be searched for its figures.
    output_file: Option<PathBuf>,
}

impl<'a> Session<'a> {
    fn begin(
        args: &'a MeasureArgs,
        common: &Common,
        labels: &Labels,
        measured: &[Measured],
    ) -> Result<Self> {
        let own = || args.metric.iter().map(|(name, _)| name.clone()).collect();
        let mut keys: Labels = labels.clone();
        keys.extend(measured.iter().flat_map(|m| m.labels.clone()));
        let mode = match args.append || args.resume {
            true => Mode::Append,
            false => Mode::Replace,
        };
        let open = |file: &PathBuf| {
            let opened = Store::open(file, mode, keys.keys().cloned().collect(), own());
            opened.map_err(|e| Failure::new(Exit::BadData, format!("{e:#}")))
        };
        let output_file = || {
            let name = format!("creel-measure-{}.out", std::process::id());
            std::env::temp_dir().join(name)
        };
        let runs = args.runs.map_or(RUNS_LEAST, |n| n as usize) + args.warmup as usize;
        Ok(Self {
            args,
            interrupt: Interrupt::install()?,
            store: args.csv.as_ref().map(open).transpose()?,
            agent: Agent::start()?,
            hooks: Hooks::new(args),
            progress: Progress::new((runs * measured.len()) as u64, "runs", common.quiet),
            output_file: (!args.metric.is_empty()).then(output_file),
        })
    }

    /// Round after round, each command once a round, until it is enough.
    fn rounds(&mut self, subjects: &[Subject], measured: &mut [Measured]) -> Result<()> {
        for subject in subjects {
            self.hooks.setup(subject)?;
        }
        for _ in 0..self.args.warmup {
            for subject in subjects {
                self.once(subject)?;
            }
        }
        let begin = Instant::now();
        while !self.enough(measured, begin.elapsed()) {
            for (subject, m) in subjects.iter().zip(&mut *measured) {
                if self
                    .args
                    .runs
                    .is_some_and(|n| m.samples.len() >= n as usize)
                {
                    continue;
                }
                let sample = self.once(subject)?;
                m.samples.push(sample.clone());
                if let Some(store) = &mut self.store {
                    store.add(m, &sample)?;
                }
            }
        }
        Ok(())
    }

    fn enough(&self, measured: &[Measured], elapsed: Duration) -> bool {
        let runs = measured.iter().map(|m| m.samples.len()).min().unwrap_or(0);
        if let Some(n) = self.args.runs {
            return runs >= n as usize;
        }
        let narrow = |m: &Measured| {
            let wall = m.values(WALL).and_then(|walls| Summary::of(&walls));
            wall.is_some_and(|s| {
                s.ci95
                    .is_some_and(|half| half <= s.mean * self.args.within / 100.0)
            })
        };
        let most = self.args.at_most * measured.len() as f64;
        let spent = elapsed.as_secs_f64() >= most || runs >= RUNS_MOST;
        runs >= RUNS_LEAST && (spent || measured.iter().all(narrow))
    }

    /// One run, and what its output says.
    fn once(&mut self, subject: &Subject) -> Result<Sample> {
        self.progress.set_message(subject.label.clone());
        self.rest()?;
        self.hooks.prepare(subject)?;
        if let Some(file) = &self.output_file {
            fs::write(file, "").with_context(|| format!("cannot write {}", file.display()))?;
        }
        let args = self.args;
        let words = subject.command.iter().map(|word| word.as_bytes().to_vec());
        let request = RunRequest {
            words: words.collect(),
            show_stdout: args.show_stdout || args.show_output,
            show_stderr: args.show_stderr || args.show_output,
            output_file: self.output_file.clone(),
            timeout_s: args.timeout,
            linger_s: args.linger,
        };
        let outcome = self.agent.run(&request, &self.interrupt);
        self.interrupt.check()?;
        let outcome = outcome.map_err(|e| {
            let hint = hint(&subject.command[0]);
            Failure::new(Exit::Usage, format!("{e:#}{hint}"))
        })?;
        self.progress.advance(1);
        let label = &subject.label;
        if outcome.ended > 0 {
            self.progress.println(&format!(
                "`{label}`: {} that outlived it {} ended",
                processes(outcome.ended),
                if outcome.ended == 1 { "was" } else { "were" },
            ));
        }
        if outcome.timed_out && !args.ignore_failure {
            bail!("`{label}` took longer than --timeout allows");
        }
        if outcome.exit_code != 0 && !args.ignore_failure {
            bail!(
                "`{label}` ended with exit code {}; --show-output shows what it says, \
                 --ignore-failure counts it all the same",
                outcome.exit_code
            );
        }
        let mut sample = Sample {
            exit_code: outcome.exit_code,
            values: outcome.values,
        };
        if let Some(file) = &self.output_file {
            self.search(file, label, &mut sample)?;
        }
        Ok(sample)
    }

    /// Records the program's own figures.
    fn search(&self, file: &Path, label: &str, sample: &mut Sample) -> Result<()> {
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        for (name, regex) in &self.args.metric {
            let last = regex.captures_iter(&text).last();
            let Some(found) = last.as_ref().and_then(|captures| captures.get(1)) else {
                bail!("`{label}` printed nothing that matches --metric {name}={regex}");
            };
            let number = found.as_str().replace(['_', '\'', ','], "");
            let number: f64 = number
                .parse()
                .with_context(|| format!("--metric {name}: `{}` is no number", found.as_str()))?;
            sample.set(name, Some(number));
        }
        Ok(())
    }

    /// Sleeps, in steps short enough for Ctrl-C.
    fn rest(&self) -> Result<()> {
        let end = Instant::now() + Duration::from_secs_f64(self.args.cooldown);
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.interrupt.check()?;
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        Ok(self.interrupt.check()?)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(file) = &self.output_file {
            // Nothing is lost with it.
            let _ = fs::remove_file(file);
        }
    }
}

/// The inner process: it begins before all else, because what this process allocates, the
/// commands start with.
pub fn run_runner() -> Result<Exit> {
    runner::serve()?;
    Ok(Exit::Done)
}
