//! `creel advise` runs a program with several settings and recommends the best one.
//!
//! `creel run` chooses a number of threads from the limits of the machine. Some programs are faster
//! with fewer threads, for example because they wait for memory. Only a measurement shows that.

mod report;
mod search;

use crate::{
    measure::{
        agent::Agent,
        args::Where,
        runner::{Outcome, RunRequest},
    },
    options::limits,
    run::{
        plan::{self, Plan, Request},
        runtime::{self, Runtime},
    },
};
use anyhow::{Context, Result, bail};
use clap::Args;
use creel_console::{Common, Exit, Interrupt, Progress, duration, knobs, output};
use creel_topology::{Budget, Machine, Placement, affinity};
use report::Report;
use search::{Cost, Runs};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Find the number of threads and the placement with which a program is fastest
///
/// creel runs the program with several numbers of threads and several placements. The settings take
/// turns, and creel stops early with those that are slower beyond noise. At the end, it prints the
/// setting to use, with its cost in time, CPU and memory, as lines to copy. If no setting is better
/// than the program's own beyond noise, it says so.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel advise -- ./simulation input
          Find the best setting within a minute
  creel advise --budget 10m --sizes 1,2,4,8 -- java -jar batch.jar
          Try these numbers of threads
  creel advise --format json -- ./simulation input
          Print all runs and the recommendation as JSON

The program must end by itself, and do the same work in each run.

Exit codes:
  0         success
  1         the program failed with every setting
  2         the command line is wrong
  127       the program does not exist
  130, 143  interrupted by Ctrl-C, or terminated by SIGTERM")]
pub struct AdviseArgs {
    /// Take about TIME for all runs together; each setting runs at least once
    #[arg(
        long,
        default_value = "60s",
        value_name = "TIME",
        value_parser = duration::positive
    )]
    budget: Duration,
    /// Try these numbers of workers [default: powers of two, the limits, and the numbers around the
    /// best one]
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        value_parser = knobs::jobs
    )]
    sizes: Vec<usize>,
    /// Treat the program as this runtime if creel cannot detect it: java, go, ghc, python, erlang,
    /// …
    #[arg(long = "as", value_name = "RUNTIME", value_parser = runtime::runtime_named)]
    runtime: Option<Runtime>,
    /// Read the stdin of the program from FILE [default: an empty file]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The program to run and its arguments; creel reads no options after it
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// The placements that we try with the best number of workers.
const PLACEMENTS: [Placement; 2] = [Placement::Close, Placement::Spread];

/// One setting to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The number of workers, or `None` for the program without creel.
    pub jobs: Option<usize>,
    pub placement: Placement,
}

/// A setting with its runs.
pub struct Candidate {
    pub setting: Setting,
    /// `None` for the program without creel.
    pub plan: Option<Plan>,
    request: RunRequest,
}

/// Runs `creel advise`.
pub fn advise(args: &AdviseArgs, common: &Common, verbose: bool) -> Result<Exit> {
    let mut trial = Trial::begin(args, common)?;
    let machine = Machine::detect()?;
    if verbose {
        output::note(&limits(&Budget::of(&machine)));
    }
    let pus = machine.allowed().len();
    let sizes = match args.sizes.is_empty() {
        true => sizes(Budget::of(&machine).workers(), pus),
        false => args.sizes.clone(),
    };
    trial.add(None, Placement::Unpinned)?;
    for jobs in sizes {
        trial.add_size(jobs)?;
    }
    // Half of the time is for the numbers of workers, and the rest for neighbouring numbers and
    // the placements.
    trial.run(0.5)?;
    let best = trial.candidates[search::best(&trial.runs)].setting.clone();
    if let Some(jobs) = best.jobs {
        if args.sizes.is_empty() {
            for near in [jobs * 3 / 4, jobs * 3 / 2] {
                if (1..=pus * 2).contains(&near) && near != jobs {
                    trial.add_size(near)?;
                }
            }
        }
        // The system places a single worker well, and a mask would keep it from moving.
        if best.placement == Placement::Unpinned && jobs > 1 {
            for placement in PLACEMENTS {
                trial.add(Some(jobs), placement)?;
            }
        }
    }
    trial.run(1.0)?;
    let chosen = search::best(&trial.runs);
    if trial.runs.iter().all(|runs| runs.costs.is_empty()) {
        bail!("the program failed with every setting: run it alone to see its messages");
    }
    trial.progress.finish();
    Report::new(&trial.candidates, &trial.runs, chosen, &args.command).print(common)?;
    Ok(Exit::Done)
}

