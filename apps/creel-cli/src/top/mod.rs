//! `creel top` shows where the threads of a program run and whether they wait for CPUs.
//!
//! It answers the question whether the number of threads is the bottleneck. If more threads are
//! runnable at the same time than there are usable CPUs, the extra threads only add context
//! switches.

mod child;
mod live;
mod pool_stats;
mod report;
mod sampler;
mod target;
mod threads;
mod throttle;
mod trace;
mod verdict;
mod view;
mod waits;

use anyhow::{Context, Result};
use child::ChildProgram;
use clap::Args;
use creel_console::{
    Common, Exit, Failure, Format, Interrupt, duration, output, screen::Screen, system,
};
use creel_topology::Machine;
use live::{End, Live};
use report::Report;
use sampler::Sampler;
use std::{
    ffi::OsString,
    fs,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};
use target::Target;
use trace::Trace;

/// The exit code after Ctrl-C. As in a shell, it is 128 plus the number of the signal.
const INTERRUPTED: i32 = 130;

/// The shortest time between two samples of the threads' states, from which we count the runnable
/// threads.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// Show where each thread of a program runs, and how long it waits for a CPU
///
/// On a terminal, the display stays open. It shows the figures of the last interval, one lane per
/// PU, and the output of the program in a pane of its own. Press ? for the keys. At the end, or if
/// stdout is not a terminal, creel prints one table for the whole run. A verdict follows for the
/// program and for each of its processes: whether it has more threads than usable CPUs, is stopped
/// by its CPU quota, shares its CPUs with other programs, waits for a disk, or is idle. If it is
/// idle, creel also says what its threads wait for. The CPUs and the quota are those of the program.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel top -- ./service
          Start a program and watch it until it ends
  creel top --for 10s --format json -- ./batch input
          Start a program and report on its first ten seconds
  creel top -p 1234 --for 5s
          Watch a program that is already running
  creel top --cgroup system.slice/nginx.service --for 5s
          Watch all processes of a control group
  creel top --trace trace.json -- ./service
          Also write a trace of the lanes, which you can open at ui.perfetto.dev

The output of the program goes to a pane, to --output FILE, or to stderr if stdout is not a
terminal.

Exit codes:
  the code of the program that creel has started
  0         you quit, the program outlives --for, or you watch running processes
  2         the command line is wrong
  126, 127  the program cannot be executed, or does not exist
  130, 143  creel was interrupted by Ctrl-C, or terminated by SIGTERM")]
