//! A quota of CPU time, as a container has it: a control group of our own, while a sample is taken.
//!
//! This needs the right to make one, which root has outside containers; without it the cases that
//! need a quota are left out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::Context;

use crate::harness::Subject;

const PERIOD_US: u64 = 100_000;

/// A kind of control group that has quotas.
struct Hierarchy {
    /// Where this process is now.
    home: PathBuf,
    /// The file that takes the quota, and what it takes.
    file: &'static str,
    line: fn(u64) -> String,
}

impl Hierarchy {
    /// The one of this machine: version 1's `cpu`, or version 2's only one.
    fn find() -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = |controller: &str| {
            let of = |line: &'_ str| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                let found = controllers.split(',').any(|name| name == controller);
                found.then(|| path.trim_start_matches('/').to_string())
            };
            groups.lines().find_map(of)
        };
        let root = Path::new("/sys/fs/cgroup");
        if let Some(path) = own("cpu") {
            return Some(Self {
                home: root.join("cpu").join(path),
                file: "cpu.cfs_quota_us",
                line: |quota| quota.to_string(),
            });
        }
        Some(Self {
            home: root.join(own("")?),
            file: "cpu.max",
            line: |quota| format!("{quota} {PERIOD_US}"),
        })
    }
}

/// This process is in a group with a quota until it is dropped.
struct Quota {
    home: PathBuf,
    group: PathBuf,
}

impl Quota {
    fn enter(cores: f64) -> anyhow::Result<Self> {
        let hierarchy = Hierarchy::find().context("no control groups")?;
        let group = hierarchy
            .home
            .join(format!("creel-bench-{}", process::id()));
        let home = hierarchy.home;
        fs::create_dir(&group).with_context(|| group.display().to_string())?;
        // From here on it is removed again, whatever fails.
        let quota = Quota { home, group };
        let line = (hierarchy.line)((cores * PERIOD_US as f64) as u64);
        write(&quota.group.join(hierarchy.file), &line)?;
        write(
            &quota.group.join("cgroup.procs"),
            &process::id().to_string(),
        )?;
        Ok(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // What does not work is left to the administrator: nothing here can mend it.
        let _ = write(&self.home.join("cgroup.procs"), &process::id().to_string());
        let _ = fs::remove_dir(&self.group);
    }
}

fn write(path: &Path, line: &str) -> anyhow::Result<()> {
    fs::write(path, line).with_context(|| format!("{}: {line}", path.display()))
}

/// Whether a quota can be set here.
pub fn can_be_set() -> bool {
    Quota::enter(1.0).is_ok()
}

/// The subject, with each of its samples under a quota of so many cores.
pub fn within(subject: Subject, cores: f64) -> Subject {
    subject.within(move |sample| {
        let _quota = Quota::enter(cores)?;
        sample()
    })
}
