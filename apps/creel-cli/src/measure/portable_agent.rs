//! Runs the commands on systems other than Linux, which have no subreaper and no `/proc`.
//!
//! The times and the peak memory are those that the system reports for the ended process. On
//! Windows, they do not include the processes that the command has started. We neither wait for
//! processes that outlive the command nor end them, so `--linger` has no effect.

use super::{
    request::{Outcome, RunRequest, command},
    sample::Sample,
};
use anyhow::{Context, Result};
use creel_console::{Exit, Failure, Interrupt};
use std::{
    ffi::OsStr,
    io,
    process::ExitStatus,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};
use wait4::Wait4;

/// The time between two checks for an interrupt while a command runs.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Does not look for a program, because only the system knows the rules by which it finds one.
/// [`Agent::run`] returns the error of a program that does not exist.
pub fn find(_: &OsStr) -> Result<()> {
    Ok(())
}

/// Runs commands as children of this process.
pub struct Agent;

impl Agent {
    pub fn start() -> Result<Self> {
        Ok(Agent)
    }

    /// Runs a command once. An interrupt ends the run.
    pub fn run(&mut self, request: &RunRequest, interrupt: &Interrupt) -> Result<Outcome> {
        let mut command = command(request)?;
        let begin = Instant::now();
        let child = command.spawn();
        let mut child = child.map_err(|error| start_failure(command.get_program(), &error))?;
        let (id, stdout) = (child.id(), child.stdout.take());
        let timeout = request.timeout_s.map(Duration::from_secs_f64);
        let (done, is_done) = channel();
        let (ended, wall, timed_out) = thread::scope(|s| {
            // A reader empties the pipe, because the command would wait when the pipe is full.
            stdout.map(|mut pipe| s.spawn(move || io::copy(&mut pipe, &mut io::sink())));
            let limits = s.spawn(move || enforce_limits(id, timeout, interrupt, &is_done));
            let ended = child.wait4();
            let wall = begin.elapsed();
            drop(done);
            (ended, wall, limits.join().unwrap_or(false))
        });
        let ended = ended.context("cannot wait for the command")?;
        let (user, sys) = (ended.rusage.utime, ended.rusage.stime);
        let mut sample = Sample::default();
        sample.set("wall_s", Some(wall.as_secs_f64()));
        sample.set("cpu_s", Some((user + sys).as_secs_f64()));
        sample.set("user_s", Some(user.as_secs_f64()));
        sample.set("sys_s", Some(sys.as_secs_f64()));
        // It is 0 if the system no longer knows it.
        let peak = Some(ended.rusage.maxrss as f64).filter(|peak| *peak > 0.0);
        sample.set("peak_rss_bytes", peak);
        Ok(Outcome {
            values: sample.values,
            exit_code: exit_code(ended.status),
            timed_out,
            ended: 0,
        })
    }
}

/// Ends the process after the time-out, or after an interrupt. Returns when the other end of the
/// channel is closed, and reports whether the process took too long.
fn enforce_limits(
    id: u32,
    timeout: Option<Duration>,
    interrupt: &Interrupt,
    is_done: &Receiver<()>,
) -> bool {
    let begin = Instant::now();
    let mut timed_out = false;
    let left = |begin: Instant| timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
    loop {
        let wait = left(begin).filter(|_| !timed_out).unwrap_or(POLL_INTERVAL);
        match is_done.recv_timeout(wait.min(POLL_INTERVAL)) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return timed_out,
        }
        timed_out |= left(begin).is_some_and(|left| left.is_zero());
        if timed_out || interrupt.requested() {
            end(id);
        }
    }
}

/// Ends a process. We ignore errors, because the process may have ended in the meantime.
#[cfg(unix)]
fn end(id: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
}

/// Ends a process and the processes that it has started. The standard library can end a child, but
/// not while another thread waits for it. We ignore errors, because the process may have ended in
/// the meantime.
#[cfg(windows)]
fn end(id: u32) {
    use std::process::{Command, Stdio};
    let mut taskkill = Command::new("taskkill");
    taskkill.args(["/F", "/T", "/PID", &id.to_string()]);
    let _ = taskkill
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

#[cfg(unix)]
fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let by_signal = status.signal().map(|signal| 128 + signal);
    status.code().or(by_signal).unwrap_or(-1)
}

#[cfg(windows)]
fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(-1)
}

/// Explains why a command could not be started, with the exit codes of a shell: 127 if it does not
/// exist, and 126 otherwise.
fn start_failure(program: &OsStr, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::NotFound => Exit::NotFound,
        _ => Exit::NotExecutable,
    };
    Failure::new(exit, format!("cannot run {}: {error}", program.display()))
}
