//! The figures of the kernel on the threads of a process, and their differences between two
//! samples.
//!
//! Source: proc(5), `/proc/PID/task/TID/stat`, `status` and `schedstat`. Kernels with scheduler
//! debugging also have `sched`.

use creel_topology::{CpuSet, Machine};
use serde::Serialize;
use std::{collections::BTreeMap, fs, path::Path};

/// A sample of one thread. The counts are since the start of the thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Thread {
    pub tid: u32,
    /// The process of the thread.
    pub pid: u32,
    /// The parent of the thread's process.
    pub parent: u32,
    pub name: String,
    /// The state R, S, D … as in proc(5).
    pub state: char,
    /// The PU on which the thread ran last.
    pub cpu: usize,
    pub cpu_s: f64,
    /// The share of the thread's CPU time that it spent in the kernel, 0 to 1. It is near 1 for a
    /// thread that does little between two context switches.
    pub sys_share: f64,
    /// The time that the thread was runnable but had no CPU, in seconds.
    pub waited_s: f64,
    pub voluntary: u64,
    pub involuntary: u64,
    /// The number of migrations, if the kernel reports it.
    pub migrations: Option<u64>,
    /// The number of samples in which the thread was on another PU than in the sample before. This
    /// is a lower bound for the number of migrations.
    pub moves_seen: u64,
    /// The time that the thread has waited since the kernel last accounted for it, in seconds. The
    /// kernel adds the time of a wait only when the wait ends.
    #[serde(skip)]
    pub pending_s: f64,
    /// The numbers of samples in which the thread was runnable, and in uninterruptible sleep.
    #[serde(skip)]
    pub runnable_samples: u64,
    #[serde(skip)]
    pub blocked_samples: u64,
    #[serde(skip)]
    pub(super) user_ticks: u64,
    #[serde(skip)]
    pub(super) sys_ticks: u64,
}

impl Thread {
    /// Returns whether the thread was running or waiting for a CPU.
    pub fn runnable(&self) -> bool {
        self.state == 'R'
    }

    /// Returns whether the thread was in uninterruptible sleep, mostly for a disk.
    pub fn blocked(&self) -> bool {
        self.state == 'D'
    }

    /// Returns whether the thread has ended, and only its parent does not know it yet.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Returns whether the thread has run, waited for a CPU, or switched. Call this on a difference
    /// of two samples, because the counts of a sample begin with the start of the thread.
    pub fn is_active(&self) -> bool {
        self.cpu_s > 0.0 || self.waited_s > 0.0 || self.voluntary + self.involuntary > 0
    }

    /// Adds the counts of `before`, the sample of the same thread `seconds` ago.
    pub fn follow(&mut self, before: &Thread, seconds: f64) {
        self.moves_seen = before.moves_seen + u64::from(before.cpu != self.cpu);
        self.runnable_samples += before.runnable_samples;
        self.blocked_samples += before.blocked_samples;
        let same = self.cpu_s == before.cpu_s && self.waited_s == before.waited_s;
        if same && self.runnable() && before.runnable() {
            self.pending_s = before.pending_s + seconds;
        }
    }

    /// Returns the difference to `before`, an earlier sample of the same thread.
    pub fn since(&self, before: &Thread) -> Thread {
        let user = self.user_ticks.saturating_sub(before.user_ticks);
        let sys = self.sys_ticks.saturating_sub(before.sys_ticks);
        Thread {
            cpu_s: (self.cpu_s - before.cpu_s).max(0.0),
            waited_s: (self.waited_s + self.pending_s - before.waited_s - before.pending_s)
                .max(0.0),
            pending_s: 0.0,
            runnable_samples: self
                .runnable_samples
                .saturating_sub(before.runnable_samples),
            blocked_samples: self.blocked_samples.saturating_sub(before.blocked_samples),
            sys_share: sys as f64 / (user + sys).max(1) as f64,
            moves_seen: self.moves_seen.saturating_sub(before.moves_seen),
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
            migrations: self
                .migrations
                .zip(before.migrations)
                .map(|(now, then): (u64, u64)| now.saturating_sub(then)),
            ..self.clone()
        }
    }
}

