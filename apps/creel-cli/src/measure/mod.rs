//! `creel measure` measures the cost of a command over several runs, alone or compared with others.

#[cfg_attr(not(target_os = "linux"), path = "portable_agent.rs")]
pub(crate) mod agent;
pub(crate) mod args;
mod article;
#[cfg(target_os = "linux")]
mod counters;
mod hooks;
mod plan;
mod report;
pub(crate) mod request;
#[cfg(target_os = "linux")]
pub(crate) mod runner;
mod sample;
mod store;
mod verdict;

use crate::drawing;
use agent::Agent;
#[cfg(target_os = "linux")]
pub use agent::RUNNER_COMMAND;
use anyhow::{Context, Result, bail};
pub use args::MeasureArgs;
use args::{Ignored, Order, Where};
use creel_console::{Common, Exit, Failure, Format, Interrupt, Progress, energy, exit_of, output};
use creel_stats::Summary;
use creel_topology::Machine;
use hooks::Hooks;
use plan::{Labels, MeasureRequest, Subject};
use request::{RunRequest, processes};
use sample::{Sample, WALL};
use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use store::{Measured, Mode, Store};
use tempfile::NamedTempFile;

/// The smallest number of runs of a command without `-n`.
const RUNS_LEAST: usize = 5;
/// The largest number of runs of a command.
const RUNS_MOST: usize = 10_000;

/// Runs `creel measure`.
pub fn measure(args: &MeasureArgs, common: &Common, verbose: bool) -> Result<Exit> {
    let shows = args.show_stdout || args.show_output || args.output == Some(Where::Inherit);
    let mixes = shows && common.format != Format::Text;
    if mixes {
        let text = "--show-stdout and --output inherit would mix the output of the command with the \
                    data: leave out --format, or use --csv FILE";
        return Err(Failure::new(Exit::Usage, text).into());
    }
    let rows = args.csv.as_deref().is_some_and(drawing::is_stdout);
    if rows && (args.append || args.resume || shows) {
        let text = "`--csv -` writes to stdout, so it cannot be combined with --append, --resume, \
                    --show-stdout or --show-output: use --csv FILE";
        return Err(Failure::new(Exit::Usage, text).into());
    }
    let (measured, ended) = if args.from.is_empty() {
        run_all(args, common)?
    } else {
        (read_all(&args.from).map_err(bad_data)?, Ok(()))
    };
    if !common.quiet {
        measured
            .iter()
            .filter_map(failures)
            .for_each(|line| output::note(&line));
    }
    if measured.iter().any(|m| !m.samples.is_empty()) {
        print(&measured, args, common, verbose)?;
    }
    ended.map(|()| Exit::Done)
}

/// Returns a line about the runs of a command that failed and that we count.
fn failures(measured: &Measured) -> Option<String> {
    let failed = || measured.samples.iter().filter(|s| s.exit_code != 0);
    let last = failed().next_back()?.exit_code;
    Some(format!(
        "creel: `{}`: {} of {} runs failed (exit code {last})\n",
        measured.label,
        failed().count(),
        measured.samples.len(),
    ))
}

/// Adds the exit code to an error about a file with runs. A file that does not exist or cannot be
/// written gets another code than a file with bad data.
fn bad_data(error: anyhow::Error) -> Failure {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    let is_bad = |cause: &io::Error| cause.kind() == io::ErrorKind::InvalidData;
    let exit = match causes.any(|cause| !is_bad(cause)) {
        true => Exit::SomeFailed,
        false => Exit::BadData,
    };
    Failure::new(exit, format!("{error:#}"))
}

