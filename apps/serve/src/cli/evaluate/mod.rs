//! `creel-serve evaluate`: measures the service below and beyond its capacity.
//!
//! It compares several settings of the service and other programs, in several places. For example,
//! one place is a control group with a CPU quota.
//!
//! Each run starts a new process. For each load we run all subjects one after the other, because
//! a disturbance of the machine then affects all of them.

mod page;
mod process;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use creel_console::quota::Quota;
use creel_console::{
    Common, Document, Exit, Failure, Format, Interrupt, Progress, output, with_causes,
};
use creel_serve::load::{self, Arrivals, Mix, Plan, Step};
use creel_topology::{Budget, Machine};
use serde::Serialize;

use super::stop_requested;
use super::time::Time;
use process::{Memory, Neighbour, Process};

const EXAMPLES: &str = "\
Examples:
  creel-serve evaluate --report service.html
          Check passwords at 50 to 200 % of the capacity of this machine, with 1 to 8 times as many
          workers as cores, with and without admission control. Compare with the same service on
          tokio if it was built (cargo build --release -p creel-serve --example on_tokio). Repeat
          some runs under a CPU quota and with a busy neighbour. This takes eight minutes.
  creel-serve evaluate --loads 200 --step 300s --times 1 --admitted --place alone
          Check that the service stays stable during five minutes of overload";

/// Measure the service below and beyond its capacity
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Evaluate {
    /// Send these requests, as in creel-serve load --request
    #[arg(
        long,
        value_name = "MIX",
        default_value = "check",
        help_heading = "Load"
    )]
    request: Mix,
    /// Send these loads, in percent of the capacity
    #[arg(
        long,
        value_name = "N,…",
        default_value = "50,100,150,200",
        value_delimiter = ',',
        help_heading = "Load"
    )]
    loads: Vec<u32>,
    /// Take N requests per second as the capacity, instead of measuring it
    #[arg(long, value_name = "N", help_heading = "Load")]
    capacity: Option<f64>,
    /// Run each load for TIME
    #[arg(long, value_name = "TIME", default_value = "4s", help_heading = "Load")]
    step: Time,
    /// Measure each load N times and report the run with the median goodput
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    rounds: usize,
    /// Use up to N connections for the load
    #[arg(long, value_name = "N", default_value_t = 512, help_heading = "Load")]
    connections: usize,
    /// Hash passwords with these Argon2 parameters: m KiB of memory, t passes and p lanes
    #[arg(
        long,
        value_name = "COST",
        default_value = "m=1024,t=2,p=1",
        help_heading = "Service"
    )]
    password_cost: String,
    /// Measure the service with N times as many workers for the cryptography as there are usable
    /// cores, for each N
    #[arg(
        long,
        value_name = "N,…",
        default_value = "1,2,4,8",
        value_delimiter = ',',
        help_heading = "Service"
    )]
    times: Vec<usize>,
    /// Keep records in STORE, as in creel-serve --store
    #[arg(
        long,
        value_name = "STORE",
        default_value = "memory",
        help_heading = "Service"
    )]
    store: String,
    /// Measure the service only with admission control. By default, it is also measured without
    #[arg(long, help_heading = "Service")]
    admitted: bool,
    /// Compare with another program, which must print http://IP:PORT as its first line. The default
    /// is the same service on tokio, if it was built
    #[arg(
        long,
        alias = "beside",
        value_name = "NAME=COMMAND",
        help_heading = "Service"
    )]
    compare: Vec<String>,
    /// Measure the service under these conditions
    #[arg(
        long,
        value_name = "WHERE,…",
        default_value = "alone,quota,neighbour",
        value_delimiter = ',',
        help_heading = "Service"
    )]
    place: Vec<Place>,
    /// Write a page with plots to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// The environment in which a service is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Without a quota and without a neighbour
    Alone,
    /// In a control group with a quota of half the usable cores (usually needs root)
    Quota,
    /// With another thread that computes without pause
    Neighbour,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Alone => "alone",
            Place::Quota => "under a quota",
            Place::Neighbour => "with a busy neighbour",
        }
    }
}

