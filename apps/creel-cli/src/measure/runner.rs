//! The process that runs the commands, one after the other.
//!
//! `creel measure` starts itself a second time for this, with the hidden command `measure-one`.
//! The process starts before we parse anything, because each command starts with the memory that
//! its parent has allocated. It adopts orphans (it is a *subreaper*). Therefore it can wait for
//! children that outlive their parent, and count them. It ends those that stay too long, and
//! reports them.
//!
//! # Pitfalls
//!
//! - The `ru_maxrss` of a child includes the resident size of its parent at the time of exec.
//!   `posix_spawn` is fast because it borrows the memory of the parent, so all of our memory
//!   counts. After a fork, which costs 0.1 ms more, only a few pages count. Therefore we fork the
//!   first run of a command and spawn the others. If a later run is not larger than we are, the
//!   command is small, and we report the size of its first run.
//! - `ru_maxrss` is the size of the largest *single* process. For a process tree, we sample the
//!   proportional sizes (PSS), in which shared pages count once.
//! - Times and context switches are differences of the resource usage of all our children. Since
//!   there is one run at a time, the difference belongs to that run.

use super::{
    counters::Counters,
    request::{Outcome, RunReply, RunRequest, command, processes},
    sample::Sample,
};
use crate::{process::descendants, run::exec::start_failure};
use anyhow::{Context, Result};
use creel_console::{energy::Meter, exit_of, output, system};
use creel_topology::{CpuSet, affinity};
use nix::{
    errno::Errno,
    sys::{
        prctl,
        resource::{Usage, UsageWho, getrusage},
        signal::{Signal, kill},
        time::TimeVal,
        wait::wait,
    },
    unistd::{Pid, getgid},
};
use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Write},
    os::{
        fd::AsFd,
        unix::{net::UnixStream, process::CommandExt, process::ExitStatusExt},
    },
    process::{Child, ExitStatus},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};
use wait4::Wait4;

/// The time between two samples of the memory of the process tree.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The time after which we report processes that outlive the command.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

/// Serves the requests that arrive on stdin, which is a socket, until the socket is closed.
pub fn serve() -> Result<()> {
    prctl::set_child_subreaper(true)
        .context("cannot wait for processes that outlive their parent (PR_SET_CHILD_SUBREAPER)")?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut replies = UnixStream::from(socket);
    let requests = BufReader::new(replies.try_clone()?);
    let monitor = TreeMonitor::default();
    let mut meters = Meters {
        energy: Meter::start(),
        counters: Counters::open(),
        first_peaks: HashMap::new(),
    };
    thread::scope(|s| {
        let monitor_thread = s.spawn(|| monitor.run());
        let served = requests.lines().try_for_each(|line| {
            let request: RunRequest = serde_json::from_str(&line?)?;
            let done = run(&request, &monitor, monitor_thread.thread(), &mut meters);
            let reply = match done {
                Ok(outcome) => RunReply::Ran(outcome),
                Err(error) => RunReply::Failed {
                    exit: exit_of(&error).code(),
                    reason: format!("{error:#}"),
                },
            };
            let text = serde_json::to_string(&reply)?;
            Ok(writeln!(replies, "{text}")?)
        });
        monitor.state.set(State::Over, monitor_thread.thread());
        served
    })
}

/// The state that we keep from run to run.
struct Meters {
    energy: Option<Meter>,
    counters: Counters,
    /// The peak memory of the first run of each command, in bytes.
    first_peaks: HashMap<Vec<OsString>, u64>,
}

