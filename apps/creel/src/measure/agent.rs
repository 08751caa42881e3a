//! The near end of the process that runs the commands: see [`super::one`].

use super::one::{Answer, Order, Outcome, signal_below};
use anyhow::{Context, Result, bail};
use creel_console::Interrupt;
use nix::sys::signal::Signal;
use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command},
    time::Duration,
};

/// The first argument with which this program becomes that process.
pub const ONE: &str = "measure-one";

/// How often an interrupt is looked for while a command runs.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The process that runs commands; ended, with all that it runs, when dropped.
pub struct Agent {
    process: Child,
    orders: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Agent {
    pub fn start() -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this program's own file")?;
        let (near, far) = UnixStream::pair()?;
        near.set_read_timeout(Some(LOOK_EVERY))?;
        let process = Command::new(own)
            .arg(ONE)
            .stdin(OwnedFd::from(far))
            .spawn()
            .context("cannot start this program again")?;
        Ok(Self {
            process,
            answers: BufReader::new(near.try_clone()?),
            orders: near,
        })
    }

    /// Does one run; an interrupt ends it.
    pub fn run(&mut self, order: &Order, interrupt: &Interrupt) -> Result<Outcome> {
        let text = serde_json::to_string(order)?;
        writeln!(self.orders, "{text}").context("the process that runs commands has ended")?;
        let mut line = Vec::new();
        loop {
            match self.answers.read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => break,
                Ok(_) => {
                    // A Ctrl-C reaches that process too.
                    interrupt.check()?;
                    bail!("the process that runs commands has ended");
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    interrupt.check()?;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => interrupt.check()?,
                Err(e) => return Err(e.into()),
            }
        }
        match serde_json::from_slice(&line)? {
            Answer::Ran(outcome) => Ok(outcome),
            Answer::Failed(reason) => bail!(reason),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        signal_below(self.process.id(), Signal::SIGKILL);
        // It has ended, or ends when its socket does.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
