//! Counts how often the CPU quota has throttled the cgroup of a process.
//!
//! Source: cgroup-v2.rst of the kernel (`cpu.stat`: `nr_periods`, `nr_throttled`). The file of the
//! same name in version 1 has the same two lines.

use serde::Serialize;
use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// The number of enforcement periods, and the number of those in which the quota was used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Periods {
    pub all: u64,
    pub throttled: u64,
}

impl Periods {
    /// Returns the share of throttled periods.
    pub fn share(&self) -> f64 {
        self.throttled as f64 / self.all.max(1) as f64
    }
}

impl fmt::Display for Periods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} periods", self.throttled, self.all)
    }
}

/// The counter files of a cgroup and its ancestors, and the counts that each file had at the start.
/// We need all of them, because the quota of any ancestor throttles the program.
pub struct Throttled {
    files: Vec<(PathBuf, Periods)>,
}

impl Throttled {
    /// Finds the cgroup of the process. Returns `None` if it has no such counters.
    pub fn begin(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let (mount, own) = groups.lines().find_map(mounted)?;
        let around = own
            .ancestors()
            .take_while(|group| group.starts_with(&mount));
        Self::of(around)
    }

    /// Also counts for the group that the process has entered since the start. A program that
    /// starts others, such as `cgexec`, enters its group after it has started.
    pub fn follow(&mut self, pid: u32) {
        let entered = Self::begin(pid).map_or_else(Vec::new, |entered| entered.files);
        self.join(entered);
    }

    fn join(&mut self, entered: Vec<(PathBuf, Periods)>) {
        for (file, first) in entered {
            if !self.files.iter().any(|(known, _)| *known == file) {
                self.files.push((file, first));
            }
        }
    }

    /// Counts for the group in this folder and its ancestors. Returns `None` if there are no
    /// counters.
    pub fn of_group(folder: &Path) -> Option<Self> {
        let around = folder
            .ancestors()
            .take_while(|group| group.join("cgroup.procs").exists());
        Self::of(around)
    }

    fn of<'g>(groups: impl Iterator<Item = &'g Path>) -> Option<Self> {
        let files = groups.filter_map(|group| {
            let file = group.join("cpu.stat");
            let first = read(&file)?;
            Some((file, first))
        });
        let files: Vec<_> = files.collect();
        (!files.is_empty()).then_some(Self { files })
    }

    /// Returns the periods since the start, of the quota that has throttled the most. A group
    /// without a quota has no periods.
    pub fn since(&self) -> Periods {
        let each = self.files.iter().map(|(file, first)| {
            let now = read(file).unwrap_or(*first);
            Periods {
                all: now.all.saturating_sub(first.all),
                throttled: now.throttled.saturating_sub(first.throttled),
            }
        });
        let none = Periods {
            all: 0,
            throttled: 0,
        };
        each.max_by(|a, b| a.share().total_cmp(&b.share()))
            .unwrap_or(none)
    }
}

/// Returns the mount point and the folder of the group, from a line `ID:CONTROLLERS:PATH`. In
/// version 2 the list of controllers is empty.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_that_throttles_the_most_counts() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        fs::create_dir(&own).unwrap();
        let write = |group: &Path, all: u64, throttled: u64| {
            let text = format!("nr_periods {all}\nnr_throttled {throttled}\n");
            fs::write(group.join("cpu.stat"), text).unwrap();
            fs::write(group.join("cgroup.procs"), "").unwrap();
        };
        write(folder.path(), 500, 0);
        write(&own, 100, 50);
        let throttled = Throttled::of_group(&own).unwrap();
        write(folder.path(), 600, 1);
        write(&own, 200, 65);
        let periods = throttled.since();
        assert_eq!((periods.throttled, periods.all), (15, 100));
        // The process enters another group.
        let other = folder.path().join("other");
        fs::create_dir(&other).unwrap();
        write(&other, 40, 40);
        let mut throttled = throttled;
        throttled.join(Throttled::of_group(&other).unwrap().files);
        write(&other, 50, 50);
        let periods = throttled.since();
        assert_eq!((periods.throttled, periods.all), (10, 10));
    }
}