fn print(measured: &[Measured], args: &MeasureArgs, common: &Common, verbose: bool) -> Result<()> {
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
            match args.sort {
                Order::Command => report::text(measured, args.markdown)?,
                Order::MeanTime => report::text(&store::by_time(measured), args.markdown)?,
            }
            if let Some(reason) = missing_energy.filter(|_| verbose) {
                output::note(&format!("creel: {reason}\n"));
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

const NO_ENERGY: &str = "energy is not measured, because no counter in /sys/class/powercap is \
                         readable: virtual machines have none, and on others only root may read it";

/// Returns the commands of all files. A command that is in several files gets the name of its file
/// as a prefix.
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

/// Measures everything. Returns the runs, and whether the measurement succeeded. The runs before a
/// failure or an interrupt count.
fn run_all(args: &MeasureArgs, common: &Common) -> Result<(Vec<Measured>, Ended)> {
    let request = MeasureRequest {
        command: &args.command,
        reference: args.reference.as_deref(),
        versus: &args.vs,
        shell: args.shell.as_deref(),
        names: &args.name,
        matrix: [&args.matrix[..], &args.scan[..]].concat(),
        is_aa_control: args.aa,
    };
    let subjects =
        plan::subjects(&request).map_err(|e| Failure::new(Exit::Usage, format!("{e:#}")))?;
    // A hook may build the programs.
    if args.setup.is_none() && args.prepare.is_none() {
        subjects.iter().try_for_each(|s| is_there(&s.command[0]))?;
    }
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

/// Checks that a program exists, so that no command runs if another one cannot be started.
fn is_there(program: &OsStr) -> Result<()> {
    agent::find(program).map_err(|error| unstarted(program, &error))
}

/// Returns the error of a program that could not be started.
fn unstarted(program: &OsStr, error: &anyhow::Error) -> anyhow::Error {
    let hint = hint(program);
    let exit = match hint.is_empty() {
        true => exit_of(error),
        false => Exit::Usage,
    };
    Failure::new(exit, format!("{error:#}{hint}")).into()
}

/// Returns a hint for users of programs such as hyperfine, which take a whole command as one word.
fn hint(program: &OsStr) -> String {
    let program = program.to_string_lossy();
    match program.contains(char::is_whitespace) {
        true => format!(
            "; give the words of the command separately: `creel measure -- {program}`, and use \
             --vs for another command"
        ),
        false => String::new(),
    }
}

/// Copies the runs of these commands from the file.
fn resume(args: &MeasureArgs, measured: &mut [Measured]) -> Result<()> {
    let Some(file) = args.csv.as_ref().filter(|file| file.exists()) else {
        return Ok(());
    };
    let there = match store::read(file) {
        Ok(there) => there,
        Err(error) if error.to_string().contains("holds no runs") => return Ok(()),
        Err(error) => return Err(bad_data(error).into()),
    };
    for (i, m) in measured.iter().enumerate() {
        let is_same = |t: &Measured| t.label == m.label && t.labels == m.labels;
        if measured[..i].iter().any(is_same) {
            let text = format!(
                "--resume cannot distinguish two commands `{}`: give each one a --name",
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

/// The state of a measurement while it runs.
struct Session<'a> {
    args: &'a MeasureArgs,
    interrupt: Interrupt,
    agent: Agent,
    store: Option<Store>,
    hooks: Hooks<'a>,
    progress: Progress,
    /// The file that holds the output of a command, in which we search for `--metric`.
    output_file: Option<NamedTempFile>,
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
            opened.map_err(bad_data)
        };
        // The name is unpredictable, and only this user may read the file. Otherwise, another user
        // could prepare a link with that name, and we would write to the target of the link.
        let output_file = match args.metric.is_empty() {
            true => None,
            false => Some(NamedTempFile::with_prefix("creel-measure-")?),
        };
        let runs = args.runs.map_or(RUNS_LEAST, |n| n as usize) + args.warmup as usize;
        Ok(Self {
            args,
            interrupt: Interrupt::install()?,
            store: args.csv.as_ref().map(open).transpose()?,
            agent: Agent::start()?,
            hooks: Hooks::new(args),
            progress: Progress::new((runs * measured.len()) as u64, "runs", common.quiet),
            output_file,
        })
    }

    /// Runs each command once per round, until there are enough runs.
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
        let most = self.args.at_most.as_secs_f64() * measured.len() as f64;
        let spent = elapsed.as_secs_f64() >= most || runs >= RUNS_MOST;
        runs >= RUNS_LEAST && (spent || measured.iter().all(narrow))
    }

    /// Runs a command once and searches its output.
    fn once(&mut self, subject: &Subject) -> Result<Sample> {
        self.progress.set_message(subject.label.clone());
        self.rest()?;
        self.hooks.prepare(subject)?;
        if let Some(file) = &self.output_file {
            file.as_file().set_len(0).context(
                "cannot empty the temporary file that receives the output of the command",
            )?;
        }
        let args = self.args;
        let request = RunRequest {
            words: subject.command.clone(),
            variables: Vec::new(),
            mask: None,
            show_stderr: args.show_stderr || args.show_output,
            input: args.input.clone(),
            output: match &args.output {
                _ if args.show_stdout || args.show_output => Where::Inherit,
                Some(output) => output.clone(),
                None => Where::Null,
            },
            output_file: self.output_file.as_ref().map(|file| file.path().to_owned()),
            timeout_s: args.timeout.map(|timeout| timeout.as_secs_f64()),
            linger_s: args.linger.as_secs_f64(),
        };
        let outcome = self.agent.run(&request, &self.interrupt);
        self.interrupt.check()?;
        let outcome = outcome.map_err(|error| unstarted(&subject.command[0], &error))?;
        self.progress.advance(1);
        let label = &subject.label;
        if outcome.ended > 0 {
            self.progress.println(&format!(
                "creel: `{label}`: {} that outlived the command {} ended",
                processes(outcome.ended),
                if outcome.ended == 1 { "was" } else { "were" },
            ));
        }
        let ignored = args.ignore_failure.as_ref();
        if outcome.timed_out && !ignored.is_some_and(Ignored::has_all) {
            bail!(
                "`{label}` took longer than --timeout, so creel has ended it: use a longer \
                 --timeout, or --ignore-failure to count such runs"
            );
        }
        let code = outcome.exit_code;
        if code != 0 && !outcome.timed_out && !ignored.is_some_and(|ignored| ignored.has(code)) {
            bail!(
                "`{label}` failed with exit code {}: use --show-output to see its messages, or \
                 --ignore-failure to count failed runs",
                outcome.exit_code
            );
        }
        let mut sample = Sample {
            exit_code: outcome.exit_code,
            values: outcome.values,
        };
        if let Some(file) = &self.output_file {
            self.search(file.path(), label, &mut sample)?;
        }
        Ok(sample)
    }

    /// Records the numbers that `--metric` finds in the output.
    fn search(&self, file: &Path, label: &str, sample: &mut Sample) -> Result<()> {
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        for (name, regex) in &self.args.metric {
            let last = regex.captures_iter(&text).last();
            let Some(found) = last.as_ref().and_then(|captures| captures.get(1)) else {
                bail!(
                    "--metric {name}={regex}: nothing that `{label}` has printed matches: use \
                     --show-output to see what it prints"
                );
            };
            let number = found.as_str().replace(['_', '\'', ','], "");
            let number: f64 = number.parse().with_context(|| {
                format!(
                    "--metric {name}: the group of the regular expression matches `{}`, which is \
                     not a number",
                    found.as_str()
                )
            })?;
            sample.set(name, Some(number));
        }
        Ok(())
    }

    /// Sleeps for `--cooldown`, in steps short enough to react to Ctrl-C.
    fn rest(&self) -> Result<()> {
        let end = Instant::now() + self.args.cooldown;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.interrupt.check()?;
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        Ok(self.interrupt.check()?)
    }
}

/// Runs the inner process, which exists only on Linux. It starts before we parse anything, because each command starts with the
/// memory that this process has allocated.
#[cfg(target_os = "linux")]
pub fn run_runner() -> Result<Exit> {
    runner::serve()?;
    Ok(Exit::Done)
}