/// A service that is measured.
struct Subject {
    name: String,
    command: Vec<String>,
    /// The number of workers for the cryptography and whether admission control is on. It is `None`
    /// for other programs.
    set: Option<(usize, bool)>,
}

/// The result of one run.
#[derive(Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    place: Place,
    subject: String,
    workers: Option<usize>,
    /// The load as a share of the capacity. It is `None` for the run that measures the capacity.
    load_share: Option<f64>,
    rate_per_second: f64,
    offered_share: f64,
    /// The share of the time in which the load itself had no CPU.
    cpu_wait_share: Option<f64>,
    goodput_per_second: f64,
    refused: u64,
    failed: u64,
    /// The percentiles are `None` if there was no good response.
    p50_us: Option<u64>,
    p99_us: Option<u64>,
    p999_us: Option<u64>,
    uncorrected_p99_us: Option<u64>,
    /// The peak of the resident memory, and its size half-way and at the end of the run.
    memory_bytes: u64,
    memory_middle_bytes: u64,
    memory_end_bytes: u64,
    #[serde(skip)]
    set: Option<(usize, bool)>,
}

/// The capacity in one place.
#[derive(Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Measured {
    place: Place,
    capacity_per_second: f64,
}

/// The body of the JSON report.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Body<'a> {
    places: &'a [Measured],
    runs: &'a [Row],
}

/// The place of a run, with its quota if it has one.
struct Site<'a> {
    place: Place,
    quota: Option<&'a Quota>,
    interrupt: &'a Interrupt,
}