/// Runs the command, waits for it and its orphans, and returns their cost.
fn run(
    request: &RunRequest,
    monitor: &TreeMonitor,
    monitor_thread: &Thread,
    meters: &mut Meters,
) -> Result<Outcome> {
    let before = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let first_peak = meters.first_peaks.get(&request.words).copied();
    let mut command = command(request)?;
    if first_peak.is_none() {
        // Setting our own group changes nothing, except that the standard library forks instead of
        // calling posix_spawn. See the head of this file for the reason.
        command.gid(getgid().as_raw());
    }
    if meters.energy.is_some() {
        meters.energy = Meter::start();
    }
    monitor.prepare(request);
    meters.counters.begin();
    // The command inherits the mask of this thread.
    let own = narrow(request.mask.as_deref())?;
    let begin = Instant::now();
    let child = command
        .spawn()
        .map_err(|error| start_failure(command.get_program(), &error));
    if let Some(own) = own {
        affinity::set(&own)?;
    }
    let mut child = child?;
    monitor.command.store(child.id(), Ordering::Relaxed);
    monitor.state.set(State::Running, monitor_thread);
    // A reader empties the pipe, because the command would wait when the pipe is full.
    let reader = child
        .stdout
        .take()
        .map(|mut pipe| thread::spawn(move || std::io::copy(&mut pipe, &mut std::io::sink())));
    let ended = wait_for(&mut child);
    let wall = begin.elapsed();
    monitor.state.set(State::Lingering, monitor_thread);
    while !matches!(wait(), Err(Errno::ECHILD)) {}
    // Every process that could write to the pipe has ended, so the reader ends too.
    drop(reader.map(thread::JoinHandle::join));
    monitor.state.set(State::Idle, monitor_thread);
    let (status, maxrss) = ended?;
    let after = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let user_us = micros(after.user_time()) - micros(before.user_time());
    let sys_us = micros(after.system_time()) - micros(before.system_time());
    let mut sample = Sample::default();
    sample.set("wall_s", Some(wall.as_secs_f64()));
    // We subtract integers, so that the figures have no rounding errors.
    sample.set("cpu_s", Some((user_us + sys_us) as f64 / 1e6));
    sample.set("user_s", Some(user_us as f64 / 1e6));
    sample.set("sys_s", Some(sys_us as f64 / 1e6));
    let own = u64::try_from(getrusage(UsageWho::RUSAGE_SELF)?.max_rss()).unwrap_or(0) * 1024;
    let alone = match first_peak {
        Some(first) if maxrss <= own => first,
        _ => maxrss,
    };
    if first_peak.is_none() {
        meters.first_peaks.insert(request.words.clone(), alone);
    }
    let peak = alone.max(monitor.peak.load(Ordering::Relaxed));
    // Without /proc, we have not seen the other processes of the tree.
    let is_known = system::shows_processes();
    sample.set("peak_rss_bytes", is_known.then_some(peak as f64));
    let switches = switches(&after) - switches(&before);
    sample.set("context_switches", Some(switches as f64));
    meters.counters.read(&mut sample);
    let energy = meters.energy.take();
    sample.set("energy_j", energy.map(Meter::joules));
    meters.energy = Meter::start();
    Ok(Outcome {
        values: sample.values,
        exit_code: exit_code(status),
        timed_out: monitor.timed_out.load(Ordering::Relaxed),
        ended: monitor.ended.load(Ordering::Relaxed) as usize,
    })
}

/// Narrows the affinity mask of this thread. Returns the previous mask if the function has set
/// another one.
fn narrow(mask: Option<&str>) -> Result<Option<CpuSet>> {
    let Some(mask) = mask else {
        return Ok(None);
    };
    let own = affinity::current()?;
    affinity::set(&mask.parse()?)?;
    Ok(Some(own))
}

/// Waits for the command itself. Returns its status and its own peak memory in bytes.
fn wait_for(child: &mut Child) -> Result<(ExitStatus, u64)> {
    let ended = child.wait4().context("cannot wait for the command")?;
    Ok((ended.status, ended.rusage.maxrss))
}

fn exit_code(status: ExitStatus) -> i32 {
    let by_signal = status.signal().map(|signal| 128 + signal);
    status.code().or(by_signal).unwrap_or(-1)
}

fn micros(time: TimeVal) -> i64 {
    time.tv_sec() * 1_000_000 + time.tv_usec()
}

fn switches(usage: &Usage) -> i64 {
    usage.voluntary_context_switches() + usage.involuntary_context_switches()
}

/// The state of the runner, for the monitor thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Running,
    /// The command has ended, but processes that it started have not.
    Lingering,
    Over,
}

/// The state and the time of its last change. We need the time because a run can be shorter than
/// the interval of the monitor, and the limits of each run count from its own start.
struct SharedState(Mutex<(State, Instant)>);

impl Default for SharedState {
    fn default() -> Self {
        Self(Mutex::new((State::Idle, Instant::now())))
    }
}

impl SharedState {
    fn set(&self, state: State, monitor_thread: &Thread) {
        *self.lock() = (state, Instant::now());
        if state == State::Over {
            monitor_thread.unpark();
        }
    }

