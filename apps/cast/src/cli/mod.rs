//! The command line: a file a program.

pub mod evaluate;
mod finished_runs;
mod media;
pub mod receive;
pub mod relay;
mod report;
pub mod rooms;
mod rows;
pub mod send;
pub mod standalone;

use std::time::Duration;

use clap::Args;
use creel::{Observe, Wait};
use creel_cast::{Error, WavError};
use creel_console::{Exit, Failure, Interrupt, exit_of};

/// The contexts, as all programs have them.
#[derive(Args, Debug)]
struct ContextArgs {
    /// Streams
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = count)]
    streams: usize,
    /// Contexts: threads that share the streams
    #[arg(long, alias = "groups", value_name = "N", default_value_t = 1, value_parser = count)]
    contexts: usize,
    /// How long a context waits before it reacts again; 0ms: as soon as it can
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = time)]
    wait: Duration,
    #[command(flatten)]
    observe_args: ObserveArgs,
}

/// Who else may look at the contexts, as all programs have it.
#[derive(Args, Debug)]
struct ObserveArgs {
    /// What others may do with the contexts from outside: off, or look (`creel top` shows them)
    #[arg(long, value_name = "O", value_parser = observe)]
    observe: Option<Observe>,
}

/// A number from one to a million.
fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1_000_000) => Ok(number),
        _ => Err("a number from 1 to 1000000 is needed".into()),
    }
}

/// A context is one worker: there is nothing to resize.
fn observe(text: &str) -> Result<Observe, String> {
    match text.parse() {
        Ok(what @ (Observe::Off | Observe::Look)) => Ok(what),
        _ => Err("off or look".into()),
    }
}

/// A time such as `20ms`, as the knobs write it.
fn time(text: &str) -> Result<Duration, String> {
    match format!("throttle:{text}").parse() {
        Ok(Wait::Throttle(time)) => Ok(time),
        _ => Err("a time is a number with ns, us, ms or s: 20ms".into()),
    }
}

/// A time that is not zero.
fn period(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err("a period is longer than nothing".into()),
        time => Ok(time),
    }
}

/// The code of a run that has told its figures: that it was interrupted goes before what they say.
fn exit_code(interrupt: &Interrupt, exit: Exit) -> Exit {
    match interrupt.check() {
        Ok(()) => exit,
        Err(failure) => {
            let error = failure.into();
            creel_console::report("creel-cast", &error);
            exit_of(&error)
        }
    }
}

/// The library's error with the exit code that it asks for.
fn exit_error(error: Error) -> anyhow::Error {
    let exit = match &error {
        Error::Plan(_) | Error::Pool(_) => Exit::Usage,
        Error::Interrupted => Exit::Interrupted,
        Error::Wav(WavError::Io(..)) | Error::File(..) => Exit::SomeFailed,
        Error::Wav(_) | Error::Malformed(..) => Exit::BadData,
        Error::Socket(..) => Exit::TryAgain,
    };
    Failure::new(exit, error.to_string()).into()
}
