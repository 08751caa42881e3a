//! The commands of the program: what is printed, and which exit code says how it went.

pub mod assign;
pub mod convert;
pub mod draw;
mod output_file;
mod reports;
pub mod run;
mod scene;
pub mod watch;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use creel::Pool;
use creel_console::{Exit, Failure, Interrupt, Progress};
use creel_traffic::sim::{END_MS_MAX, Simulation, TICK_MS};

/// How a simulation is run where it shows its progress and may be interrupted.
struct Steps<'a> {
    ticks: u32,
    /// A step ends each time that so many are done.
    every: Option<u32>,
    interrupt: &'a Interrupt,
    quiet: bool,
}

impl Steps<'_> {
    /// Runs it in steps of a few windows until it is interrupted, and gives back how many ticks were
    /// run. After each step `look` is told how many were so far.
    fn run(
        &self,
        simulation: &mut Simulation,
        pool: &Pool,
        mut look: impl FnMut(&mut Simulation, u32, &Progress) -> anyhow::Result<()>,
    ) -> anyhow::Result<u32> {
        const WINDOWS: u32 = 4;
        let progress = Progress::new(u64::from(self.ticks), "s", self.quiet);
        let step = WINDOWS * (simulation.window_ms() / TICK_MS).max(1);
        let mut done = 0;
        while done < self.ticks && !self.interrupt.requested() {
            let to_end = self.every.map_or(u32::MAX, |every| every - done % every);
            let ticks = step.min(self.ticks - done).min(to_end);
            simulation.run(pool, ticks);
            done += ticks;
            progress.advance(u64::from(ticks));
            look(simulation, done, &progress)?;
        }
        Ok(done)
    }
}

/// Does what takes long, looks at no flag and has nothing to lose: who interrupts it ends the process.
fn run_interruptible<T>(
    interrupt: &Interrupt,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    const LOOKS: Duration = Duration::from_millis(100);
    let (working, done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while done.recv_timeout(LOOKS) == Err(RecvTimeoutError::Timeout) {
                if let Err(failure) = interrupt.check() {
                    let error = failure.into();
                    creel_console::report("creel-traffic", &error);
                    std::process::exit(creel_console::exit_of(&error).code().into());
                }
            }
        });
        let made = work();
        drop(working);
        made
    })
}

/// Refuses to run for longer than a simulation may.
fn check_end(simulation: &Simulation, seconds: u32) -> anyhow::Result<()> {
    let last = u64::from(simulation.now_ms()) + u64::from(seconds) * u64::from(TICK_MS);
    if last > u64::from(END_MS_MAX) {
        return Err(usage("a simulation ends after 34 days"));
    }
    Ok(())
}

/// What is told where a map is wanted of roads that have none.
fn no_map() -> anyhow::Error {
    usage(
        "these roads have no places, so there is no map of them (for NAME.gr, they are in NAME.co beside it)",
    )
}

/// An error of the command line.
fn usage(message: impl Into<String>) -> anyhow::Error {
    Failure::new(Exit::Usage, message).into()
}

/// An error of what was read.
fn bad_data(what: impl std::fmt::Display) -> anyhow::Error {
    Failure::new(Exit::BadData, what.to_string()).into()
}

/// Prints a JSON document with the machine and the budget.
fn document(body: &impl serde::Serialize) -> anyhow::Result<()> {
    let machine = creel_topology::Machine::detect()?;
    let budget = creel_topology::Budget::of(&machine);
    creel_console::output::json(&creel_console::Document::new(&machine, &budget, body))?;
    Ok(())
}
