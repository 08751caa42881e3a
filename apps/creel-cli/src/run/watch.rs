//! The parent of a program, which reports changes of its limits, for example of a quota or a
//! cpuset.
//!
//! Most runtimes read their limits once, and you cannot notify them. We resize the pools of Creel
//! programs that allow it (`creel::Observe::Resize`). For other programs, you can give a shell
//! command, because each program has a way of its own.
//!
//! We forward signals to the program and return its exit code. If a signal ends the program, our
//! exit code is 128 plus the signal.

use super::exec;
use super::plan::{Plan, Request, budget_now};
use crate::{inherited, pools, process};
use anyhow::{Context, Result};
use creel_console::{Exit, output};
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};
use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2},
    iterator::Signals,
};
use std::{
    ffi::OsString,
    io,
    io::IsTerminal,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

/// The time between two checks of the limits. We have to poll, because control groups send no
/// notification when their limits change.
const READ_EVERY: Duration = Duration::from_millis(500);

pub struct Watch<'a> {
    pub request: &'a Request,
    pub on_change: Option<&'a str>,
    pub quiet: bool,
}

impl Watch<'_> {
    /// Starts the program and stays until it ends.
    pub fn run(&self, plan: &Plan, command: &[OsString]) -> Result<Exit> {
        let forwarded = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
        // Signals that were ignored at our start stay ignored, for us and for the program.
        let forwarded = forwarded.into_iter().filter(|&s| !inherited::ignored(s));
        let mut signals = Signals::new(forwarded.chain([SIGCHLD]))?;
        let mut child = start(plan, &plan.command(command)).map_err(|e| {
            let error = e
                .raw_os_error()
                .map_or(Errno::UnknownErrno, Errno::from_raw);
            exec::failure(&plan.program.path, error)
        })?;
        let pid = i32::try_from(child.id())
            .context("cannot watch the program: its process id is too large for this system")?;
        // A terminal sends SIGINT and SIGQUIT to the program as well.
        let by_terminal = std::io::stdin().is_terminal();
        let own = Mutex::new(None);
        thread::scope(|s| {
            let (stop, stopped) = std::sync::mpsc::channel::<()>();
            let (line, own) = (&own, &own);
            s.spawn(move || self.limits(plan.workers(), pid, &stopped, line));
            for signal in signals.forever() {
                if signal == SIGCHLD {
                    if let Some(status) = child.try_wait()? {
                        drop(stop);
                        return ended(status);
                    }
                    reap(pid, own);
                } else if !(by_terminal && [SIGINT, SIGQUIT].contains(&signal)) {
                    let signal = Signal::try_from(signal).context("received an unknown signal")?;
                    // We ignore the error, because it means that the program has just ended.
                    let _ = kill(Pid::from_raw(pid), signal);
                }
            }
            Ok(Exit::Done)
        })
    }

    /// Polls the limits until `stopped` is closed, and reports changes.
    fn limits(
        &self,
        first: usize,
        pid: i32,
        stopped: &std::sync::mpsc::Receiver<()>,
        own: &Mutex<Option<u32>>,
    ) {
        let mut known = match self.request.jobs {
            // The program keeps the number of --jobs. We report changes of the limits nevertheless.
            Some(_) => budget_now(self.request).map_or(first, |budget| budget.workers()),
            None => first,
        };
        let timeout = std::sync::mpsc::RecvTimeoutError::Timeout;
        while stopped.recv_timeout(READ_EVERY) == Err(timeout) {
            let Ok(budget) = budget_now(self.request) else {
                continue;
            };
            let now = budget.workers();
            if now == known {
                continue;
            }
            if !self.quiet {
                output::note(&format!(
                    "creel: limits have changed: usable workers: {now} instead of {known}, bound \
                     by {}\n",
                    budget.bound_by()
                ));
            }
            known = now;
            self.notify(now, pid, own);
        }
    }

    /// Resizes the pools of the program that allow it, and runs the command of the user.
    fn notify(&self, workers: usize, pid: i32, own: &Mutex<Option<u32>>) {
        let mut pids = process::descendants(pid.unsigned_abs());
        pids.push(pid.unsigned_abs());
        let (resized, refused) = pools::resize(&pids, workers);
        if !self.quiet {
            if resized > 0 {
                output::note(&format!("creel: resized pools of the program: {resized}\n"));
            }
            refused
                .iter()
                .for_each(|why| output::note(&format!("creel: {why}\n")));
        }
        let Some(line) = self.on_change else {
            return;
        };
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .env("CREEL_WORKERS", workers.to_string())
            .env("CREEL_PID", pid.to_string())
            .stdin(Stdio::null());
        let started = {
            // The lock keeps `reap` out until the id of the shell is recorded.
            let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
            let started = command.spawn();
            *own = started.as_ref().ok().map(Child::id);
            started
        };
        let finished = started.and_then(|mut line| line.wait());
        *own.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if !finished.is_ok_and(|status| status.success()) && !self.quiet {
            output::note(&format!(
                "creel: the command of --on-change failed, and the program keeps running: {line}\n"
            ));
        }
    }
}

fn start(plan: &Plan, words: &[OsString]) -> io::Result<Child> {
    let spawn = |path: &Path, words: &[OsString]| {
        let mut command = Command::new(path);
        command
            .arg0(&words[0])
            .args(&words[1..])
            .envs(plan.variables());
        inherited::restore_in_child(&mut command).spawn()
    };
    let path = &plan.program.path;
    match spawn(path, words) {
        Err(e) if e.raw_os_error() == Some(Errno::ENOEXEC as i32) => {
            spawn(Path::new(exec::SHELL), &exec::for_shell(path, words))
        }
        started => started,
    }
}

/// Reaps children other than the program and the shell. We have such children if we are the first
/// process of a container, because it adopts processes whose parents have ended.
fn reap(program: i32, own: &Mutex<Option<u32>>) {
    let own = own.lock().unwrap_or_else(PoisonError::into_inner);
    for pid in process::children(std::process::id()) {
        let is_known = *own == Some(pid) || pid == program.unsigned_abs();
        if let Some(pid) = i32::try_from(pid).ok().filter(|_| !is_known) {
            // WNOHANG leaves children alone that are still running.
            let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
        }
    }
}

fn ended(status: ExitStatus) -> Result<Exit> {
    let by_signal = status.signal().map(|signal| 128 + signal);
    match status.code().or(by_signal).unwrap_or(1) {
        0 => Ok(Exit::Done),
        // We return the exit code of the program.
        code => std::process::exit(code),
    }
}