/// Samples every thread of these processes. The key is the id of the thread.
pub fn sample(pids: &[u32]) -> BTreeMap<u32, Thread> {
    let folders = pids.iter().filter_map(|&pid| {
        let entries = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        Some(entries.map(move |entry| (pid, entry)))
    });
    folders
        .flatten()
        .filter_map(|(pid, entry)| Some((pid, read(&entry.ok()?.path())?)))
        .map(|(pid, mut thread)| {
            thread.pid = pid;
            thread.runnable_samples = thread.runnable().into();
            thread.blocked_samples = thread.blocked().into();
            (thread.tid, thread)
        })
        .collect()
}

/// The maximum number of threads whose masks we read.
const MASKS_MOST: usize = 256;

/// Reads the part of the machine that these processes may use: the CPUs of all their threads, and
/// the limits of the process `pid`.
pub fn machine(pid: u32, pids: &[u32]) -> Machine {
    let tasks = pids
        .iter()
        .filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
    let masks = tasks
        .flatten()
        .flatten()
        .take(MASKS_MOST)
        .filter_map(|task| {
            let status = fs::read_to_string(task.path().join("status")).ok()?;
            let list = status
                .lines()
                .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?;
            list.parse::<CpuSet>().ok()
        });
    let mask = masks.fold(CpuSet::default(), |all, mask| &all | &mask);
    Machine::detect_process_in(Path::new("/"), pid, Some(&mask))
}

/// Samples one thread. Returns `None` if the thread has just ended.
fn read(folder: &Path) -> Option<Thread> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let mut thread = parse_stat(&stat)?;
    thread.voluntary = field(&status, "voluntary_ctxt_switches:")?;
    thread.involuntary = field(&status, "nonvoluntary_ctxt_switches:")?;
    if let Ok(sched) = fs::read_to_string(folder.join("schedstat")) {
        let mut ns = sched.split_ascii_whitespace().map(|n| n.parse::<f64>());
        thread.cpu_s = ns.next()?.ok()? / 1e9;
        thread.waited_s = ns.next()?.ok()? / 1e9;
    }
    let sched = fs::read_to_string(folder.join("sched")).unwrap_or_default();
    thread.migrations = field(&sched, "se.nr_migrations");
    Some(thread)
}

/// Parses the file `stat`. The name is in parentheses and may contain any character, so the last
/// closing parenthesis ends it.
fn parse_stat(stat: &str) -> Option<Thread> {
    let (tid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Thread {
        tid: tid.parse().ok()?,
        name: name.into(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        user_ticks: fields.get(11)?.parse().ok()?,
        sys_ticks: fields.get(12)?.parse().ok()?,
        cpu: fields.get(36)?.parse().ok()?,
        ..Thread::default()
    })
}

/// Returns the number after a label, with or without a colon between them.
fn field(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(label))?;
    let digits = line.trim_start_matches([' ', '\t', ':']);
    digits.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_names_may_contain_parentheses() {
        let stat = "77 (a) R (b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 \
                    24 25 26 27 28 29 30 31 32 33 34 35 3 0 0";
        let thread = parse_stat(stat).unwrap();
        assert_eq!((thread.tid, thread.state, thread.cpu), (77, 'S', 3));
        assert_eq!(thread.name, "a) R (b");
    }

    #[test]
    fn status_and_sched_labels_are_parsed() {
        let status = "nonvoluntary_ctxt_switches:\t7\nvoluntary_ctxt_switches:\t12\n";
        assert_eq!(field(status, "voluntary_ctxt_switches:"), Some(12));
        let sched = "se.nr_migrations                   :                   41\n";
        assert_eq!(field(sched, "se.nr_migrations"), Some(41));
        assert_eq!(field("", "x"), None);
    }

    #[test]
    fn the_current_thread_is_sampled() {
        let threads = sample(&[std::process::id()]);
        assert!(threads.values().any(|t| t.runnable()));
    }
}
