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

/// The counter files of a cgroup and of those around it, and what each said first: whoever has
/// set the quota, the program is stopped by it.
pub struct Throttled {
    files: Vec<(PathBuf, Periods)>,
}

impl Throttled {
    /// Finds the process's cgroup; `None` where it has no such counters.
    pub fn begin(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let (mount, own) = groups.lines().find_map(mounted)?;
        let around = own
            .ancestors()
            .take_while(|group| group.starts_with(&mount));
        let files = around.filter_map(|group| {
            let file = group.join("cpu.stat");
            let first = read(&file)?;
            Some((file, first))
        });
        let files: Vec<_> = files.collect();
        (!files.is_empty()).then_some(Self { files })
    }

    /// What happened since, by all quotas together; a group without one has no periods.
    pub fn since(&self) -> Periods {
        let none = Periods {
            all: 0,
            throttled: 0,
        };
        self.files.iter().fold(none, |sum, (file, first)| {
            let now = read(file).unwrap_or(*first);
            Periods {
                all: sum.all + now.all.saturating_sub(first.all),
                throttled: sum.throttled + now.throttled.saturating_sub(first.throttled),
            }
        })
    }
}

/// The mount point and the group's own folder, from a line `ID:CONTROLLERS:PATH`; v2 has no
/// controllers.
fn mounted(line: &str) -> Option<(PathBuf, PathBuf)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
    let mounts: &[&str] = if controllers.is_empty() {
        &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
    } else if controllers.split(',').any(|name| name == "cpu") {
        &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
    } else {
        return None;
    };
    let groups = mounts
        .iter()
        .map(|m| (PathBuf::from(m), PathBuf::from(m).join(path)));
    groups
        .into_iter()
        .find(|(_, group)| read(&group.join("cpu.stat")).is_some())
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
