//! The limits that control groups set for this process: cpusets, CPU quotas and weights, numbers of
//! tasks, and memory. We read the process's own group and every ancestor that the mounts show.
//!
//! We support version 1, version 2 and both at once (hybrid). For each controller we find its mount
//! in `proc/self/mountinfo`, and follow the groups from the process's own group up to the mount
//! point.
//!
//! The root of a mount says which part of the group's path lies above the mount point, for example
//! in a container. It can also say that the mount begins above this namespace. In this case we
//! search for the group that lists this process.
//!
//! Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpusets.rst,
//! Documentation/scheduler/sched-bwc.rst, proc_pid_mountinfo(5), cgroup_namespaces(7).

mod groups;
mod mounts;
mod resources;
mod search;

use groups::Groups;
use mounts::{Controller, Version};

use super::tree::Tree;
use crate::types::{Constraint, CpuSet, Error, Rule};

/// Reads the limits of the process that the tree calls `self`. `is_live` says whether the tree is
/// that of the running system.
pub(crate) fn read(tree: &Tree, is_live: bool) -> Vec<Constraint> {
    let mounts = mounts::read(tree);
    let groups = Groups::read(tree);
    if mounts.is_empty() && groups.is_any() {
        tree.note(
            "this process is in a control group, but no file system shows it: CPU quotas and other \
             limits of control groups are hidden"
                .into(),
        );
    }
    // Without the list `proc/self/cgroup`, we cannot know which of the mounted groups is ours.
    // Without `/proc`, we do not even know the mounts.
    let is_mounted = || {
        !mounts.is_empty()
            || !tree.is_folder("proc/self")
                && (tree.is_folder("sys/fs/cgroup/cpu")
                    || tree.text("sys/fs/cgroup/cgroup.procs").is_some())
    };
    if groups.is_unknown() && is_mounted() {
        tree.note(
            "no file lists the control groups of this process (/proc/self/cgroup), although there \
             are some: CPU quotas and other limits of control groups are hidden"
                .into(),
        );
    } else if is_live && !tree.is_folder("proc/self") {
        tree.note(
            "/proc is not mounted, so CPU quotas and other limits of control groups are hidden, if \
             there are any"
                .into(),
        );
    }
    let mut constraints = Vec::new();
    for controller in [
        Controller::Cpuset,
        Controller::Cpu,
        Controller::Pids,
        Controller::Memory,
    ] {
        let Some((mount, within)) = groups.mount_of(tree, controller, &mounts) else {
            continue;
        };
        for (generation, group) in upwards(&mount.point, within).enumerate() {
            constraints.extend(rule(tree, &group, controller, mount.version, generation));
            if controller == Controller::Cpu {
                let weight = resources::weight(tree, &group, mount.version);
                constraints.extend(at(weight, generation));
            }
        }
    }
    constraints.extend(resources::processes(tree));
    constraints
}

/// Reads the affinity mask (`Cpus_allowed_list`) of the process. It may contain offline PUs.
pub(crate) fn mask(tree: &Tree) -> Option<CpuSet> {
    let file = "proc/self/status";
    let status = tree.text(file)?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    tree.valid(file, list.parse())
        .filter(|mask: &CpuSet| !mask.is_empty())
}

/// Returns the folder of the process's group, the folder of its parent, and so on up to the mount
/// point.
fn upwards(point: &str, within: String) -> impl Iterator<Item = String> {
    let point = point.trim_end_matches('/').to_string();
    let deepest = if within.is_empty() {
        point.clone()
    } else {
        format!("{point}/{within}")
    };
    std::iter::successors(Some(deepest), move |group| {
        let parent = &group[..group.rfind('/')?];
        (group.len() > point.len()).then(|| parent.to_string())
    })
}

/// Returns the limit of one controller in one group, or `None` if it sets no limit.
fn rule(
    tree: &Tree,
    group: &str,
    controller: Controller,
    version: Version,
    generation: usize,
) -> Option<Constraint> {
    let found = match (controller, version) {
        (Controller::Cpuset, Version::V2) => cpuset(tree, group, &["cpuset.cpus.effective"]),
        (Controller::Cpuset, Version::V1) => cpuset(
            tree,
            group,
            &["cpuset.effective_cpus", "cpuset.cpus", "cpus"],
        ),
        (Controller::Cpu, Version::V2) => quota_v2(tree, group),
        (Controller::Cpu, Version::V1) => quota_v1(tree, group),
        (Controller::Pids, _) => resources::tasks(tree, group),
        (Controller::Memory, version) => resources::memory(tree, group, version),
    };
    at(found, generation)
}

/// Creates the constraint of a limit that was found in a group.
fn at(found: Option<(String, Rule)>, generation: usize) -> Option<Constraint> {
    found.map(|(path, rule)| Constraint {
        path,
        generation,
        rule,
    })
}

/// Returns the PUs in the first of these cpuset files that lists any PU.
fn cpuset(tree: &Tree, group: &str, names: &[&str]) -> Option<(String, Rule)> {
    names.iter().find_map(|name| {
        let path = format!("{group}/{name}");
        let cpus = tree.list(&path).filter(|cpus| !cpus.is_empty())?;
        Some((path, Rule::Cpuset(cpus)))
    })
}

/// Reads `cpu.max`, which contains `QUOTA PERIOD`. The quota may be `max`.
fn quota_v2(tree: &Tree, group: &str) -> Option<(String, Rule)> {
    let path = format!("{group}/cpu.max");
    let text = tree.limit_text(&path)?;
    let mut words = text.split_whitespace();
    let (quota, period) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or("100000"),
    );
    if quota == "max" {
        return None;
    }
    let quota = quota.parse().ok().zip(period.parse().ok());
    quota_rule(tree, path, quota, &text)
}

/// Reads `cpu.cfs_quota_us` and `cpu.cfs_period_us`. A quota of -1 means no limit.
fn quota_v1(tree: &Tree, group: &str) -> Option<(String, Rule)> {
    let path = format!("{group}/cpu.cfs_quota_us");
    let text = tree
        .limit_text(&path)
        .filter(|text| !text.starts_with('-'))?;
    let period = tree
        .text(&format!("{group}/cpu.cfs_period_us"))
        .unwrap_or_else(|| "100000".into());
    let quota = text.parse().ok().zip(period.parse().ok());
    quota_rule(tree, path, quota, &format!("{text} of {period}"))
}

/// Creates a quota, or notes that a number is missing or 0.
fn quota_rule(
    tree: &Tree,
    path: String,
    quota: Option<(u64, u64)>,
    text: &str,
) -> Option<(String, Rule)> {
    match quota {
        Some((quota_us, period_us)) if quota_us > 0 && period_us > 0 => Some((
            path,
            Rule::Quota {
                quota_us,
                period_us,
            },
        )),
        _ => {
            let reason = "the quota and the period must be whole numbers above 0";
            tree.valid(&path, Err(Error::syntax("CPU quota", text, reason)))
        }
    }
}
