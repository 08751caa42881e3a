//! One run, in a process of its own.
//!
//! `creel measure` starts itself again for each run (the hidden command `measure-one`), so that
//! the kernel's account of this process's children is the account of that one run. This
//! process adopts orphans (it is a *subreaper*), so children that outlive their parent are
//! waited for and counted too.
//!
//! Two traps. A child's `ru_maxrss` carries the resident size that its parent had when it
//! called exec, and so would carry ours if the command were started by `posix_spawn`, which
//! borrows the parent's memory; after a true fork the child holds only this small process's
//! own pages, less than any program. And `ru_maxrss` is the largest *single* process: for the
//! whole tree the resident sizes are also sampled together.

use super::sample::Sample;
use crate::process::descendants;
use anyhow::{Context, Result};
use creel_console::energy::Meter;
use nix::{
    errno::Errno,
    sys::{
        prctl,
        resource::{Usage, UsageWho, getrusage},
        time::TimeVal,
        wait::{WaitStatus, wait},
    },
    unistd::getgid,
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fs,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How often the tree's memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What `measure-one` prints.
#[derive(Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub sample: Sample,
    /// The command's exit code, or 128 + the signal that ended it.
    pub exit: i32,
}

/// Runs the command to its end, and its orphans to theirs, and tells what they cost.
/// What it prints goes to our stderr if `show`, else nowhere.
pub fn run(command: &[OsString], show: bool) -> Result<Outcome> {
    prctl::set_child_subreaper(true).context("cannot adopt orphans")?;
    let (program, args) = command.split_first().context("no command")?;
    let migrations = migration_counter();
    let energy = Meter::start();
    let watched = Watched::default();
    let begin = Instant::now();
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(if show {
            Stdio::from(std::io::stderr())
        } else {
            Stdio::null()
        })
        // Changes nothing, but makes the standard library fork rather than spawn: see above.
        .gid(getgid().as_raw())
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let pid = i32::try_from(child.id()).context("a pid that is none")?;
    let (status, end, energy) = thread::scope(|s| {
        let watcher = s.spawn(|| watched.watch(energy));
        let (status, end) = wait_for_all(pid);
        watched.stop.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        let energy = watcher.join().ok().flatten();
        (status, end, energy)
    });
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let sample = Sample {
        wall_s: (end - begin).as_secs_f64(),
        user_s: seconds(usage.user_time()),
        sys_s: seconds(usage.system_time()),
        peak_rss_bytes: peak(&usage).max(watched.peak.into_inner()),
        context_switches: switches(&usage),
        migrations: migrations.and_then(|mut counter| counter.read().ok()),
        energy_j: energy.map(Meter::joules),
    };
    Ok(Outcome {
        sample,
        exit: exit_code(status?),
    })
}

/// Waits until no child and no adopted orphan is left; gives the status of `pid` and when it
/// ended.
fn wait_for_all(pid: i32) -> (Result<WaitStatus>, Instant) {
    let mut ended = (
        Err(anyhow::anyhow!("the command was never seen to end")),
        Instant::now(),
    );
    loop {
        match wait() {
            Ok(status) if status.pid().is_some_and(|p| p.as_raw() == pid) => {
                ended = (Ok(status), Instant::now());
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return ended,
        }
    }
}

fn exit_code(status: WaitStatus) -> i32 {
    match status {
        WaitStatus::Exited(_, code) => code,
        WaitStatus::Signaled(_, signal, _) => 128 + signal as i32,
        _ => -1,
    }
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

/// The largest single process, in bytes; Linux counts in KiB.
fn peak(usage: &Usage) -> u64 {
    u64::try_from(usage.max_rss()).unwrap_or(0) * 1024
}

fn switches(usage: &Usage) -> u64 {
    let both = usage.voluntary_context_switches() + usage.involuntary_context_switches();
    u64::try_from(both).unwrap_or(0)
}

/// A kernel counter of migrations that children inherit, where the kernel allows it.
fn migration_counter() -> Option<perf_event::Counter> {
    let mut builder = perf_event::Builder::new().kind(perf_event::events::Software::CPU_MIGRATIONS);
    // A migration happens inside the kernel: without this the count is always zero.
    builder.inherit(true).include_kernel();
    let mut counter = builder.build().ok()?;
    counter.enable().ok()?;
    Some(counter)
}

/// What the watching thread sees of the tree.
#[derive(Default)]
struct Watched {
    stop: AtomicBool,
    /// The largest sum of resident sizes so far, bytes.
    peak: AtomicU64,
}

impl Watched {
    /// Looks at the tree's memory and the energy counter until told to stop.
    fn watch(&self, mut energy: Option<Meter>) -> Option<Meter> {
        while !self.stop.load(Ordering::Relaxed) {
            let descendants = descendants(std::process::id());
            // A single process is accounted for exactly by the kernel's high-water mark.
            if descendants.len() > 1 {
                let sum = descendants.iter().filter_map(|&pid| resident(pid)).sum();
                self.peak.fetch_max(sum, Ordering::Relaxed);
            }
            if let Some(meter) = &mut energy {
                meter.look();
            }
            thread::park_timeout(LOOK_EVERY);
        }
        energy
    }
}

/// A process's resident size in bytes (`/proc/PID/status`, in KiB).
fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
