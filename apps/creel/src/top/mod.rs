//! `creel top`: where a program's threads run and whether they wait for CPUs.
//!
//! The proof whether a program's size is its trouble: threads that are runnable at the same time
//! beyond the CPUs that they may use do nothing but switch.

mod threads;
mod throttle;

use crate::{options, process};
use anyhow::{Context, Result};
use clap::Args;
use creel_console::{Align, Common, Exit, Failure, Format, Interrupt, Table, output};
use creel_topology::{Budget, Machine};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{self, IsTerminal, Write},
    process::{Child, Command},
    thread::sleep,
    time::{Duration, Instant},
};
use threads::Thread;
use throttle::Throttled;

/// How often the threads' states are looked at, to count who is runnable.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Start a program and show, thread by thread, where it runs and what it waits for
///
/// On a terminal the table is drawn anew every interval; at the program's end, and always when
/// stdout is no terminal, one table tells the whole run, with a verdict: whether the program has
/// more runnable threads than usable CPUs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel top -- ./service
  creel top --for 10 --format json -- ./batch input
  creel top -p 1234 --for 5")]
pub struct TopArgs {
    /// Seconds between two drawings
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = options::seconds)]
    interval: f64,
    /// Watch for so many seconds at the most; the program goes on
    #[arg(long = "for", value_name = "SECONDS", value_parser = options::seconds)]
    duration: Option<f64>,
    /// Watch a program that runs already
    #[arg(short, long, conflicts_with = "command", value_name = "PID")]
    pid: Option<u32>,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        required_unless_present = "pid",
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// Runs `creel top`.
pub fn top(args: &TopArgs, common: &Common) -> Result<Exit> {
    let interrupt = Interrupt::install()?;
    let budget = Budget::of(&Machine::detect()?).workers();
    let (pid, mut child) = match args.pid {
        Some(pid) => (pid, None),
        None => start(&args.command).map(|child| (child.id(), Some(child)))?,
    };
    let mut watch = Watch::begin(pid, budget)?;
    let live = io::stdout().is_terminal() && matches!(common.format, Format::Text);
    let mut drawn = Instant::now();
    while watch.look(child.as_mut())? {
        let over = args
            .duration
            .is_some_and(|s| watch.begin.elapsed().as_secs_f64() >= s);
        if over || interrupt.requested() {
            break;
        }
        if live && drawn.elapsed().as_secs_f64() >= args.interval {
            draw(&watch.report())?;
            drawn = Instant::now();
        }
        sleep(LOOK_EVERY);
    }
    print(&watch.report(), common)?;
    interrupt.check()?;
    Ok(Exit::Done)
}

fn start(command: &[OsString]) -> Result<Child> {
    let (program, args) = command.split_first().context("no program was given")?;
    let started = Command::new(program).args(args).spawn();
    started.map_err(|e| {
        let code = match e.kind() {
            io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::NotExecutable,
        };
        Failure::new(code, format!("cannot run {}: {e}", program.display())).into()
    })
}

/// A program under watch.
struct Watch {
    pid: u32,
    begin: Instant,
    first: BTreeMap<u32, Thread>,
    last: BTreeMap<u32, Thread>,
    usable: usize,
    throttled: Option<Throttled>,
    looks: u64,
    /// The sum over all looks of how many threads were runnable.
    runnable: u64,
}

impl Watch {
    fn begin(pid: u32, usable: usize) -> Result<Self> {
        let first = threads::look(&[pid]);
        if first.is_empty() {
            return Err(Failure::new(Exit::Usage, format!("there is no process {pid}")).into());
        }
        Ok(Self {
            pid,
            begin: Instant::now(),
            last: first.clone(),
            first,
            usable,
            throttled: Throttled::begin(pid),
            looks: 0,
            runnable: 0,
        })
    }

    /// Looks once; says whether the program is still there.
    fn look(&mut self, child: Option<&mut Child>) -> Result<bool> {
        let mut pids = process::descendants(self.pid);
        pids.push(self.pid);
        let now = threads::look(&pids);
        let ended = match child {
            Some(child) => child.try_wait()?.is_some(),
            None => now.is_empty(),
        };
        self.looks += 1;
        self.runnable += now.values().filter(|t| t.runnable()).count() as u64;
        // A thread that ended keeps what was last seen of it.
        self.last.extend(now);
        Ok(!ended)
    }

    fn report(&self) -> Report {
        let none = Thread::default();
        let mut threads: Vec<Thread> = self
            .last
            .values()
            .map(|t| t.since(self.first.get(&t.tid).unwrap_or(&none)))
            .collect();
        threads.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s));
        Report {
            schema: 1,
            seconds: self.begin.elapsed().as_secs_f64(),
            usable_workers: self.usable,
            runnable_mean: self.runnable as f64 / self.looks.max(1) as f64,
            throttled: self.throttled.as_ref().map(Throttled::since),
            threads,
        }
    }
}

/// What was seen so far.
#[derive(Serialize)]
struct Report {
    schema: u32,
    seconds: f64,
    usable_workers: usize,
    /// Threads that ran or wanted to, on average over the looks.
    runnable_mean: f64,
    /// Periods in which the cgroup's quota stopped the program, of all periods.
    throttled: Option<throttle::Periods>,
    threads: Vec<Thread>,
}

impl Report {
    /// Whether its size is the program's trouble, in a sentence.
    fn verdict(&self) -> String {
        let waited: f64 = self.threads.iter().map(|t| t.waited_s).sum();
        let ran: f64 = self.threads.iter().map(|t| t.cpu_s).sum();
        let ratio = waited / (waited + ran).max(1e-9);
        let seen = format!(
            "{:.1} threads runnable on average, {} usable; runnable threads waited {:.0} % of \
             their time for a CPU",
            self.runnable_mean,
            self.usable_workers,
            ratio * 100.0
        );
        if self.runnable_mean > self.usable_workers as f64 * 1.25 {
            format!("{seen}: more threads than CPUs; try `creel run -- PROGRAM`")
        } else if ratio > 0.25 {
            format!("{seen}: its threads fit, but others use the CPUs too")
        } else {
            format!("{seen}: its size is not its trouble")
        }
    }

    fn table(&self) -> Table {
        let right = |title| (title, Align::Right);
        let mut table = Table::new(&[
            right("thread"),
            ("name", Align::Left),
            right("on PU"),
            right("CPU %"),
            right("waited %"),
            right("voluntary"),
            right("involuntary"),
            right("migrations"),
        ]);
        let percent = |s: f64| format!("{:.1}", s / self.seconds.max(1e-9) * 100.0);
        for t in &self.threads {
            table.row([
                t.tid.to_string(),
                t.name.clone(),
                t.cpu.to_string(),
                percent(t.cpu_s),
                percent(t.waited_s),
                t.voluntary.to_string(),
                t.involuntary.to_string(),
                t.migrations.map_or("-".into(), |n| n.to_string()),
            ]);
        }
        table
    }

    fn text(&self) -> String {
        let throttled = match &self.throttled {
            Some(periods) => format!("throttled in {periods}\n"),
            None => String::new(),
        };
        let table = self.table().text();
        format!("{table}\n{throttled}{}\n", self.verdict())
    }
}

/// Draws over the screen.
fn draw(report: &Report) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "\x1b[H\x1b[2J{}", report.text())?;
    out.flush()
}

fn print(report: &Report, common: &Common) -> Result<()> {
    match common.format {
        Format::Text => output::text(&report.text())?,
        Format::Json => output::json(report)?,
        Format::Csv => output::csv(report.threads.iter())?,
    }
    Ok(())
}
