//! Starts the process that runs the commands, and talks to it. See [`super::runner`].

use super::{
    request::{Outcome, RunReply, RunRequest},
    runner::signal_below,
};
use crate::run::executable;
use anyhow::{Context, Result, bail};
use creel_console::{Exit, Failure, Interrupt, system};
use nix::sys::signal::Signal;
use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, ErrorKind, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command},
    time::Duration,
};

/// The first argument that turns a new process of this program into the one that runs commands.
pub const RUNNER_COMMAND: &str = "measure-one";

/// The time between two checks for an interrupt while a command runs.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The error message if the process that runs commands has ended unexpectedly.
const ENDED: &str = "the process that runs the commands for creel has ended unexpectedly: run \
                     creel again";

/// Returns an error if a program does not exist or cannot be executed.
pub fn find(program: &OsStr) -> Result<()> {
    executable::find(program).map(drop)
}

/// The process that runs commands. Dropping it ends the process and its children.
pub struct Agent {
    process: Child,
    requests: UnixStream,
    replies: BufReader<UnixStream>,
}

impl Agent {
    pub fn start() -> Result<Self> {
        let own = system::own_program().context(
            "cannot find the program file of creel, which creel starts a second time to run the \
             commands",
        )?;
        let (near, far) = UnixStream::pair()?;
        near.set_read_timeout(Some(POLL_INTERVAL))?;
        let process = Command::new(own)
            .arg(RUNNER_COMMAND)
            .stdin(OwnedFd::from(far))
            .spawn()
            .context("cannot start creel a second time, as the process that runs the commands")?;
        Ok(Self {
            process,
            replies: BufReader::new(near.try_clone()?),
            requests: near,
        })
    }

    /// Runs a command once. An interrupt ends the run.
    pub fn run(&mut self, request: &RunRequest, interrupt: &Interrupt) -> Result<Outcome> {
        let text = serde_json::to_string(request)?;
        writeln!(self.requests, "{text}").context(ENDED)?;
        let mut line = Vec::new();
        loop {
            match self.replies.read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => break,
                Ok(_) => {
                    // A Ctrl-C in the terminal also reaches the process that runs commands, so we
                    // check for an interrupt first.
                    interrupt.check()?;
                    bail!(ENDED);
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    interrupt.check()?;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => interrupt.check()?,
                Err(e) => return Err(e.into()),
            }
        }
        match serde_json::from_slice(&line)? {
            RunReply::Ran(outcome) => Ok(outcome),
            RunReply::Failed { exit, reason } => {
                let codes = [Exit::NotFound, Exit::NotExecutable, Exit::SomeFailed];
                let exit = codes.into_iter().find(|known| known.code() == exit);
                Err(Failure::new(exit.unwrap_or(Exit::Usage), reason).into())
            }
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        signal_below(self.process.id(), Signal::SIGKILL);
        // We ignore errors, because the process ends when its socket is closed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
