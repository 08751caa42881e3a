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
        request::{Outcome, RunRequest},
    },
    options::limits,
    run::{
        load::Load,
        plan::{self, Plan, Request},
        runtime::{self, Runtime},
    },
};
use anyhow::{Context, Result, bail};
use clap::Args;
use creel_console::{Common, Exit, Interrupt, Progress, duration, knobs, output};
use creel_stats::noise::Noise;
use creel_topology::{Budget, Machine, Placement, affinity};
use report::Report;
use rustix::event::{PollFd, PollFlags, poll};
use search::{Cost, Dropped, Runs};
use std::{
    ffi::OsString,
    fs,
    io::{IsTerminal, stdin},
    os::unix::fs::FileTypeExt,
    path::PathBuf,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Find the number of threads and the placement with which a program is fastest
///
/// creel runs the program with several numbers of threads and several placements. The settings take
/// turns in a random order, and creel stops early with those that are slower beyond noise. It ends
/// runs that take several times as long as the program without creel. At the end, it prints the
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

The program must end by itself, and do the same work in each run. Its output is discarded.

Exit codes:
  0         success
  1         the program failed with every setting
  2         the command line is wrong
  127       the program does not exist
  130, 143  interrupted by Ctrl-C, or terminated by SIGTERM")]
pub struct AdviseArgs {
    /// Take about TIME for all runs together. Each setting (a number of threads and a placement)
    /// runs at least once
    #[arg(
        long,
        default_value = "60s",
        value_name = "TIME",
        value_parser = duration::positive
    )]
    budget: Duration,
    /// Try these numbers of workers [default: powers of two, the number of CPUs and twice that
    /// number, the number that the limits allow, and the numbers around the fastest one]
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        value_parser = knobs::jobs
    )]
    sizes: Vec<usize>,
    /// Name the runtime of the program if creel cannot detect it: java, go, ghc, python, erlang, …
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
/// The largest number of workers that we try by ourselves, per PU.
const WORKERS_MOST: usize = 16;
/// We end a run that takes this factor longer than the program without creel, and takes longer than
/// [`STOPPED_LEAST`].
const STOPPED: f64 = 5.0;
const STOPPED_LEAST: Duration = Duration::from_secs(1);
/// The share of the budget that a run may take if the program without creel did not end.
const OTHERS_MOST: f64 = 0.25;
/// The first run fills the caches of the system. It does not count if it takes at most this share
/// of the budget.
const WARM_UP: f64 = 0.05;

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
    /// The plan of `creel run` for this setting, or `None` for the program without creel.
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
    trial.warm_up()?;
    let mut most = sizes.iter().copied().max().unwrap_or(1);
    for jobs in sizes {
        trial.add_size(jobs)?;
    }
    // Half of the time is for the numbers of workers, and the rest for more workers, for
    // neighbouring numbers, and for the placements.
    for share in [0.5, 0.6, 0.7] {
        trial.run(share)?;
        let is_most = trial
            .best_size()
            .is_some_and(|best| best.jobs == Some(most));
        let is_late = trial.begin.elapsed() > args.budget.mul_f64(0.7);
        if !is_most || is_late || !args.sizes.is_empty() || most * 2 > pus * WORKERS_MOST {
            break;
        }
        most *= 2;
        trial.add_size(most)?;
    }
    if let Some(best) = trial.best_size()
        && let Some(jobs) = best.jobs
        && trial.begin.elapsed() < args.budget
    {
        if args.sizes.is_empty() {
            for near in [jobs * 3 / 4, jobs * 3 / 2] {
                if (1..=pus * WORKERS_MOST).contains(&near) && near != jobs {
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
    if !trial.runs.iter().any(Runs::is_usable) {
        bail!(trial.failure());
    }
    let chosen = search::best(&trial.runs);
    trial.progress.finish();
    Report::new(&trial.candidates, &trial.runs, chosen, &args.command).print(common)?;
    Ok(Exit::Done)
}

/// Returns the numbers of workers to try: powers of two up to the number of PUs, the limits, and
/// twice the number of PUs. With more workers than PUs, a program that waits for something else can
/// be faster.
fn sizes(budget: usize, pus: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|&n| n < pus);
    let mut all: Vec<usize> = powers.chain([budget, pus, 2 * pus]).collect();
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
    /// The number of rounds until now.
    rounds: usize,
    /// The longest time of the program without creel.
    own_s: Option<f64>,
    noise: Noise,
    /// The load of other programs. Later, our own runs would be a part of it, and the settings of a
    /// candidate would depend on the time when we have added it.
    load: Load,
}

impl<'a> Trial<'a> {
    fn begin(args: &'a AdviseArgs, common: &Common) -> Result<Self> {
        let mut load = Load::read();
        load.sample();
        Ok(Self {
            args,
            load,
            // The agent is the process that runs the commands. We start it before the plan of
            // a candidate narrows the affinity mask of this thread, so that it inherits the whole
            // mask.
            agent: Agent::start()?,
            interrupt: Interrupt::install()?,
            progress: Progress::new(args.budget.as_secs(), "s", common.quiet),
            begin: Instant::now(),
            candidates: Vec::new(),
            runs: Vec::new(),
            rounds: 0,
            own_s: None,
            noise: Noise(seed()),
        })
    }

    /// Runs the program without creel once.
    fn warm_up(&mut self) -> Result<()> {
        self.once(0)?;
        if self
            .own_s
            .is_some_and(|s| s <= self.args.budget.as_secs_f64() * WARM_UP)
        {
            self.runs[0].costs.clear();
        }
        if self.args.input.is_none() && is_data_waiting() {
            output::note(
                "creel: the program does not get the data on stdin, because it runs several times: \
                 use --input FILE\n",
            );
        }
        Ok(())
    }

    /// Returns the fastest of the settings with a number of workers, unless all of them are slower
    /// than the program without creel.
    fn best_size(&self) -> Option<Setting> {
        let mut sized = self.runs.clone();
        let all = self.candidates.iter().zip(&mut sized);
        for (_, runs) in all.filter(|(candidate, _)| candidate.setting.jobs.is_none()) {
            runs.dropped.get_or_insert(Dropped::Slower);
        }
        let best = search::fastest(&sized);
        sized[best]
            .is_open()
            .then(|| self.candidates[best].setting.clone())
    }

    /// Adds a number of workers. A program without a setting for it is narrowed to that many cores.
    fn add_size(&mut self, jobs: usize) -> Result<()> {
        let is_sized = self.add(Some(jobs), Placement::Unpinned)?;
        if !is_sized {
            self.add(Some(jobs), Placement::Cores)?;
        }
        Ok(())
    }

    /// Adds a setting, unless another one does the same. Returns whether creel sets anything in the
    /// program.
    fn add(&mut self, jobs: Option<usize>, placement: Placement) -> Result<bool> {
        let plan = match jobs {
            Some(jobs) => Some(self.plan(jobs, &placement)?),
            None => None,
        };
        let is_sized = plan
            .as_ref()
            .is_some_and(|plan| plan.applied().next().is_some());
        let command = plan.as_ref().map_or_else(
            || self.args.command.clone(),
            |p| p.command(&self.args.command),
        );
        let variables = plan.iter().flat_map(Plan::variables);
        let request = RunRequest {
            words: command,
            variables: variables
                .map(|(name, value)| (name.into(), value))
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
        Ok(is_sized)
    }

    /// Returns the plan of `creel run` for a setting.
    fn plan(&self, jobs: usize, placement: &Placement) -> Result<Plan> {
        let request = Request {
            jobs: Some(jobs),
            placement: placement.clone(),
            runtime: self.args.runtime,
            load: Some(self.load),
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
        while !self.is_over(end) && !search::is_decided(&self.runs) {
            let has_run = |runs: &Runs| runs.costs.last().is_some_and(|c| c.0 == self.rounds);
            let turn = (0..self.runs.len()).filter(|&i| {
                let runs = &self.runs[i];
                runs.is_open() && !has_run(runs)
            });
            for i in search::shuffled(turn.collect(), &mut self.noise) {
                self.once(i)?;
                // Without a run of the program as it is, we could not compare the other runs of
                // this round with it.
                let own = &self.runs[0];
                let is_compared =
                    !own.is_open() || own.costs.last().is_some_and(|c| c.0 == self.rounds);
                if is_compared && self.is_over(end) {
                    break;
                }
            }
            self.rounds += 1;
            search::prune(&mut self.runs);
        }
        Ok(())
    }

    /// Returns whether the time is over and every candidate has run.
    fn is_over(&self, end: Duration) -> bool {
        let has_run = |runs: &Runs| !runs.is_open() || !runs.costs.is_empty();
        self.begin.elapsed() >= end && self.runs.iter().all(has_run)
    }

    /// Runs a candidate once.
    fn once(&mut self, i: usize) -> Result<()> {
        let limit = self.limit(i);
        let candidate = &mut self.candidates[i];
        candidate.request.timeout_s = Some(limit.as_secs_f64());
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
        let runs = &mut self.runs[i];
        if outcome.timed_out {
            runs.dropped = Some(Dropped::Stopped(limit));
        } else if let Some(cost) = cost(&outcome) {
            runs.costs.push((self.rounds, cost));
            if i == 0 {
                self.own_s = Some(self.own_s.unwrap_or(0.0).max(cost.wall_s));
            }
        } else {
            runs.dropped = Some(Dropped::Failed(outcome.exit_code));
            let failed = |runs: &&Runs| matches!(runs.dropped, Some(Dropped::Failed(_)));
            let is_hopeless = self.runs.iter().filter(failed).count() > 1;
            if is_hopeless && !self.runs.iter().any(Runs::is_usable) {
                bail!(self.failure());
            }
        }
        Ok(())
    }

    /// Returns the longest time that a run of a candidate may take.
    fn limit(&self, i: usize) -> Duration {
        let budget = self.args.budget;
        if i == 0 {
            return budget;
        }
        match self.own_s {
            Some(own) => Duration::from_secs_f64(own * STOPPED)
                .max(STOPPED_LEAST)
                .min(budget),
            // The program as it is has failed, or has used up the budget.
            None => budget.mul_f64(OTHERS_MOST).max(STOPPED_LEAST),
        }
    }

    /// Returns the message for a program that fails.
    fn failure(&self) -> String {
        if self
            .runs
            .iter()
            .all(|runs| matches!(runs.dropped, Some(Dropped::Stopped(_))))
        {
            return "the program did not end within --budget: give it less work, or use a larger \
                    budget"
                .into();
        }
        let code = self.runs.iter().find_map(|runs| match runs.dropped {
            Some(Dropped::Failed(code)) => Some(code),
            _ => None,
        });
        let code = code.map_or_else(String::new, |code| format!(" with exit code {code}"));
        format!("the program failed{code}: run it alone to see its messages")
    }
}

/// Returns a seed for the random order of the settings, which differs from run to run.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

/// Returns whether stdin is not a terminal and has data.
fn is_data_waiting() -> bool {
    let stdin = stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let is_pipe =
        fs::metadata("/proc/self/fd/0").is_ok_and(|m| m.file_type().is_fifo() || m.len() > 0);
    let polled = poll(&mut fds, Some(&now)).is_ok();
    !stdin.is_terminal() && is_pipe && polled && fds[0].revents().contains(PollFlags::IN)
}

/// Returns the cost of a run, or `None` if it has failed.
fn cost(outcome: &Outcome) -> Option<Cost> {
    let value = |name: &str| outcome.values.get(name).copied();
    (outcome.exit_code == 0).then_some(())?;
    Some(Cost {
        wall_s: value("wall_s")?,
        cpu_s: value("cpu_s")?,
        peak_bytes: value("peak_rss_bytes").unwrap_or(f64::NAN),
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
    fn the_worker_numbers_to_try_include_the_limits_and_more_than_one_per_pu() {
        assert_eq!(sizes(1, 1), [1, 2]);
        assert_eq!(sizes(2, 2), [1, 2, 4]);
        assert_eq!(sizes(6, 12), [1, 2, 4, 6, 8, 12, 24]);
        assert_eq!(sizes(1, 4), [1, 2, 4, 8]);
    }
}
