//! Exit codes. Each code has the same meaning in all programs. Therefore a script can decide
//! whether to continue, to repair the input or to try again.
//!
//! A broken pipe, for example in `creel topo | head -1`, means that the reader has enough. We treat
//! it as [`Exit::Done`] and print no message.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// The result of a program as an exit code.
///
/// Source: the codes 64 to 78 are from `sysexits.h` of BSD. The others are those of shells, for
/// example 126 and 127. The codes 129, 130 and 143 are 128 plus SIGHUP, SIGINT and SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: the program has done all of its work.
    Done,
    /// 1: some parts of the work have failed, and all other parts are done.
    SomeFailed,
    /// 2: the command line is wrong, and the program has done nothing.
    Usage,
    /// 65: the input is malformed, so the same input will fail again.
    BadData,
    /// 75: a resource is busy or missing, and the same command may succeed later.
    TryAgain,
    /// 126: the program to start exists but cannot be executed.
    NotExecutable,
    /// 127: the program to start does not exist.
    NotFound,
    /// 129: the terminal was closed.
    HungUp,
    /// 130: the user has interrupted the program. Outputs that were finished are complete.
    Interrupted,
    /// 143: SIGTERM has ended the program. Outputs that were finished are complete.
    Terminated,
}

impl Exit {
    /// Returns the exit code of the process, 0 to 143.
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

/// An error with an exit code, for cases that the kinds of [`io::Error`] do not cover.
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
    /// Creates a failure from its exit code and a message of one line, which names the thing that
    /// failed, the reason, and the next step.
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

/// Returns the exit code for an error.
///
/// The first error in the chain of causes that has a code decides:
///
/// | error | exit code |
/// |---|---|
/// | [`Failure`] | its own |
/// | [`clap::Error`] | [`Exit::Usage`], or [`Exit::Done`] for the help and the version |
/// | [`io::Error`], broken pipe | [`Exit::Done`] |
/// | [`io::Error`], malformed data | [`Exit::BadData`] |
/// | [`io::Error`], busy or timed-out resource | [`Exit::TryAgain`] |
/// | none of these | [`Exit::SomeFailed`] |
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
        // serde_json wraps the error of the stream that it writes to, so we look at its kind here.
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

/// Concludes a program. Prints `PROGRAM: reason: cause` on stderr if `outcome` is an error, and
/// returns the exit code for `main` to return.
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

/// Concludes a program as [`conclude`] does, except that an interrupted program ends by the signal
/// itself. The shell shows the same code. In addition, a loop in the shell ends as well, because
/// the shell sees the signal.
pub fn conclude_by_signal(program: &str, outcome: anyhow::Result<Exit>) -> ExitCode {
    #[cfg(unix)]
    let failed = outcome.as_ref().err().map(exit_of);
    let code = conclude(program, outcome);
    #[cfg(unix)]
    if let Some(exit) = failed {
        end_by_signal(exit);
    }
    code
}

/// Ends the process by the signal that the exit code stands for. Returns if the code does not stand
/// for a signal.
#[cfg(unix)]
fn end_by_signal(exit: Exit) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let signal = match exit {
        Exit::HungUp => SIGHUP,
        Exit::Interrupted => SIGINT,
        Exit::Terminated => SIGTERM,
        _ => return,
    };
    // The signal ends the process at once and discards buffered output, so we flush the output
    // first.
    let _ = io::Write::flush(&mut io::stdout());
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

/// Prints `PROGRAM: reason: cause` as one line on stderr, for a part of the work that failed while
/// the others continue.
pub fn report(program: &str, error: &anyhow::Error) {
    use std::io::Write;
    // If stderr is closed, there is no place left to report an error to.
    let _ = writeln!(anstream::stderr(), "{program}: {error:#}");
}

/// Returns the message of an error and the messages of its causes, separated by `: `. The message
/// of one of our errors does not contain its cause.
///
/// ```
/// use creel_console::with_causes;
/// use creel_topology::Machine;
///
/// let folder = std::path::Path::new("/no/such/folder");
/// let error = Machine::read_from(folder).unwrap_err();
/// assert_eq!(error.to_string(), "cannot read /no/such/folder");
/// assert!(with_causes(error).starts_with("cannot read /no/such/folder: "));
/// ```
pub fn with_causes(error: impl Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
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
