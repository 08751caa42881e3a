//! The subcommands of the program: what each one prints, and which exit code it returns.

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

/// How to run a simulation that shows its progress and can be interrupted.
struct Steps<'a> {
    ticks: u32,
    /// The interval of the caller's periodic work in ticks. A step ends at each multiple of it.
    every: Option<u32>,
    interrupt: &'a Interrupt,
    quiet: bool,
}

impl Steps<'_> {
    /// Runs the simulation in steps of a few windows until it is finished or interrupted. Calls
    /// `look` after each step with the number of ticks run so far. Returns the number of ticks that
    /// were run.
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

/// Runs `work`, which takes long, does not check for interrupts and has no state worth saving. An
/// interrupt therefore ends the whole process.
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

/// Returns an error if the run would exceed the maximum simulated time.
fn check_end(simulation: &Simulation, seconds: u32) -> anyhow::Result<()> {
    let last = u64::from(simulation.now_ms()) + u64::from(seconds) * u64::from(TICK_MS);
    if last > u64::from(END_MS_MAX) {
        return Err(usage(
            "cannot simulate for that long: a simulation ends after 34 days",
        ));
    }
    Ok(())
}

/// Returns the error for a map of a network that has no coordinates.
fn no_map() -> anyhow::Error {
    usage(
        "cannot draw a map: the network has no coordinates (those of NAME.gr are read from NAME.co in the same folder)",
    )
}

/// Returns an error with the exit code for wrong usage.
fn usage(message: impl Into<String>) -> anyhow::Error {
    Failure::new(Exit::Usage, message).into()
}

/// Returns an error with the exit code for invalid input data.
fn bad_data(what: impl std::fmt::Display) -> anyhow::Error {
    Failure::new(Exit::BadData, what.to_string()).into()
}

/// Prints a JSON document that also describes the machine and its CPU budget.
fn document(body: &impl serde::Serialize) -> anyhow::Result<()> {
    let machine = creel_topology::Machine::detect()?;
    let budget = creel_topology::Budget::of(&machine);
    creel_console::output::json(&creel_console::Document::new(&machine, &budget, body))?;
    Ok(())
}
