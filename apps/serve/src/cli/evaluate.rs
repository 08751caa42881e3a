//! `creel-serve evaluate`: the service under its capacity and beyond it, set rightly and wrongly,
//! beside others.
//!
//! Each run is a process of its own, started for it. For each load all subjects run one after the
//! other, so that what the machine does meanwhile meets all of them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, anyhow};
use clap::Args;
use creel_console::{
    Align, Common, Document, Exit, Failure, Format, Interrupt, Progress, Table, output,
};
use creel_serve::load::{self, Arrivals, Mix, Plan, Step};
use creel_topology::{Budget, Machine};
use serde::Serialize;

use super::asked;
use super::time::Time;

const EXAMPLES: &str = "\
Examples:
  creel-serve evaluate
          passwords, from 50 to 200 % of what this machine can do, with 1 to 8 times as many workers
          as cores, with admission and without: three minutes
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
    /// How often each is measured; the middle one by goodput is told
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
    /// Another program to stand beside, which prints http://IP:PORT first
    #[arg(long, value_name = "NAME=COMMAND")]
    beside: Vec<String>,
}

struct Subject {
    name: String,
    command: Vec<String>,
}

#[derive(Clone, Serialize)]
struct Row {
    subject: String,
    /// Of the capacity, 1 for all of it; none for the capacity's own run.
    load_share: Option<f64>,
    rate_per_second: f64,
    offered_share: f64,
    goodput_per_second: f64,
    refused: u64,
    failed: u64,
    p50_us: u64,
    p99_us: u64,
    p999_us: u64,
    uncorrected_p99_us: u64,
    memory_bytes: u64,
}

#[derive(Serialize)]
struct Body<'a> {
    capacity_per_second: f64,
    runs: &'a [Row],
}

