//! A child process that was started. You can wait for its end, read its output, and kill it.
//!
//! On Linux, the end of a child makes a descriptor readable, which the poller watches. Without such
//! a descriptor, we wait for the signal `SIGCHLD` and then ask about this child.

use super::dropped;
use super::pipe::{ChildStderr, ChildStdin, ChildStdout};
use crate::net::{AsyncFd, Direction};
use crate::signal::{SIGCHLD, signal};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::process::{self, ExitStatus, Output};
use std::task::Poll;

/// A child process. [`Command::spawn`](super::Command::spawn) creates it.
///
/// The fields are the pipes of the standard streams for which you asked. The
/// [module documentation](super) explains what happens to a child whose `Child` is dropped.
pub struct Child {
    /// The pipe to the standard input of the child.
    pub stdin: Option<ChildStdin>,
    /// The pipe from the standard output of the child.
    pub stdout: Option<ChildStdout>,
    /// The pipe from the standard error of the child.
    pub stderr: Option<ChildStderr>,
    /// The standard library's handle of the child. It is `None` only while this value is being
    /// dropped.
    child: Option<process::Child>,
    status: Option<ExitStatus>,
    /// The descriptor that becomes readable when the child ends. It is `None` if the system has
    /// none.
    exit: Option<AsyncFd<OwnedFd>>,
    kill_on_drop: bool,
}

impl Child {
    pub(super) fn new(mut child: process::Child, kill_on_drop: bool) -> io::Result<Self> {
        let exit = exit_descriptor(&child).map(AsyncFd::new);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut this = Child {
            stdin: None,
            stdout: None,
            stderr: None,
            child: Some(child),
            status: None,
            exit,
            kill_on_drop,
        };
        this.stdin = pipes.0.map(ChildStdin::new).transpose()?;
        this.stdout = pipes.1.map(ChildStdout::new).transpose()?;
        this.stderr = pipes.2.map(ChildStderr::new).transpose()?;
        Ok(this)
    }

    fn child(&mut self) -> &mut process::Child {
        self.child.as_mut().expect("only its drop takes the child")
    }

    /// Returns the process ID of the child. Returns `None` after the child has been waited for,
    /// because the system may then use the ID for another process.
    pub fn id(&self) -> Option<u32> {
        let running = self.child.as_ref().filter(|_| self.status.is_none());
        running.map(process::Child::id)
    }

    /// Waits until the child ends, and returns how it ended. Drops [`stdin`](Self::stdin) first, so
    /// that the child does not wait for input.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, you can call it again.
    ///
    /// # Errors
    ///
    /// Returns an error if the system's poller or signals cannot be used, for example because the
    /// process has too many open files. Also returns an error if other code of the process has
    /// waited for this child.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [documentation of sockets](crate::net).
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        if let Some(status) = self.try_wait()? {
            return Ok(status);
        }
        let child = self.child.as_mut().expect("only its drop takes the child");
        let status = match &self.exit {
            Some(exit) => {
                let wait = |_: &OwnedFd| child.try_wait()?.ok_or(ErrorKind::WouldBlock.into());
                exit.async_io(Direction::Read, wait).await?
            }
            None => wait_by_signal(child).await?,
        };
        self.status = Some(status);
        Ok(status)
    }

    /// Returns how the child ended, or `None` if it is still running. Never waits.
    ///
    /// # Errors
    ///
    /// Returns an error if other code of the process has waited for this child.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child().try_wait()?;
        }
        Ok(self.status)
    }

    /// Reads the rest of the child's output, and waits until the child ends. Drops
    /// [`stdin`](Self::stdin) first.
    ///
    /// # Errors
    ///
    /// Returns an error if a pipe cannot be read, and the errors of [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`wait`](Self::wait).
    pub async fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (pipes, mut out, mut err) = (
            (self.stdout.take(), self.stderr.take()),
            Vec::new(),
            Vec::new(),
        );
        let read_out = async {
            match &pipes.0 {
                Some(pipe) => pipe.read_to_end(&mut out).await.map(drop),
                None => Ok(()),
            }
        };
        let read_err = async {
            match &pipes.1 {
                Some(pipe) => pipe.read_to_end(&mut err).await.map(drop),
                None => Ok(()),
            }
        };
        // The child may fill one pipe before it writes to the other. Therefore we read both at the
        // same time.
        let (read_out, read_err) = both(read_out, read_err).await;
        read_out?;
        read_err?;
        Ok(Output {
            status: self.wait().await?,
            stdout: out,
            stderr: err,
        })
    }

    /// Kills the child with `SIGKILL`, and does not wait until it ends.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`InvalidInput`](ErrorKind::InvalidInput) if the child has been
    /// waited for.
    pub fn start_kill(&mut self) -> io::Result<()> {
        if self.status.is_some() {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "cannot kill a child that has already ended",
            ));
        }
        self.child().kill()
    }

    /// Kills the child with `SIGKILL`, and waits until it ends.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`start_kill`](Self::start_kill) and [`wait`](Self::wait).
    pub async fn kill(&mut self) -> io::Result<()> {
        self.start_kill()?;
        self.wait().await.map(drop)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        match self.child.take() {
            Some(child) if self.status.is_none() => match self.kill_on_drop {
                true => dropped::kill(child),
                false => dropped::keep(child),
            },
            _ => {}
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("id", &self.id())
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// Opens the process descriptor of a child that nothing has waited for.
#[cfg(target_os = "linux")]
fn exit_descriptor(child: &process::Child) -> Option<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    // Programs that this process starts do not inherit the descriptor, because the system sets
    // `O_CLOEXEC` on it. An old kernel or a filter of system calls may refuse to open one.
    pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn exit_descriptor(_: &process::Child) -> Option<OwnedFd> {
    None
}

/// Waits for a child on a system without process descriptors.
async fn wait_by_signal(child: &mut process::Child) -> io::Result<ExitStatus> {
    // We register for the signal before we ask the system, because the child may end between these
    // two steps.
    let mut ended = signal(SIGCHLD)?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        ended.recv().await?;
    }
}

/// Awaits two futures at the same time.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut of_a, mut of_b) = (None, None);
    poll_fn(|cx| {
        if of_a.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(cx)
        {
            of_a = Some(output);
        }
        if of_b.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(cx)
        {
            of_b = Some(output);
        }
        match (of_a.take(), of_b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            outputs => {
                (of_a, of_b) = outputs;
                Poll::Pending
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use std::process::Command;

    #[test]
    fn a_child_is_awaited_by_signal_where_there_is_no_descriptor() {
        let pool = Pool::builder().workers(1).build().unwrap();
        for command in ["exit 3", "sleep 0.02; exit 3"] {
            let child = Command::new("sh").args(["-c", command]).spawn().unwrap();
            let mut child = Child::new(child, false).unwrap();
            child.exit = None;
            let status = pool.block_on(child.wait()).unwrap();
            assert_eq!(status.code(), Some(3));
        }
    }
}
