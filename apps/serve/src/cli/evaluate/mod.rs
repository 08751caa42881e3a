//! `creel-serve evaluate`: the service under its capacity and beyond it, set rightly and wrongly,
//! beside others, in several places.
//!
//! Each run is a process of its own, started for it. For each load all subjects run one after the
//! other, so that what the machine does meanwhile meets all of them.

mod page;
mod process;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use creel_console::quota::Quota;
use creel_console::{Common, Document, Exit, Failure, Format, Interrupt, Progress, output};
use creel_serve::load::{self, Arrivals, Mix, Plan, Step};
use creel_topology::{Budget, Machine};
use serde::Serialize;

use super::stop_requested;
use super::time::Time;
use process::{Folder, Memory, Neighbour, Process};

const EXAMPLES: &str = "\
Examples:
  creel-serve evaluate --report service.html
          passwords, from 50 to 200 % of what this machine can do, with 1 to 8 times as many workers
          as cores, with admission and without, and beside tokio, if its program is there (cargo
          build --release -p creel-serve --example on_tokio); then the same with fewer subjects under
          a quota and beside a busy neighbour: eight minutes, and a page with plots
  creel-serve evaluate --loads 200 --step 300s --times 1 --admitted --place alone
          whether it holds out
  creel-serve evaluate --request sign --times 1 --beside 'tokio=target/release/examples/on_tokio'
          signatures, beside another program that prints where it listens";

/// Measure the service below and beyond its capacity
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Evaluate {
    /// What is asked for, as for load
    #[arg(long, value_name = "WHAT", default_value = "check")]
    request: Mix,
    /// What a password costs
    #[arg(long, value_name = "COST", default_value = "m=1024,t=2,p=1")]
    password_cost: String,
    /// Workers for the cryptography, in times of the usable cores
    #[arg(
        long,
        value_name = "N,…",
        default_value = "1,2,4,8",
        value_delimiter = ','
    )]
    times: Vec<usize>,
    /// Loads, in percent of what the service can do
    #[arg(
        long,
        value_name = "N,…",
        default_value = "50,100,150,200",
        value_delimiter = ','
    )]
    loads: Vec<u32>,
    /// What the service can do a second, if it is known: it is not measured then
    #[arg(long, value_name = "N")]
    capacity: Option<f64>,
    /// How long each run takes
    #[arg(long, value_name = "TIME", default_value = "4s")]
    step: Time,
    /// How often each is measured; the report has the median by goodput
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: usize,
    /// Where records are kept
    #[arg(long, value_name = "STORE", default_value = "memory")]
    store: String,
    /// Connections of the load at most
    #[arg(long, value_name = "N", default_value_t = 512)]
    connections: usize,
    /// Only with admission
    #[arg(long)]
    admitted: bool,
    /// Another program to stand beside, which prints http://IP:PORT first; without, the service on
    /// tokio, if it was built
    #[arg(long, value_name = "NAME=COMMAND")]
    beside: Vec<String>,
    /// Where it is measured
    #[arg(
        long,
        value_name = "WHERE,…",
        default_value = "alone,quota,neighbour",
        value_delimiter = ','
    )]
    place: Vec<Place>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Where a service is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// With nothing else on the machine but the load
    Alone,
    /// In a control group that has half of the cores' time
    Quota,
    /// Beside a thread that computes without end
    Neighbour,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Alone => "alone",
            Place::Quota => "under a quota",
            Place::Neighbour => "beside a busy neighbour",
        }
    }
}

/// A service to be measured.
struct Subject {
    name: String,
    command: Vec<String>,
    /// Workers for what computes, and whether there is admission; of the service's own settings.
    set: Option<(usize, bool)>,
}

#[derive(Clone, Serialize)]
struct Row {
    place: Place,
    subject: String,
    workers: Option<usize>,
    /// Of the capacity, 1 for all of it; none for the capacity's own run.
    load_share: Option<f64>,
    rate_per_second: f64,
    offered_share: f64,
    goodput_per_second: f64,
    refused: u64,
    failed: u64,
    /// None where no answer was good.
    p50_us: Option<u64>,
    p99_us: Option<u64>,
    p999_us: Option<u64>,
    uncorrected_p99_us: Option<u64>,
    /// The most; and half-way and at the end of the run.
    memory_bytes: u64,
    memory_middle_bytes: u64,
    memory_end_bytes: u64,
    #[serde(skip)]
    set: Option<(usize, bool)>,
}

/// What was measured in one place.
#[derive(Clone, Serialize)]
struct Measured {
    place: Place,
    capacity_per_second: f64,
}

#[derive(Serialize)]
struct Body<'a> {
    places: &'a [Measured],
    runs: &'a [Row],
}

