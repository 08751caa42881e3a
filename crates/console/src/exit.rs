//! Exit codes: one meaning each in all programs, so that a scheduler can decide
//! whether to go on, repair the input or try again.
//!
//! A broken pipe (`creel topo | head -1`) is how a reader says "enough": it is
//! [`Exit::Done`] without a message.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// How a program ended.
///
/// Source: 64 to 78 from BSD's `sysexits.h`; 126 and 127 are the shells', and so are 129, 130 and 143:
/// 128 + SIGHUP, SIGINT and SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: all that was asked for is done.
    Done,
    /// 1: some units failed, the others are done.
    SomeFailed,
    /// 2: the command line was wrong; nothing was done.
    Usage,
    /// 65: the input is malformed; the same input will fail again.
    BadData,
    /// 75: a resource was busy or missing for now; the same command may succeed later.
    TryAgain,
    /// 126: a program to be started is there but cannot be executed.
    NotExecutable,
    /// 127: there is no such program to start.
    NotFound,
    /// 129: its terminal was closed.
    HungUp,
    /// 130: interrupted by the user; finished outputs are whole.
    Interrupted,
    /// 143: the same by SIGTERM.
    Terminated,
}

impl Exit {
    /// The process's exit code, 0 to 143.
    ///
    /// ```
    /// assert_eq!(creel_console::Exit::BadData.code(), 65);
    /// ```
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::SomeFailed => 1,
            Exit::Usage => 2,
            Exit::BadData => 65,
            Exit::TryAgain => 75,
            Exit::NotExecutable => 126,
            Exit::NotFound => 127,
            Exit::HungUp => 129,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// An error that knows its exit code, for what the kinds of [`io::Error`] cannot tell.
///
/// ```
/// use creel_console::{Exit, Failure, exit_of};
///
/// let error = anyhow::Error::from(Failure::new(Exit::Usage, "--jobs 0: at least one worker"));
/// assert_eq!(exit_of(&error), Exit::Usage);
/// ```
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    /// A failure with its exit code and the one line that names the thing and the reason.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure {
            exit,
            message: message.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {}

/// The exit that an error asks for: the first cause in its chain that tells one, else
/// [`Exit::SomeFailed`].
///
/// A [`Failure`] tells its own; an [`io::Error`] of a busy or timed-out resource is
/// [`Exit::TryAgain`], of malformed data [`Exit::BadData`], of a broken pipe [`Exit::Done`].
pub fn exit_of(error: &anyhow::Error) -> Exit {
    error
        .chain()
        .find_map(exit_of_cause)
        .unwrap_or(Exit::SomeFailed)
}

fn exit_of_cause(cause: &(dyn Error + 'static)) -> Option<Exit> {
    if let Some(failure) = cause.downcast_ref::<Failure>() {
        return Some(failure.exit);
    }
    if let Some(clap) = cause.downcast_ref::<clap::Error>() {
        return Some(if clap.use_stderr() {
            Exit::Usage
        } else {
            Exit::Done
        });
    }
    let kind = match cause.downcast_ref::<io::Error>() {
        Some(io) => io.kind(),
        // serde_json and csv wrap the error of the stream that they write to.
        None => cause.downcast_ref::<serde_json::Error>()?.io_error_kind()?,
    };
    match kind {
        io::ErrorKind::BrokenPipe => Some(Exit::Done),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Some(Exit::BadData),
        io::ErrorKind::WouldBlock
        | io::ErrorKind::TimedOut
        | io::ErrorKind::ResourceBusy
        | io::ErrorKind::ExecutableFileBusy => Some(Exit::TryAgain),
        _ => None,
    }
}

/// Ends a program: prints `PROGRAM: reason: cause` on stderr where `outcome` is an error, and
/// gives the code for `main` to return.
///
/// ```no_run
/// use creel_console::Exit;
///
/// fn main() -> std::process::ExitCode {
///     creel_console::conclude("creel-vgm", run())
/// }
///
/// fn run() -> anyhow::Result<Exit> {
///     Ok(Exit::Done)
/// }
/// ```
pub fn conclude(program: &str, outcome: anyhow::Result<Exit>) -> ExitCode {
    let exit = match outcome {
        Ok(exit) => exit,
        Err(error) => {
            let exit = exit_of(&error);
            if exit != Exit::Done {
                report(program, &error);
            }
            exit
        }
    };
    exit.into()
}

/// As [`conclude`], but that who was interrupted ends by the signal itself: the code that a shell shows
/// is the same, and its loop, too, ends.
pub fn conclude_by_signal(program: &str, outcome: anyhow::Result<Exit>) -> ExitCode {
    let failed = outcome.as_ref().err().map(exit_of);
    let code = conclude(program, outcome);
    #[cfg(unix)]
    if let Some(exit) = failed {
        end_by_signal(exit);
    }
    code
}

/// Returns where it was no signal.
#[cfg(unix)]
fn end_by_signal(exit: Exit) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let signal = match exit {
        Exit::HungUp => SIGHUP,
        Exit::Interrupted => SIGINT,
        Exit::Terminated => SIGTERM,
        _ => return,
    };
    // What was printed is not lost.
    let _ = io::Write::flush(&mut io::stdout());
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

/// Prints `PROGRAM: reason: cause` as one line on stderr, for a unit that failed while the
/// others go on.
pub fn report(program: &str, error: &anyhow::Error) {
    use std::io::Write;
    // Nobody is left to tell when stderr itself is closed.
    let _ = writeln!(anstream::stderr(), "{program}: {error:#}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    fn io(kind: io::ErrorKind) -> anyhow::Error {
        Err::<(), _>(io::Error::new(kind, "x"))
            .context("writing out.wav")
            .unwrap_err()
    }

    #[test]
    fn the_cause_decides_the_exit_code() {
        assert_eq!(exit_of(&io(io::ErrorKind::BrokenPipe)), Exit::Done);
        assert_eq!(exit_of(&io(io::ErrorKind::InvalidData)), Exit::BadData);
        assert_eq!(exit_of(&io(io::ErrorKind::TimedOut)), Exit::TryAgain);
        assert_eq!(exit_of(&io(io::ErrorKind::NotFound)), Exit::SomeFailed);
        let nested = anyhow::Error::from(Failure::new(Exit::BadData, "magic")).context("a.vgm");
        assert_eq!(exit_of(&nested), Exit::BadData);
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        struct Closed;
        impl io::Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = serde_json::to_writer(Closed, &[1, 2]).unwrap_err();
        assert_eq!(exit_of(&error.into()), Exit::Done);
    }
}