    /// Locks the state. While the lock is held, no run enters its next state.
    fn lock(&self) -> MutexGuard<'_, (State, Instant)> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The state of the monitor thread: figures of the process tree, and its limits.
#[derive(Default)]
struct TreeMonitor {
    state: SharedState,
    /// The process id of the command.
    command: AtomicU32,
    /// The largest sum of proportional sizes in this run, in bytes.
    peak: AtomicU64,
    timed_out: AtomicBool,
    ended: AtomicU64,
    limits: Mutex<(Option<f64>, f64)>,
}

impl TreeMonitor {
    fn prepare(&self, request: &RunRequest) {
        self.peak.store(0, Ordering::Relaxed);
        self.timed_out.store(false, Ordering::Relaxed);
        self.ended.store(0, Ordering::Relaxed);
        let mut limits = self.limits.lock().unwrap_or_else(|e| e.into_inner());
        *limits = (request.timeout_s, request.linger_s);
    }

    /// Samples the tree every `POLL_INTERVAL`. A run does not wake this thread, because that would
    /// disturb a short run.
    fn run(&self) {
        let mut reported = None;
        loop {
            thread::park_timeout(POLL_INTERVAL);
            if !self.enforce_limits(&mut reported) {
                return;
            }
            self.sample_memory();
        }
    }

    /// Enforces the limits of the current run. `reported` is the run that was reported last.
    /// Returns `false` when the runner has ended.
    fn enforce_limits(&self, reported: &mut Option<Instant>) -> bool {
        let state = self.state.lock();
        let (timeout_s, linger_s) = *self.limits.lock().unwrap_or_else(|e| e.into_inner());
        let (now, since) = *state;
        match now {
            State::Over => return false,
            State::Idle => {}
            State::Running => {
                if timeout_s.is_some_and(|s| since.elapsed().as_secs_f64() > s) {
                    self.timed_out.store(true, Ordering::Relaxed);
                    signal_all(Signal::SIGKILL);
                    if !system::shows_processes() {
                        // We know only the command itself.
                        send(self.command.load(Ordering::Relaxed), Signal::SIGKILL);
                    }
                }
            }
            State::Lingering => {
                if since.elapsed() > NOTICE_AFTER && *reported != Some(since) {
                    *reported = Some(since);
                    report_lingering(linger_s);
                }
                self.end_after(since.elapsed().as_secs_f64() - linger_s);
            }
        }
        true
    }

    /// Ends lingering processes: first with SIGTERM, and after a second with SIGKILL.
    fn end_after(&self, over_s: f64) {
        if over_s > 0.0 && self.ended.load(Ordering::Relaxed) == 0 {
            let count = signal_all(Signal::SIGTERM);
            self.ended.store(count as u64, Ordering::Relaxed);
        } else if over_s > 1.0 {
            signal_all(Signal::SIGKILL);
        }
    }

    /// Samples the memory of the tree. For a single process, we use the exact high-water mark of
    /// the kernel instead.
    fn sample_memory(&self) {
        let descendants = descendants(std::process::id());
        if descendants.len() > 1 {
            let sum = descendants
                .iter()
                .filter_map(|&pid| proportional(pid))
                .sum();
            self.peak.fetch_max(sum, Ordering::Relaxed);
        }
    }
}

fn report_lingering(linger_s: f64) {
    let alive = descendants(std::process::id());
    let names: Vec<String> = alive.iter().take(3).map(|&pid| name(pid)).collect();
    output::note(&format!(
        "creel: the command has ended, but it has left {} running ({}); creel ends what is left \
         {linger_s} s after the command (--linger)\n",
        processes(alive.len()),
        names.join(", ")
    ));
}

fn name(pid: u32) -> String {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid} {}", comm.trim())
}

/// Sends a signal to every descendant of this process. Returns their number.
pub fn signal_all(signal: Signal) -> usize {
    signal_below(std::process::id(), signal)
}

/// Sends a signal to every descendant of `root`. Returns their number.
pub fn signal_below(root: u32, signal: Signal) -> usize {
    let all = descendants(root);
    all.iter().for_each(|&pid| send(pid, signal));
    all.len()
}

fn send(pid: u32, signal: Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        // We ignore the error for a process that has ended in the meantime.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Returns the proportional size of a process in bytes. A page that several processes share counts
/// in equal parts.
///
/// Source: proc_pid_smaps(5), `smaps_rollup`, in KiB.
fn proportional(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|l| l.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