impl Evaluate {
    /// Measures all subjects in all places and prints the report.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        self.validate()
            .map_err(|why| Failure::new(Exit::Usage, why))?;
        if cfg!(not(target_os = "linux")) {
            let message = "evaluate needs Linux, because it reads the memory of services in /proc";
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let interrupt = Interrupt::install()?;
        let machine = Machine::detect()?;
        let folder = tempfile::Builder::new()
            .prefix("creel-serve-evaluate-")
            .tempdir();
        let folder = folder.context("cannot create a temporary folder")?;
        let cores = Budget::of(&machine).workers();
        let (mut rows, mut places, mut ended) = (Vec::new(), Vec::new(), Ok(()));
        for place in &self.place {
            let quota = match place {
                Place::Quota => match Quota::new("creel-serve", cores as f64 / 2.0) {
                    Ok(quota) => Some(quota),
                    Err(error) => {
                        output::note(&format!(
                            "skipped --place quota: cannot create a control group with a CPU quota \
                             ({error}). To measure under a quota, run creel-serve as root and \
                             outside of a container\n"
                        ));
                        continue;
                    }
                },
                Place::Alone | Place::Neighbour => None,
            };
            let _neighbour = match place {
                Place::Neighbour => Some(Neighbour::new()?),
                Place::Alone | Place::Quota => None,
            };
            let site = Site {
                place: *place,
                quota: quota.as_ref(),
                interrupt: &interrupt,
            };
            let subjects = self.subjects(*place, cores, folder.path())?;
            ended = self.place(&site, &subjects, common, &mut places, &mut rows);
            if ended.is_err() {
                break;
            }
        }
        let budget = Budget::of(&machine);
        if let Some(path) = &self.report {
            let page = page::page(&places, &rows, &machine, &budget);
            std::fs::write(path, page)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        match common.format {
            Format::Text => output::text(&report::text(&places, &rows))?,
            Format::Csv => output::csv(&rows)?,
            Format::Json => {
                let (places, runs) = (&places[..], &rows[..]);
                output::json(&Document::new(&machine, &budget, Body { places, runs }))?;
            }
        }
        // We report the finished runs even if the evaluation was interrupted or failed.
        ended?;
        Ok(Exit::Done)
    }

    /// Checks the options before the first measurement.
    fn validate(&self) -> Result<(), String> {
        let at_least_one = [
            ("--loads", self.loads.contains(&0)),
            ("--times", self.times.contains(&0)),
            ("--rounds", self.rounds == 0),
            ("--connections", self.connections == 0),
        ];
        if let Some((flag, _)) = at_least_one.iter().find(|(_, is_zero)| *is_zero) {
            return Err(format!("{flag} 0 would measure nothing: use 1 or more"));
        }
        if let Some(rate) = self.capacity
            && !(rate > 0.0 && rate.is_finite())
        {
            return Err(format!(
                "--capacity {rate}: expected a number of requests per second above 0"
            ));
        }
        for compare in &self.compare {
            let command = compare.split_once('=').map(|(_, command)| command);
            let program = command.and_then(|command| command.split_whitespace().next());
            let Some(program) = program else {
                return Err(format!("--compare {compare}: expected NAME=COMMAND"));
            };
            // A name without a folder is looked up in PATH, which we leave to the OS.
            let path = Path::new(program);
            let is_named = path.components().count() > 1;
            if is_named && !path.is_file() {
                return Err(format!(
                    "--compare {compare}: the program {program} does not exist"
                ));
            }
        }
        Ok(())
    }

    /// Measures all subjects in one place. After an interruption, `rows` has the finished runs.
    fn place(
        &self,
        site: &Site,
        subjects: &[Subject],
        common: &Common,
        places: &mut Vec<Measured>,
        rows: &mut Vec<Row>,
    ) -> anyhow::Result<()> {
        let first = subjects
            .first()
            .context("there is no subject to measure, because --times is empty: use --times 1")?;
        let rate = match self.capacity {
            Some(rate) => rate,
            None => {
                let all = self.measure(site, first, None, 1e6)?;
                let rate = all.goodput_per_second;
                rows.push(all);
                rate
            }
        };
        places.push(Measured {
            place: site.place,
            capacity_per_second: rate,
        });
        let total = self.loads.len() * subjects.len() * self.rounds;
        let progress = Progress::new(total as u64, "runs", common.quiet);
        for load in &self.loads {
            let share = f64::from(*load) / 100.0;
            let mut runs: Vec<Vec<Row>> = subjects.iter().map(|_| Vec::new()).collect();
            for _ in 0..self.rounds {
                for (subject, runs) in subjects.iter().zip(&mut runs) {
                    site.interrupt.check()?;
                    runs.push(self.measure(site, subject, Some(share), rate * share)?);
                    progress.advance(1);
                }
            }
            for mut runs in runs {
                runs.sort_by(|one, other| {
                    one.goodput_per_second.total_cmp(&other.goodput_per_second)
                });
                rows.extend(runs.get(runs.len() / 2).cloned());
            }
        }
        progress.finish();
        Ok(())
    }

    /// Returns the services to measure in a place.
    fn subjects(&self, place: Place, cores: usize, folder: &Path) -> anyhow::Result<Vec<Subject>> {
        // Under a quota and next to a neighbour, we measure only the first and the last number of
        // --times. This saves time.
        let times = match (place, &self.times[..]) {
            (Place::Quota | Place::Neighbour, [first, .., last]) => vec![*first, *last],
            (_, all) => all.to_vec(),
        };
        let own = creel_console::system::own_program()?.display().to_string();
        let admissions: &[&str] = if self.admitted {
            &["on"]
        } else {
            &["on", "off"]
        };
        let mut subjects = Vec::new();
        for admission in admissions {
            for times in &times {
                let workers = times * cores;
                let data = folder.display().to_string();
                let mut command = [
                    &own,
                    "-q",
                    "--listen",
                    "127.0.0.1:0",
                    "--data",
                    &data,
                    "--store",
                    &self.store,
                    "--password-cost",
                    &self.password_cost,
                    "--admission",
                    admission,
                ]
                .map(str::to_owned)
                .to_vec();
                // The service itself starts one worker per usable core, so we leave the number to
                // it. Under a quota, it starts fewer than `workers`.
                let name = match times {
                    1 => "defaults".to_owned(),
                    _ => {
                        command.extend(["--workers".to_owned(), workers.to_string()]);
                        format!("{workers} workers")
                    }
                };
                let without = if *admission == "on" {
                    ""
                } else {
                    ", no admission"
                };
                subjects.push(Subject {
                    name: format!("{name}{without}"),
                    command,
                    set: Some((workers, *admission == "on")),
                });
            }
        }
        for compare in &self.compare {
            let (name, command) = compare.split_once('=').unwrap_or((compare, ""));
            let command = command.split_whitespace().map(str::to_owned).collect();
            subjects.push(Subject {
                name: name.to_owned(),
                command,
                set: None,
            });
        }
        if self.compare.is_empty() && !self.admitted {
            subjects.extend(self.on_tokio(cores));
        }
        Ok(subjects)
    }

    /// Returns the same service on tokio, if it was built.
    ///
    /// There are three variants. One has tokio's default numbers of threads. The second one has one
    /// worker and one blocking thread per core. The third one also has our admission control.
    fn on_tokio(&self, cores: usize) -> Vec<Subject> {
        let own = std::env::current_exe().unwrap_or_default();
        let program = own.with_file_name("examples").join("on_tokio");
        if !program.is_file() {
            return Vec::new();
        }
        let cores = cores.to_string();
        let sized = ["--workers", &cores, "--blocking", &cores];
        let admitted = [&sized[..], &["--admission", "on"]].concat();
        let subject = |name: &str, flags: &[&str]| {
            let mut command = vec![program.display().to_string()];
            let common = [
                "--store",
                &self.store,
                "--password-cost",
                &self.password_cost,
            ];
            command.extend(common.iter().chain(flags).map(ToString::to_string));
            Subject {
                name: name.to_owned(),
                command,
                set: None,
            }
        };
        vec![
            subject("tokio, defaults", &[]),
            subject("tokio, right-sized", &sized),
            subject("tokio, right-sized, admission", &admitted),
        ]
    }

    /// Runs one load against a new process of a subject. Without a share of the capacity, it
    /// measures the capacity.
    fn measure(
        &self,
        site: &Site,
        subject: &Subject,
        share: Option<f64>,
        rate: f64,
    ) -> anyhow::Result<Row> {
        let process = Process::start(subject, site.quota)?;
        let memory = process.memory();
        let plan = Plan {
            to: process.address,
            mix: self.request.clone(),
            rates: vec![rate],
            step: self.step.0,
            is_ramp: false,
            arrivals: Arrivals::Poisson,
            // Four connections per core keep the workers busy and the queue short.
            connections: match share {
                Some(_) => self.connections,
                None => 4 * Budget::of(&Machine::detect()?).workers(),
            },
            timeout: Duration::from_secs(3),
            request_timeout: None,
            check: false,
            size: 64,
            seed: 1,
            workers: 1,
        };
        let middle = memory_after(memory.clone(), self.step.0 / 2);
        let report = load::run(plan, stop_requested(site.interrupt.clone()))
            .map_err(|error| anyhow!("{}: {}", subject.name, with_causes(error)))?;
        let memory_end_bytes = memory.now_bytes();
        middle.thread().unpark();
        let step: &Step = report.steps.first().context("no step")?;
        Ok(Row {
            place: site.place,
            subject: subject.name.clone(),
            workers: subject.set.map(|set| set.0),
            load_share: share,
            rate_per_second: if share.is_some() {
                rate
            } else {
                step.goodput_per_second
            },
            offered_share: step.offered_share,
            cpu_wait_share: report.cpu_wait_share,
            goodput_per_second: step.goodput_per_second,
            refused: step.refused,
            failed: step.other + step.wrong + step.timeouts + step.errors,
            p50_us: step.corrected.map(|latency| latency.p50_us),
            p99_us: step.corrected.map(|latency| latency.p99_us),
            p999_us: step.corrected.map(|latency| latency.p999_us),
            uncorrected_p99_us: step.uncorrected.map(|latency| latency.p99_us),
            memory_bytes: memory.most_bytes(),
            memory_middle_bytes: middle.join().unwrap_or(0),
            memory_end_bytes,
            set: subject.set,
        })
    }
}

/// Starts a thread that reads the resident memory in bytes after the time `after`, or when it is
/// unparked before that.
fn memory_after(memory: Memory, after: Duration) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        // If the run ends earlier, it unparks this thread, so that we do not wait any longer.
        std::thread::park_timeout(after);
        memory.now_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema(
            "creel-serve-evaluate",
            schemars::schema_for!(creel_console::Document<Body<'_>>),
        );
    }
}