/// Returns the numbers of workers to try: powers of two up to the number of PUs, and the limits.
fn sizes(budget: usize, pus: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|&n| n < pus);
    let mut all: Vec<usize> = powers.chain([budget, pus]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The measurement.
struct Trial<'a> {
    args: &'a AdviseArgs,
    agent: Agent,
    interrupt: Interrupt,
    progress: Progress,
    begin: Instant,
    candidates: Vec<Candidate>,
    /// The runs of each candidate.
    runs: Vec<Runs>,
}

impl<'a> Trial<'a> {
    fn begin(args: &'a AdviseArgs, common: &Common) -> Result<Self> {
        Ok(Self {
            args,
            // The agent starts before a plan narrows the mask of this process.
            agent: Agent::start()?,
            interrupt: Interrupt::install()?,
            progress: Progress::new(args.budget.as_secs(), "s", common.quiet),
            begin: Instant::now(),
            candidates: Vec::new(),
            runs: Vec::new(),
        })
    }

    /// Adds a number of workers. A program without a setting for it is narrowed to that many cores.
    fn add_size(&mut self, jobs: usize) -> Result<()> {
        self.add(Some(jobs), Placement::Unpinned)?;
        let has_setting = |candidate: &Candidate| {
            let plan = candidate.plan.as_ref();
            plan.is_some_and(|plan| plan.applied().next().is_some())
        };
        let is_sized = self.candidates.last().is_some_and(has_setting);
        if !is_sized {
            self.add(Some(jobs), Placement::Cores)?;
        }
        Ok(())
    }

    /// Adds a setting, unless another one does the same.
    fn add(&mut self, jobs: Option<usize>, placement: Placement) -> Result<()> {
        let plan = match jobs {
            Some(jobs) => Some(self.plan(jobs, &placement)?),
            None => None,
        };
        let command = plan.as_ref().map_or_else(
            || self.args.command.clone(),
            |p| p.command(&self.args.command),
        );
        let bytes = |text: &OsStr| text.as_bytes().to_vec();
        let variables = plan.iter().flat_map(Plan::variables);
        let request = RunRequest {
            words: command.iter().map(|word| bytes(word)).collect(),
            variables: variables
                .map(|(name, value)| (name.into(), bytes(&value)))
                .collect(),
            mask: plan
                .as_ref()
                .and_then(|p| p.mask.as_ref())
                .map(ToString::to_string),
            show_stderr: false,
            input: self.args.input.clone(),
            output: Where::Null,
            output_file: None,
            timeout_s: Some(self.args.budget.as_secs_f64()),
            linger_s: 1.0,
        };
        let is_same = |known: &Candidate| {
            let key = |r: &RunRequest| (r.words.clone(), r.variables.clone(), r.mask.clone());
            key(&known.request) == key(&request)
        };
        if !self.candidates.iter().any(is_same) {
            self.candidates.push(Candidate {
                setting: Setting { jobs, placement },
                plan,
                request,
            });
            self.runs.push(Runs::default());
        }
        Ok(())
    }