impl Evaluate {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install()?;
        let machine = Machine::detect()?;
        let folder = Folder::new()?;
        let subjects = self.subjects(Budget::of(&machine).workers(), &folder.0)?;
        let first = subjects.first().context("nothing to measure")?;
        let (rate, mut rows) = match self.capacity {
            Some(rate) => (rate, Vec::new()),
            None => {
                let all = self.measure(first, None, 1e6, &interrupt)?;
                (all.goodput_per_second, vec![all])
            }
        };
        let total = self.loads.len() * subjects.len() * self.rounds;
        let progress = Progress::new(total as u64, "runs", common.quiet);
        let mut ended = Ok(());
        'all: for load in &self.loads {
            let share = f64::from(*load) / 100.0;
            let mut runs: Vec<Vec<Row>> = subjects.iter().map(|_| Vec::new()).collect();
            for _ in 0..self.rounds {
                for (subject, runs) in subjects.iter().zip(&mut runs) {
                    ended = interrupt.check();
                    if ended.is_err() {
                        break 'all;
                    }
                    runs.push(self.measure(subject, Some(share), rate * share, &interrupt)?);
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
        match common.format {
            Format::Text => output::text(&text(&rows, rate))?,
            Format::Csv => output::csv(&rows)?,
            Format::Json => {
                let body = Body {
                    capacity_per_second: rate,
                    runs: &rows,
                };
                output::json(&Document::new(&machine, &Budget::of(&machine), body))?;
            }
        }
        // What was measured until then is told.
        ended?;
        Ok(Exit::Done)
    }

    fn subjects(&self, cores: usize, folder: &Path) -> anyhow::Result<Vec<Subject>> {
        let own = std::env::current_exe()?.display().to_string();
        let admissions: &[&str] = if self.admitted {
            &["on"]
        } else {
            &["on", "off"]
        };
        let mut subjects = Vec::new();
        for admission in admissions {
            for times in &self.times {
                let workers = (times * cores).to_string();
                let data = folder.display().to_string();
                let command = [
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
                    "--workers",
                    &workers,
                    "--admission",
                    admission,
                ];
                let without = if *admission == "on" {
                    ""
                } else {
                    ", no admission"
                };
                subjects.push(Subject {
                    name: format!("{workers} workers{without}"),
                    command: command.map(str::to_owned).to_vec(),
                });
            }
        }
        for beside in &self.beside {
            let (name, command) = beside.split_once('=').ok_or_else(|| {
                Failure::new(
                    Exit::Usage,
                    format!("--beside {beside}: NAME=COMMAND is needed"),
                )
            })?;
            let command = command.split_whitespace().map(str::to_owned).collect();
            subjects.push(Subject {
                name: name.to_owned(),
                command,
            });
        }
        Ok(subjects)
    }

    /// Without a share, as fast as few connections can.
    fn measure(
        &self,
        subject: &Subject,
        share: Option<f64>,
        rate: f64,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Row> {
        let process = Process::start(subject)?;
        let plan = Plan {
            to: process.address,
            mix: self.request.clone(),
            rates: vec![rate],
            step: self.step.0,
            is_ramp: false,
            arrivals: Arrivals::Poisson,
            // Two a core keep the workers busy and nobody waiting for long.
            connections: match share {
                Some(_) => self.connections,
                None => 2 * Budget::of(&Machine::detect()?).workers(),
            },
            timeout: std::time::Duration::from_secs(3),
            patience: None,
            check: false,
            size: 64,
            seed: 1,
            workers: 1,
        };
        let report = load::run(plan, asked(interrupt.clone()))
            .map_err(|error| anyhow!("{}: {error}", subject.name))?;
        let step: &Step = report.steps.first().context("no step")?;
        Ok(Row {
            subject: subject.name.clone(),
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
            p50_us: step.corrected.p50_us,
            p99_us: step.corrected.p99_us,
            p999_us: step.corrected.p999_us,
            uncorrected_p99_us: step.uncorrected.p99_us,
            memory_bytes: process.memory_bytes(),
        })
    }
}

fn text(rows: &[Row], capacity: f64) -> String {
    let columns = [
        "load",
        "good/s",
        "503",
        "failed",
        "p50",
        "p99",
        "p99.9 ms",
        "uncorrected p99",
        "MB",
    ];
    let columns = columns.map(|title| (title, Align::Right));
    let mut table = Table::new(&[&[("subject", Align::Left)], &columns[..]].concat());
    let ms = |us: u64| format!("{:.1}", us as f64 / 1000.0);
    for row in rows {
        let late = if row.offered_share < 0.99 && row.load_share.is_some() {
            " !"
        } else {
            ""
        };
        let load = row.load_share.map_or("all".into(), |share| {
            format!("{:.0} %{late}", share * 100.0)
        });
        table.row([
            row.subject.clone(),
            load,
            format!("{:.0}", row.goodput_per_second),
            row.refused.to_string(),
            row.failed.to_string(),
            ms(row.p50_us),
            ms(row.p99_us),
            ms(row.p999_us),
            ms(row.uncorrected_p99_us),
            format!("{:.0}", row.memory_bytes as f64 / 1e6),
        ]);
    }
    let note = "!: less than 99 % of the load left in time, so the service got less\n";
    format!(
        "what it can do: {capacity:.0} a second\n\n{}{note}",
        table.text()
    )
}

/// A folder that is gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Folder> {
        let path =
            std::env::temp_dir().join(format!("creel-serve-evaluate-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A service that runs until this is dropped.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(subject: &Subject) -> anyhow::Result<Process> {
        let (program, arguments) = subject
            .command
            .split_first()
            .context("a command is needed")?;
        let mut command = Command::new(program);
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.with_context(|| program.clone())?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let address = line
            .trim()
            .strip_prefix("http://")
            .and_then(|address| address.parse().ok());
        match address {
            Some(address) => Ok(Process { child, address }),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                Err(anyhow!("{program}: does not say where it listens"))
            }
        }
    }

    /// The most that it has had.
    ///
    /// Source: proc(5), `VmHWM`; 0 where there is none.
    fn memory_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