pub struct TopArgs {
    /// Update the display once per TIME, for example 500ms. The display shows the figures of the
    /// last TIME
    #[arg(
        long,
        default_value = "1s",
        value_name = "TIME",
        value_parser = duration::positive
    )]
    interval: Duration,
    /// Stop watching after TIME (for example 90s or 2h); the program keeps running
    #[arg(long = "for", value_name = "TIME", value_parser = duration::value_parser)]
    duration: Option<Duration>,
    /// Write the output of the program to FILE
    #[arg(long, value_name = "FILE", conflicts_with = "running")]
    output: Option<PathBuf>,
    /// Watch the running process PID and its descendants instead of starting a program
    #[arg(
        short,
        long,
        group = "running",
        conflicts_with = "command",
        value_name = "PID"
    )]
    pid: Option<u32>,
    /// Watch all running processes with this name
    #[arg(
        long,
        group = "running",
        conflicts_with = "command",
        value_name = "NAME"
    )]
    name: Option<String>,
    /// Watch the processes of the control group GROUP. Give its path as in /proc/PID/cgroup, or its
    /// folder in /sys/fs/cgroup
    #[arg(
        long,
        group = "running",
        conflicts_with = "command",
        value_name = "GROUP"
    )]
    cgroup: Option<PathBuf>,
    /// Write a trace to FILE that shows which thread of the program ran on each PU, and when. You
    /// can open it at ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The program to start and its arguments; creel reads no options after it
    #[arg(
        trailing_var_arg = true,
        required_unless_present = "running",
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// Runs `creel top`.
pub fn top(args: &TopArgs, common: &Common, verbose: bool) -> Result<Exit> {
    let interrupt = Interrupt::install()?;
    if !system::shows_processes() {
        let text = "cannot watch processes, because /proc is not mounted, or belongs to another PID \
                    namespace: mount it (mount -t proc proc /proc)";
        return Err(Failure::new(Exit::SomeFailed, text).into());
    }
    let machine = Machine::detect()?;
    let terminals = io::stdout().is_terminal() && io::stdin().is_terminal();
    let live = terminals && matches!(common.format, Format::Text);
    let running = match (&args.pid, &args.name, &args.cgroup) {
        (Some(pid), ..) => Some(Target::Processes(vec![*pid])),
        (_, Some(name), _) => Some(Target::named(name)?),
        (.., Some(group)) => Some(Target::group(group)?),
        _ => None,
    };
    let mut child = match running {
        Some(_) => None,
        None => Some(start(args, live)?),
    };
    let started = child
        .as_ref()
        .map(|child| Target::Processes(vec![child.id()]));
    let target = started.or(running);
    let target = target.context("nothing to watch: give a program, or a process with -p PID")?;
    let shown = name(args, &target);
    let mut sampler = Sampler::begin(target)?;
    sampler.trace = args.trace.is_some().then(Trace::default);
    let end = if live {
        let mut live = Live {
            program: &shown,
            sampler: &mut sampler,
            child: child.as_mut(),
            interval_s: args.interval.as_secs_f64(),
            until_s: args.duration.map(|duration| duration.as_secs_f64()),
            interrupt: &interrupt,
        };
        live.run()?
    } else {
        wait(args, &mut sampler, child.as_mut(), &interrupt);
        End::Over
    };
    let code = child.as_mut().and_then(ChildProgram::ended);
    let whole = sampler.whole();
    let verdict = report::verdict(&whole, sampler.usable());
    if let Some(child) = child.as_ref().filter(|_| code.is_some()) {
        child.drain();
    }
    let pane = child.as_ref().and_then(|s| s.output(usize::MAX));
    if let Some(rows) = pane.filter(|rows| !rows.is_empty()) {
        // The pane disappears with the display, so we print its last contents again.
        output::text(&format!("{}\n\n", rows.join("\n")))?;
    }
    if let (Some(trace), Some(file)) = (sampler.trace.take(), &args.trace) {
        trace
            .write(file)
            .with_context(|| format!("cannot write the trace to {}", file.display()))?;
    }
    Report::new(whole, &machine, &sampler.budget, code).print(&verdict, common, verbose)?;
    interrupt.check()?;
    if let Some(child) = child.filter(|_| end == End::Over) {
        child.detach();
    }
    if end == End::Interrupted {
        std::process::exit(INTERRUPTED);
    }
    match code {
        // We pass on the exit code of the program.
        Some(code @ 1..) => std::process::exit(code),
        _ => Ok(Exit::Done),
    }
}

/// Starts the program. A program that will outlive us gets no pane, because the pane ends with us.
fn start(args: &TopArgs, live: bool) -> Result<ChildProgram> {
    let (program, rest) = args
        .command
        .split_first()
        .context("no program given: use creel top -- PROGRAM")?;
    let (columns, rows) = Screen::size();
    match &args.output {
        Some(file) => ChildProgram::in_file(program, rest, file),
        None if live && args.duration.is_some() => ChildProgram::in_temporary_file(program, rest),
        None if live => ChildProgram::in_pane(program, rest, live::pane_rows(rows), columns),
        None => ChildProgram::on_stderr(program, rest),
    }
}

fn wait(
    args: &TopArgs,
    sampler: &mut Sampler,
    mut child: Option<&mut ChildProgram>,
    stop: &Interrupt,
) {
    loop {
        let alive = sampler.sample();
        let ended = child.as_mut().is_some_and(|s| s.ended().is_some());
        let elapsed = Duration::from_secs_f64(sampler.elapsed_s());
        let left = args.duration.map(|all| all.saturating_sub(elapsed));
        if !alive || ended || left == Some(Duration::ZERO) || stop.requested() {
            return;
        }
        sleep(left.unwrap_or(Duration::MAX).min(sampler.pause()));
    }
}

/// Returns the name of the program on the display.
fn name(args: &TopArgs, target: &Target) -> String {
    let first = args.command.first().map(Path::new);
    let file = first.and_then(Path::file_name);
    match file {
        Some(file) => file.to_string_lossy().into_owned(),
        None => match target {
            Target::Processes(pids) if pids.len() == 1 => {
                let pid = pids[0];
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                format!("{} ({pid})", name.trim())
            }
            _ => args.name.clone().unwrap_or_else(|| target.to_string()),
        },
    }
}
