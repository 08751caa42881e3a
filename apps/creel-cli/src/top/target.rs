//! The processes that `creel top` watches: processes with their descendants, or a control group.

use crate::process;
use anyhow::Result;
use creel_console::{Exit, Failure};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The places where systems mount the control groups.
const MOUNTS: [&str; 4] = [
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/unified",
    "/sys/fs/cgroup/cpu",
    "/sys/fs/cgroup/cpu,cpuacct",
];
/// The maximum number of groups below a group.
const GROUPS_MAX: usize = 10_000;

/// The processes to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// These processes and all their descendants.
    Processes(Vec<u32>),
    /// The processes of the control group in this folder, and of all groups below it.
    Group(PathBuf),
}

impl Target {
    /// Finds the processes with this name. The name is that of the process or of its file.
    pub fn named(name: &str) -> Result<Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let has_name = |pid: &u32| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let file = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            comm.trim_end_matches('\n') == name || file.file_name().is_some_and(|f| f == name)
        };
        let mut found: Vec<u32> = pids
            .filter(|&pid| pid != std::process::id())
            .filter(has_name)
            .collect();
        found.sort_unstable();
        if found.is_empty() {
            return fail(format!(
                "there is no process with the name {name}: use the name of its file, or -p with \
                 its id"
            ));
        }
        Ok(Target::Processes(found))
    }

    /// Finds a control group, by its folder or by its path as in `/proc/PID/cgroup`.
    pub fn group(path: &Path) -> Result<Self> {
        let below = path.strip_prefix("/").unwrap_or(path);
        let places = MOUNTS.iter().map(|mount| Path::new(mount).join(below));
        let mut places = std::iter::once(path.to_owned()).chain(places);
        match places.find(|folder| folder.join("cgroup.procs").exists()) {
            Some(folder) => Ok(Target::Group(folder)),
            None => fail(format!(
                "there is no control group {}: give its path as in /proc/PID/cgroup, or its folder \
                 in /sys/fs/cgroup",
                path.display()
            )),
        }
    }

    /// Returns the ids of the processes that exist now. We leave out our own process, which is
    /// among them if a watched shell has started it. It stays only if the user has named it.
    pub fn pids(&self) -> Vec<u32> {
        let mut pids = match self {
            Target::Processes(roots) => {
                let trees = roots.iter().flat_map(|&pid| {
                    let mut tree = process::descendants(pid);
                    tree.push(pid);
                    tree
                });
                trees.collect()
            }
            Target::Group(folder) => in_group(folder),
        };
        let own = std::process::id();
        let is_root = matches!(self, Target::Processes(roots) if roots.contains(&own));
        pids.retain(|&pid| pid != own || is_root);
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Returns the process whose limits are those of the target, if the user has chosen one.
    pub fn first(&self) -> Option<u32> {
        match self {
            Target::Processes(pids) => pids.first().copied(),
            Target::Group(_) => None,
        }
    }

    /// Returns whether the target may get further processes when it has none.
    pub fn may_refill(&self) -> bool {
        matches!(self, Target::Group(folder) if folder.exists())
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Processes(pids) => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                write!(f, "process {}", pids.join(", "))
            }
            Target::Group(folder) => write!(f, "control group {}", folder.display()),
        }
    }
}

fn fail<T>(reason: String) -> Result<T> {
    Err(Failure::new(Exit::Usage, reason).into())
}

/// Returns the processes of a group and of the groups below it, up to [`GROUPS_MAX`] groups.
fn in_group(folder: &Path) -> Vec<u32> {
    let mut folders = vec![folder.to_owned()];
    let mut pids = Vec::new();
    let mut at = 0;
    while at < folders.len().min(GROUPS_MAX) {
        let members = fs::read_to_string(folders[at].join("cgroup.procs")).unwrap_or_default();
        pids.extend(members.lines().filter_map(|pid| pid.parse::<u32>().ok()));
        let inside = fs::read_dir(&folders[at]).into_iter().flatten().flatten();
        let inside = inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(inside.map(|entry| entry.path()));
        at += 1;
    }
    pids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_includes_the_processes_of_groups_below_it() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(folder.path().join("cgroup.procs"), "7\n0\n").unwrap();
        fs::write(inner.join("cgroup.procs"), "5\n7\n").unwrap();
        let target = Target::group(folder.path()).unwrap();
        assert_eq!(target.pids(), [0, 5, 7]);
        assert!(target.may_refill());
        assert!(Target::group(Path::new("no/such/group")).is_err());
    }

    #[test]
    fn processes_are_found_by_name() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let found = Target::named("sleep").unwrap().pids();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&child.id()), "{found:?}");
        assert!(Target::named("no such name").is_err());
    }
}
