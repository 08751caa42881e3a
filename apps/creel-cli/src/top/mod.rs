//! `creel top`: where a program's threads run and whether they wait for CPUs.
//!
//! The proof whether a program's size is its trouble: threads that are runnable at the same time
//! beyond the CPUs that they may use do nothing but switch.

mod child;
mod live;
mod pool_stats;
mod report;
mod sampler;
mod screen;
mod threads;
mod throttle;
mod view;

use crate::options;
use anyhow::{Context, Result};
use child::ChildProgram;
use clap::Args;
use creel_console::{Common, Exit, Format, Interrupt, output};
use creel_topology::{Budget, Machine};
use live::{End, Live};
use report::Report;
use sampler::Sampler;
use screen::Screen;
use std::{
    ffi::OsString,
    fs,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

/// The exit code after Ctrl-C, as a shell has it: 128 and the signal's number.
const INTERRUPTED: i32 = 130;

/// How often the threads' states are looked at, to count who is runnable.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// Start a program and show, thread by thread, where it runs and what it waits for
///
/// On a terminal the picture is kept open: figures of the last interval, a lane a PU, the
/// program's output in a pane of its own; ? shows the keys. At the end, and always when stdout is
/// no terminal, one table tells the whole run, with a verdict: whether the program has more
/// runnable threads than usable CPUs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel top -- ./service
  creel top --for 10 --format json -- ./batch input
  creel top -p 1234 --for 5

What the program prints goes to a pane, to --output FILE, or, when stdout is no terminal, to
stderr. Exit codes: the program's own; 0 when it is only watched (-p) or goes on (--for); 2 for a
command line that is wrong, 126 and 127 as a shell's, 130 and 143 when interrupted.")]
pub struct TopArgs {
    /// Seconds between two drawings, and what the figures are of
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = options::seconds)]
    interval: f64,
    /// Watch for so many seconds at the most; the program goes on
    #[arg(long = "for", value_name = "SECONDS", value_parser = options::seconds)]
    duration: Option<f64>,
    /// Where the program's output goes
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    output: Option<PathBuf>,
    /// Watch a program that runs already
    #[arg(short, long, conflicts_with = "command", value_name = "PID")]
    pid: Option<u32>,
    /// The program and its arguments; all that follows the program is its own
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
    let machine = Machine::detect()?;
    let usable = Budget::of(&machine).workers();
    let terminals = io::stdout().is_terminal() && io::stdin().is_terminal();
    let live = terminals && matches!(common.format, Format::Text);
    let mut child = match args.pid {
        Some(_) => None,
        None => Some(start(args, live)?),
    };
    let pid = child.as_ref().map(ChildProgram::id).or(args.pid);
    let pid = pid.context("neither a program nor a process")?;
    let mut sampler = Sampler::begin(pid, usable, machine.allowed().iter())?;
    let end = if live {
        let program = name(args, pid);
        let mut live = Live {
            program: &program,
            sampler: &mut sampler,
            child: child.as_mut(),
            interval_s: args.interval,
            until_s: args.duration,
            interrupt: &interrupt,
        };
        live.run()?
    } else {
        wait(args, &mut sampler, child.as_mut(), &interrupt);
        End::Over
    };
    let usable = sampler.usable;
    let code = child.as_mut().and_then(ChildProgram::ended);
    let whole = sampler.whole();
    let verdict = report::verdict(&whole, usable);
    if let Some(child) = child.as_ref().filter(|_| code.is_some()) {
        child.drain();
    }
    let pane = child.as_ref().and_then(|s| s.output(usize::MAX));
    if let Some(rows) = pane.filter(|rows| !rows.is_empty()) {
        // The pane has gone with the picture; what it showed last has not.
        output::text(&format!("{}\n\n", rows.join("\n")))?;
    }
    Report::new(whole, &machine, code).print(&verdict, common)?;
    interrupt.check()?;
    if let Some(child) = child.filter(|_| end == End::Over) {
        child.detach();
    }
    if end == End::Interrupted {
        std::process::exit(INTERRUPTED);
    }
    match code {
        // The program's own code is ours.
        Some(code @ 1..) => std::process::exit(code),
        _ => Ok(Exit::Done),
    }
}

/// A pane would end with us, so a program that is to go on has none.
fn start(args: &TopArgs, live: bool) -> Result<ChildProgram> {
    let (program, rest) = args.command.split_first().context("no program was given")?;
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
        let over = args.duration.is_some_and(|s| sampler.elapsed_s() >= s);
        if !alive || ended || over || stop.requested() {
            return;
        }
        sleep(SAMPLE_INTERVAL);
    }
}

/// What the picture calls the program.
fn name(args: &TopArgs, pid: u32) -> String {
    let first = args.command.first().map(Path::new);
    let file = first.and_then(Path::file_name);
    match file {
        Some(file) => file.to_string_lossy().into_owned(),
        None => {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("{} ({pid})", name.trim())
        }
    }
}