/// Where one run takes place.
struct Site<'a> {
    place: Place,
    quota: Option<&'a Quota>,
    interrupt: &'a Interrupt,
}

impl Evaluate {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        self.validate()
            .map_err(|why| Failure::new(Exit::Usage, why))?;
        let interrupt = Interrupt::install()?;
        let machine = Machine::detect()?;
        let folder = Folder::new()?;
        let cores = Budget::of(&machine).workers();
        let (mut rows, mut places, mut ended) = (Vec::new(), Vec::new(), Ok(()));
        for place in &self.place {
            let quota = match place {
                Place::Quota => match Quota::new("creel-serve", cores as f64 / 2.0) {
                    Ok(quota) => Some(quota),
                    Err(error) => {
                        output::note(&format!("left out: a quota cannot be had here: {error}\n"));
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
            let subjects = self.subjects(*place, cores, &folder.0)?;
            ended = self.place(&site, &subjects, common, &mut places, &mut rows);
            if ended.is_err() {
                break;
            }
        }
        let budget = Budget::of(&machine);
        if let Some(path) = &self.report {
            let page = page::page(&places, &rows, &machine, &budget);
            std::fs::write(path, page).with_context(|| path.display().to_string())?;
        }
        match common.format {
            Format::Text => output::text(&report::text(&places, &rows))?,
            Format::Csv => output::csv(&rows)?,
            Format::Json => {
                let (places, runs) = (&places[..], &rows[..]);
                output::json(&Document::new(&machine, &budget, Body { places, runs }))?;
            }
        }
        // What was measured until then is told.
        ended?;
        Ok(Exit::Done)
    }

    /// What cannot be measured, before anything is.
    fn validate(&self) -> Result<(), String> {
        let none = [
            ("--loads", self.loads.contains(&0)),
            ("--times", self.times.contains(&0)),
            ("--rounds", self.rounds == 0),
            ("--connections", self.connections == 0),
        ];
        if let Some((flag, _)) = none.iter().find(|(_, is_none)| *is_none) {
            return Err(format!("{flag} 0: nothing would be measured"));
        }
        if let Some(rate) = self.capacity
            && !(rate > 0.0 && rate.is_finite())
        {
            return Err(format!(
                "--capacity {rate}: a number of requests a second is needed"
            ));
        }
        for beside in &self.beside {
            let command = beside.split_once('=').map(|(_, command)| command);
            let program = command.and_then(|command| command.split_whitespace().next());
            let Some(program) = program else {
                return Err(format!("--beside {beside}: NAME=COMMAND is needed"));
            };
            // One without a folder may be anywhere.
            let path = Path::new(program);
            let is_named = path.components().count() > 1;
            if is_named && !path.is_file() {
                return Err(format!("--beside {beside}: there is no {program}"));
            }
        }
        Ok(())
    }

    /// Measures all in one place; what was measured before an interruption stays.
    fn place(
        &self,
        site: &Site,
        subjects: &[Subject],
        common: &Common,
        places: &mut Vec<Measured>,
        rows: &mut Vec<Row>,
    ) -> anyhow::Result<()> {
        let first = subjects.first().context("nothing to measure")?;
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

    fn subjects(&self, place: Place, cores: usize, folder: &Path) -> anyhow::Result<Vec<Subject>> {
        // In the other places the least and the most are enough.
        let times = match (place, &self.times[..]) {
            (Place::Quota | Place::Neighbour, [first, .., last]) => vec![*first, *last],
            (_, all) => all.to_vec(),
        };
        let own = std::env::current_exe()?.display().to_string();
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
                // Once is what it does by itself, also where a quota leaves less.
                let name = match times {
                    1 => "as it comes".to_owned(),
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
        for beside in &self.beside {
            let (name, command) = beside.split_once('=').unwrap_or((beside, ""));
            let command = command.split_whitespace().map(str::to_owned).collect();
            subjects.push(Subject {
                name: name.to_owned(),
                command,
                set: None,
            });
        }
        if self.beside.is_empty() && !self.admitted {
            subjects.extend(self.on_tokio(cores));
        }
        Ok(subjects)
    }

    /// The same service on tokio, where it was built: with tokio's own numbers, with the right ones,
    /// and with the same admission, too.
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
            subject("tokio, as it comes", &[]),
            subject("tokio, right-sized", &sized),
            subject("tokio, right-sized, admission", &admitted),
        ]
    }

    /// Without a share, as fast as few connections can.
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
            // Four a core keep the workers busy and nobody waiting for long.
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
            .map_err(|error| anyhow!("{}: {error}", subject.name))?;
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

/// What memory there is after a while.
fn memory_after(memory: Memory, after: Duration) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        // Or until the run has ended before.
        std::thread::park_timeout(after);
        memory.now_bytes()
    })
}