    /// Returns the plan of `creel run` for a setting.
    fn plan(&self, jobs: usize, placement: &Placement) -> Result<Plan> {
        let request = Request {
            jobs: Some(jobs),
            placement: placement.clone(),
            runtime: self.args.runtime,
            explained: true,
            ..Request::default()
        };
        // Making a plan narrows the mask of this thread, because in `creel run` this process
        // becomes the program. We restore the mask, because `creel advise` keeps running.
        let own = affinity::current();
        let mut plan = plan::make(&self.args.command, &request);
        if let Ok(own) = own {
            affinity::set(&own).context("cannot restore the affinity mask")?;
        }
        if let Ok(plan) = &mut plan {
            // Only a nested `creel run` and Creel's C library obey this variable. Other programs
            // ignore it, so two settings that differ only in it would be the same.
            let is_ours = |name: &str| name == plan::JOBS_VARIABLE;
            plan.settings.retain(|setting| !is_ours(setting.knob.name));
        }
        plan
    }

    /// Runs the candidates in turns until the answer is clear, or until this share of the budget is
    /// used up. The share counts from the start of the program.
    fn run(&mut self, share: f64) -> Result<()> {
        let end = self.args.budget.mul_f64(share);
        loop {
            // Candidates that were added later catch up first.
            let open = || self.runs.iter().filter(|runs| !runs.is_dropped);
            let rounds = open().map(|runs| runs.costs.len()).min().unwrap_or(0);
            let is_over = self.begin.elapsed() >= end && rounds > 0;
            if is_over || search::is_decided(&self.runs) {
                return Ok(());
            }
            let behind = |runs: &Runs| !runs.is_dropped && runs.costs.len() == rounds;
            let turn: Vec<usize> = (0..self.runs.len())
                .filter(|&i| behind(&self.runs[i]))
                .collect();
            for i in turn {
                self.once(i)?;
                if self.begin.elapsed() >= end && rounds > 0 {
                    break;
                }
            }
            search::prune(&mut self.runs, 0);
        }
    }

    /// Runs a candidate once.
    fn once(&mut self, i: usize) -> Result<()> {
        let candidate = &self.candidates[i];
        self.progress.set_message(candidate.setting.to_string());
        let outcome = self.agent.run(&candidate.request, &self.interrupt);
        self.interrupt.check()?;
        let outcome = outcome?;
        let seconds = self
            .begin
            .elapsed()
            .as_secs()
            .min(self.args.budget.as_secs());
        self.progress
            .advance(seconds.saturating_sub(self.progress.done()));
        if outcome.timed_out {
            bail!(
                "the program did not end within --budget: give it less work, or use a larger budget"
            );
        }
        match cost(&outcome) {
            Some(cost) => self.runs[i].costs.push(cost),
            None if i == 0 => bail!(
                "the program failed with exit code {}: run it alone to see its messages",
                outcome.exit_code
            ),
            None => self.runs[i].is_dropped = true,
        }
        Ok(())
    }
}

/// Returns the cost of a run, or `None` if it has failed.
fn cost(outcome: &Outcome) -> Option<Cost> {
    let value = |name: &str| outcome.values.get(name).copied();
    (outcome.exit_code == 0).then_some(())?;
    Some(Cost {
        wall_s: value("wall_s")?,
        cpu_s: value("cpu_s")?,
        peak_bytes: value("peak_rss_bytes").unwrap_or(0.0),
    })
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.jobs, &self.placement) {
            (None, _) => f.write_str("as it is"),
            (Some(1), Placement::Unpinned) => f.write_str("1 worker"),
            (Some(n), Placement::Unpinned) => write!(f, "{n} workers"),
            (Some(n), placement) => write!(f, "{n}, {placement}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sizes;

    #[test]
    fn sizes_contain_the_limits() {
        assert_eq!(sizes(1, 1), [1]);
        assert_eq!(sizes(2, 2), [1, 2]);
        assert_eq!(sizes(6, 12), [1, 2, 4, 6, 8, 12]);
        assert_eq!(sizes(1, 4), [1, 2, 4]);
    }
}
