//! A program's parent that says when its limits change: a quota or a cpuset that somebody writes
//! while it runs.
//!
//! Most runtimes read their limits once and cannot be told. Creel's own pools can, where the
//! program allows it (`creel::Observe::Resize`); others by a line of shell, for each has a way of
//! its own. Signals for this process go on to the program, and its
//! exit code is ours; a program that a signal ended ends us with 128 + that signal.

use super::plan::{Plan, Wishes, budget_now};
use crate::{pools, process};
use anyhow::{Context, Result};
use creel_console::{Exit, Failure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2},
    iterator::Signals,
};
use std::{
    ffi::OsString,
    io::IsTerminal,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

/// How often the limits are read. Control groups tell nobody that they were written.
const READ_EVERY: Duration = Duration::from_millis(500);

pub struct Watch<'a> {
    pub wishes: &'a Wishes,
    pub on_change: Option<&'a str>,
    pub quiet: bool,
}

impl Watch<'_> {
    /// Starts the program and stays until it ends.
    pub fn run(&self, plan: &Plan, command: &[OsString]) -> Result<Exit> {
        let forwarded = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
        let mut signals = Signals::new(forwarded.into_iter().chain([SIGCHLD]))?;
        let words = plan.command(command);
        let mut child = Command::new(&plan.program.path)
            .arg0(&words[0])
            .args(&words[1..])
            .envs(plan.variables())
            .spawn()
            .map_err(|e| {
                let text = format!("cannot run {}: {e}", plan.program.path.display());
                Failure::new(Exit::NotExecutable, text)
            })?;
        let pid = i32::try_from(child.id()).context("a pid that is none")?;
        // A terminal sends these to the program too.
        let by_terminal = std::io::stdin().is_terminal();
        thread::scope(|s| {
            let (stop, stopped) = std::sync::mpsc::channel::<()>();
            s.spawn(move || self.limits(plan.workers(), pid, &stopped));
            for signal in signals.forever() {
                if signal == SIGCHLD {
                    if let Some(status) = child.try_wait()? {
                        drop(stop);
                        return ended(status);
                    }
                } else if !(by_terminal && [SIGINT, SIGQUIT].contains(&signal)) {
                    let signal = Signal::try_from(signal).context("a signal that is none")?;
                    // Who has just ended needs no telling.
                    let _ = kill(Pid::from_raw(pid), signal);
                }
            }
            Ok(Exit::Done)
        })
    }

    /// Reads the limits until told to stop, and says what changes.
    fn limits(&self, first: usize, pid: i32, stopped: &std::sync::mpsc::Receiver<()>) {
        let mut known = match self.wishes.jobs {
            // What was asked for holds; what the limits warrant is said all the same.
            Some(_) => budget_now(self.wishes).map_or(first, |budget| budget.workers()),
            None => first,
        };
        let timeout = std::sync::mpsc::RecvTimeoutError::Timeout;
        while stopped.recv_timeout(READ_EVERY) == Err(timeout) {
            let Ok(budget) = budget_now(self.wishes) else {
                continue;
            };
            let now = budget.workers();
            if now == known {
                continue;
            }
            if !self.quiet {
                eprintln!(
                    "creel: limits have changed: workers that are warranted now: {now}, bound by \
                     {}; before: {known}",
                    budget.bound_by()
                );
            }
            known = now;
            self.tell(now, pid);
        }
    }

    /// Tells the program's pools, if they let themselves be told, and runs the user's line.
    fn tell(&self, workers: usize, pid: i32) {
        let mut pids = process::descendants(pid.unsigned_abs());
        pids.push(pid.unsigned_abs());
        let (told, refused) = pools::tell(&pids, workers);
        if !self.quiet {
            if told > 0 {
                eprintln!("creel: told {told} of the program's pools, which obey");
            }
            refused.iter().for_each(|why| eprintln!("creel: {why}"));
        }
        let Some(line) = self.on_change else {
            return;
        };
        let told = Command::new("sh")
            .args(["-c", line])
            .env("CREEL_WORKERS", workers.to_string())
            .env("CREEL_PID", pid.to_string())
            .stdin(Stdio::null())
            .status();
        if !told.is_ok_and(|status| status.success()) && !self.quiet {
            eprintln!("creel: --on-change `{line}` failed");
        }
    }
}

fn ended(status: ExitStatus) -> Result<Exit> {
    let by_signal = status.signal().map(|signal| 128 + signal);
    match status.code().or(by_signal).unwrap_or(1) {
        0 => Ok(Exit::Done),
        // The program's own code is ours.
        code => std::process::exit(code),
    }
}
