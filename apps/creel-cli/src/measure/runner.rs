//! The process that runs the commands, one after the other.
//!
//! `creel measure` starts itself once more for this (the hidden command `measure-runner`), before
//! anything is parsed: what this process has allocated, each command starts with. It adopts
//! orphans (it is a *subreaper*), so children that outlive their parent are waited for and
//! counted too; those that stay are ended after a while, and said.
//!
//! Traps. A child's `ru_maxrss` carries the resident size that its parent had when it called
//! exec: started by `posix_spawn`, which borrows the parent's memory and so is quick, all of
//! ours; after a true fork, which costs a tenth of a millisecond more, only a few pages. So the
//! first run of a command is forked, and the others are spawned: where one of these does not come
//! above our own size, the command is a small one, and what its first run took is said. And
//! `ru_maxrss` is the largest *single* process: for a tree the proportional sizes (PSS) are
//! sampled, in which what several share counts once. Times and switches are differences of this
//! process's account of its children: one run at a time, so the difference is that run's.

use super::{counters::Counters, sample::Sample};
use crate::process::descendants;
use anyhow::{Context, Result, bail};
use creel_console::energy::Meter;
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
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::{
        fd::AsFd,
        unix::{ffi::OsStringExt, net::UnixStream, process::CommandExt, process::ExitStatusExt},
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};
use wait4::Wait4;

/// How often the tree's memory is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// After how long a word is said about processes that outlive the command.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

/// One run to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunRequest {
    /// The command's words, as bytes.
    pub words: Vec<Vec<u8>>,
    pub show_stdout: bool,
    pub show_stderr: bool,
    /// Where stdout and stderr go instead, to be searched.
    pub output_file: Option<PathBuf>,
    /// How long the command may take, seconds.
    pub timeout_s: Option<f64>,
    /// How long processes that outlive it are waited for, seconds.
    pub linger_s: f64,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
pub enum RunReply {
    Ran(Outcome),
    /// It could not be started.
    Failed(String),
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The figures by name.
    pub values: BTreeMap<String, f64>,
    /// The command's exit code, or 128 + the signal that ended it.
    pub exit_code: i32,
    pub timed_out: bool,
    /// How many processes outlived the command for too long and were ended.
    pub ended: usize,
}

/// Serves the orders that come on stdin, a socket, until it is closed.
pub fn serve() -> Result<()> {
    prctl::set_child_subreaper(true).context("cannot adopt orphans")?;
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
                Err(error) => RunReply::Failed(format!("{error:#}")),
            };
            let text = serde_json::to_string(&reply)?;
            Ok(writeln!(replies, "{text}")?)
        });
        monitor.state.set(State::Over, monitor_thread.thread());
        served
    })
}

/// What is kept from run to run.
struct Meters {
    energy: Option<Meter>,
    counters: Counters,
    /// The peak memory of each command's first run, bytes.
    first_peaks: HashMap<Vec<Vec<u8>>, u64>,
}

/// Runs the command to its end, and its orphans to theirs, and tells what they cost.
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
        // Changes nothing, but makes the standard library fork rather than spawn: see above.
        command.gid(getgid().as_raw());
    }
    if meters.energy.is_some() {
        meters.energy = Meter::start();
    }
    monitor.prepare(request);
    meters.counters.begin();
    let begin = Instant::now();
    let mut child = command.spawn().with_context(|| {
        let program = OsString::from_vec(request.words.first().cloned().unwrap_or_default());
        format!("cannot run {}", program.display())
    })?;
    monitor.state.set(State::Running, monitor_thread);
    let ended = wait_for(&mut child);
    let wall = begin.elapsed();
    monitor.state.set(State::Lingering, monitor_thread);
    while !matches!(wait(), Err(Errno::ECHILD)) {}
    monitor.state.set(State::Idle, monitor_thread);
    let (status, maxrss) = ended?;
    let after = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let user_us = micros(after.user_time()) - micros(before.user_time());
    let sys_us = micros(after.system_time()) - micros(before.system_time());
    let mut sample = Sample::default();
    sample.set("wall_s", Some(wall.as_secs_f64()));
    // Differences of whole numbers, so that a figure has the digits that it has.
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
    sample.set("peak_rss_bytes", Some(peak as f64));
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

fn command(request: &RunRequest) -> Result<Command> {
    let mut words = request.words.iter().cloned().map(OsString::from_vec);
    let Some(program) = words.next() else {
        bail!("no command");
    };
    let kept = request.output_file.as_ref();
    let stream = |shown: bool, inherited: fn() -> Stdio| -> Result<Stdio> {
        match kept {
            Some(file) => {
                let file = File::options().append(true).create(true).open(file);
                Ok(file.context("cannot keep what the command prints")?.into())
            }
            None if shown => Ok(inherited()),
            None => Ok(Stdio::null()),
        }
    };
    let mut command = Command::new(program);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(stream(request.show_stdout, Stdio::inherit)?)
        .stderr(stream(request.show_stderr, Stdio::inherit)?);
    Ok(command)
}

/// Waits for the command itself; gives its status and its own peak memory in bytes.
fn wait_for(child: &mut Child) -> Result<(ExitStatus, u64)> {
    let ended = child.wait4().context("the command was never seen to end")?;
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

/// What the runner is doing, for the watching thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Running,
    /// The command has ended, and others that it started have not.
    Lingering,
    Over,
}

/// The state, and since when it has been so: runs are shorter than a look, and each has its own
/// limits from its own beginning.
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

    /// While this is held, no run ends and none begins.
    fn lock(&self) -> MutexGuard<'_, (State, Instant)> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// What the watching thread sees of the tree, and its limits.
#[derive(Default)]
struct TreeMonitor {
    state: SharedState,
    /// The largest sum of proportional sizes of this run, bytes.
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

    /// Looks every so often; nobody wakes it for a run, which would disturb a short one.
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

    /// Sees to the limits of the run that is on; `reported` is the one that was told of last. `false`
    /// when all is over.
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

    /// Ends what lingers, politely at first.
    fn end_after(&self, over_s: f64) {
        if over_s > 0.0 && self.ended.load(Ordering::Relaxed) == 0 {
            let count = signal_all(Signal::SIGTERM);
            self.ended.store(count as u64, Ordering::Relaxed);
        } else if over_s > 1.0 {
            signal_all(Signal::SIGKILL);
        }
    }

    /// Sums up the tree's memory. A single process is accounted for exactly by the kernel's
    /// high-water mark.
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
    eprintln!(
        "creel: the command has ended, and {} of its own not ({}); what is left after \
         {linger_s} s is ended (--linger)",
        processes(alive.len()),
        names.join(", ")
    );
}

/// A number of processes, as one says it.
pub fn processes(count: usize) -> String {
    match count {
        1 => "a process".into(),
        _ => format!("{count} processes"),
    }
}

fn name(pid: u32) -> String {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid} {}", comm.trim())
}

/// Tells every process below this one; gives how many.
pub fn signal_all(signal: Signal) -> usize {
    signal_below(std::process::id(), signal)
}

/// Tells every process below that one; gives how many.
pub fn signal_below(root: u32, signal: Signal) -> usize {
    let all = descendants(root);
    for pid in all.iter().filter_map(|&pid| i32::try_from(pid).ok()) {
        // Who has ended meanwhile needs no telling.
        let _ = kill(Pid::from_raw(pid), signal);
    }
    all.len()
}

/// A process's proportional size in bytes: pages that several share count in parts.
///
/// Source: proc_pid_smaps(5), `smaps_rollup`, in KiB.
fn proportional(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|l| l.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
