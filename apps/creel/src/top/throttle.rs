//! How often a process's cgroup was stopped by its CPU quota.
//!
//! Source: the kernel's cgroup-v2.rst (`cpu.stat`: `nr_periods`, `nr_throttled`); v1's file of
//! the same name has the same two lines.

use serde::Serialize;
use std::{fmt, fs, path::PathBuf};

/// Enforcement periods, and those in which the quota ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Periods {
    pub all: u64,
    pub throttled: u64,
}

impl fmt::Display for Periods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} periods", self.throttled, self.all)
    }
}

/// A cgroup's counter file and what it said first.
pub struct Throttled {
    file: PathBuf,
    first: Periods,
}

impl Throttled {
    /// Finds the process's cgroup; `None` where it has no such counters.
    pub fn begin(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let file = groups.lines().find_map(counter_file)?;
        let first = read(&file)?;
        Some(Self { file, first })
    }

    /// What happened since.
    pub fn since(&self) -> Periods {
        let now = read(&self.file).unwrap_or(self.first);
        Periods {
            all: now.all.saturating_sub(self.first.all),
            throttled: now.throttled.saturating_sub(self.first.throttled),
        }
    }
}

/// From a line `ID:CONTROLLERS:PATH`; v2 has no controllers.
fn counter_file(line: &str) -> Option<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
    let mounts: &[&str] = if controllers.is_empty() {
        &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
    } else if controllers.split(',').any(|name| name == "cpu") {
        &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
    } else {
        return None;
    };
    let files = mounts
        .iter()
        .map(|m| PathBuf::from(m).join(path).join("cpu.stat"));
    files.into_iter().find(|file| read(file).is_some())
}

fn read(file: &PathBuf) -> Option<Periods> {
    let text = fs::read_to_string(file).ok()?;
    let number = |name: &str| -> Option<u64> {
        text.lines()
            .find_map(|l| l.strip_prefix(name)?.trim().parse().ok())
    };
    Some(Periods {
        all: number("nr_periods ")?,
        throttled: number("nr_throttled ")?,
    })
}
