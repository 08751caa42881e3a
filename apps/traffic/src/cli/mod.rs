//! The subcommands of the program: what each one prints, and which exit code it returns. We keep
//! everything here that concerns the command line, and the simulation itself in the library.

pub mod assign;
pub mod convert;
pub mod draw;
mod incidents;
mod output_file;
mod reports;
pub mod run;
mod scene;
pub mod watch;

use std::cell::RefCell;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use creel::Pool;
use creel_console::{Exit, Failure, Interrupt, Progress, duration};
use creel_traffic::sim::{END_MS_MAX, Simulation, TICK_MS};
use incidents::Incidents;

/// The settings for running a simulation in steps. Between two steps, we show the progress and
/// check for an interrupt.
struct Steps<'a> {
    ticks: u32,
    /// The interval of the caller's periodic work in ticks. A step ends at each multiple of it.
    every: Option<u32>,
    /// The time table of changes to roads.
    incidents: RefCell<Incidents>,
    interrupt: &'a Interrupt,
    quiet: bool,
}

impl Steps<'_> {
    /// Runs the simulation in steps of a few windows until it is finished or interrupted. Calls
    /// `after_step` after each step with the number of ticks run so far. Returns the number of
    /// ticks that were run.
    fn run(
        &self,
        simulation: &mut Simulation,
        pool: &Pool,
        mut after_step: impl FnMut(&mut Simulation, u32, &Progress) -> anyhow::Result<()>,
    ) -> anyhow::Result<u32> {
        const WINDOWS: u32 = 4;
        let progress = Progress::new(u64::from(self.ticks), "s", self.quiet);
        let step = WINDOWS * (simulation.window_ms() / TICK_MS).max(1);
        let mut done = 0;
        while done < self.ticks && !self.interrupt.requested() {
            let mut incidents = self.incidents.borrow_mut();
            incidents.apply(simulation, pool)?;
            let next = incidents.next_ms(simulation.now_ms());
            let to_incident = next.map_or(u32::MAX, |next| {
                (next - simulation.now_ms()).div_ceil(TICK_MS)
            });
            drop(incidents);
            let to_end = self.every.map_or(u32::MAX, |every| every - done % every);
            let ticks = step.min(self.ticks - done).min(to_end).min(to_incident);
            simulation.run(pool, ticks);
            done += ticks;
            progress.advance(u64::from(ticks));
            after_step(simulation, done, &progress)?;
        }
        Ok(done)
    }
}

/// Runs `work`, and ends the whole process if the user interrupts it. Use it for work that takes
/// long, does not check for interrupts itself, and has no state worth saving.
fn run_interruptible<T>(
    interrupt: &Interrupt,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    const POLL_INTERVAL: Duration = Duration::from_millis(100);
    let (working, done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while done.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
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
            "cannot simulate for that long: a simulation ends after 34 days. Use a smaller --seconds",
        ));
    }
    Ok(())
}

/// Returns the error for a command that draws a map, if the network has no coordinates.
fn no_map() -> anyhow::Error {
    usage(
        "cannot draw a map: the network has no coordinates. For a network NAME.gr, put them into NAME.co in the same folder",
    )
}

/// Parses a number of seconds from `MIN` to `MAX`, for example `7200`, `2h` or `90m`. Only whole
/// seconds are valid, because a tick is one second.
fn seconds<const MIN: u32, const MAX: u32>(text: &str) -> Result<u32, String> {
    let ms = to_milliseconds(text, 1000)?;
    if ms % 1000 != 0 {
        return Err("expected a time in whole seconds, for example 90 or 2h".into());
    }
    let seconds = u32::try_from(ms / 1000).ok();
    seconds
        .filter(|seconds| (MIN..=MAX).contains(seconds))
        .ok_or_else(|| format!("expected {MIN} to {MAX} seconds"))
}

/// Parses a number of milliseconds, for example `1200` or `1.2s`.
fn milliseconds(text: &str) -> Result<u32, String> {
    u32::try_from(to_milliseconds(text, 1)?)
        .map_err(|_| "the time is longer than 49 days, which is the maximum".into())
}

/// Parses a time in milliseconds. A number without a unit is multiplied by `unit_ms`.
fn to_milliseconds(text: &str, unit_ms: u128) -> Result<u128, String> {
    if let Ok(number) = text.parse::<u64>() {
        return Ok(u128::from(number) * unit_ms);
    }
    let duration = duration::value_parser(text)?;
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err("expected a time in whole milliseconds, for example 1500 or 1.5s".into());
    }
    Ok(duration.as_millis())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_may_have_a_unit() {
        let parse = seconds::<1, 10_000>;
        assert_eq!(parse("7200"), Ok(7200));
        assert_eq!(parse("2h"), Ok(7200));
        assert_eq!(parse("1m 30s"), Ok(90));
        assert_eq!(milliseconds("1.2s"), milliseconds("1200"));
        for text in [
            "0",
            "3h",
            "10001",
            "1500ms",
            "x",
            "-1",
            "99999999999999999999",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(milliseconds("1us").is_err() && milliseconds("99999999999").is_err());
    }
}
