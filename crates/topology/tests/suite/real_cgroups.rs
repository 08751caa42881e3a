//! Tests of budgets in real control groups, which the tests create if this machine allows it.
//!
//! A child process runs this program again, enters the group and prints its budget.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use creel_topology::{Budget, Machine};

/// The environment variable that is set in the child process.
const CHILD: &str = "CREEL_TEST_PRINTS_BUDGET";

#[test]
fn child_prints_its_budget() {
    if std::env::var_os(CHILD).is_some() {
        let machine = Machine::detect().unwrap();
        let budget = Budget::of(&machine);
        println!(
            "\n@{}|{}|{}@",
            budget.workers(),
            machine.allowed(),
            budget.bound_by()
        );
    }
}

/// Runs the child in a group. Returns the number of workers, the allowed PUs and the deciding
/// limit.
fn budget_inside(group: &Path, wrapper: &[&str]) -> Option<[String; 3]> {
    let program = std::env::current_exe().unwrap();
    let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
    let child = Command::new("sh")
        .args(["-c", script])
        .arg(group)
        .args(wrapper)
        .arg(program)
        .args([
            "--exact",
            "real_cgroups::child_prints_its_budget",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout).into_owned();
    let line = out.split('@').nth(1)?;
    let fields: Vec<String> = line.splitn(3, '|').map(String::from).collect();
    fields.try_into().ok()
}

/// A control group and a group inside it. Dropping this value deletes both. The inner group is
/// deleted first, because a group with children cannot be deleted.
struct Groups {
    made: Vec<PathBuf>,
}

impl Groups {
    /// Creates the groups `outer/inner` below the mount point of a hierarchy.
    fn new(hierarchy: &Path, name: &str) -> io::Result<Groups> {
        let outer = hierarchy.join(format!("creel-test-{name}-{}", std::process::id()));
        let mut groups = Groups { made: Vec::new() };
        for group in [outer.clone(), outer.join("inner")] {
            fs::create_dir(&group)?;
            groups.made.push(group);
        }
        Ok(groups)
    }

    fn outer(&self) -> &Path {
        &self.made[0]
    }

    fn inner(&self) -> &Path {
        &self.made[1]
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for group in self.made.iter().rev() {
            // We ignore errors, because a group that remains does not change the result of the
            // test.
            let _ = fs::remove_dir(group);
        }
    }
}

/// Returns the mount point of a controller in version 1.
fn v1_hierarchy(controller: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mut fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = fields.find(|mount| {
        mount.len() > 3
            && mount[2] == "cgroup"
            && mount[3].split(',').any(|name| name == controller)
    })?;
    Some(mount[1].into())
}

/// Returns the mount point of version 2, if it has a controller.
fn v2_hierarchy(controller: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mut fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let point = PathBuf::from(fields.find(|mount| mount.len() > 3 && mount[2] == "cgroup2")?[1]);
    let offered = fs::read_to_string(point.join("cgroup.subtree_control")).ok()?;
    offered
        .split_whitespace()
        .any(|name| name == controller)
        .then_some(point)
}

fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// Creates the groups, or prints to stderr why this machine does not allow it.
fn groups(hierarchy: Option<PathBuf>, name: &str) -> Option<Groups> {
    let Some(hierarchy) = hierarchy else {
        skip("no such controller on this host");
        return None;
    };
    Groups::new(&hierarchy, name)
        .map_err(|error| skip(&format!("{}: {error}", hierarchy.display())))
        .ok()
}

#[test]
fn a_parent_quota_binds_in_cgroup_v1() {
    let Some(groups) = groups(v1_hierarchy("cpu"), "quota") else {
        return;
    };
    if fs::write(groups.outer().join("cpu.cfs_quota_us"), "100000").is_err() {
        return skip("no quotas in this kernel");
    }
    let Some([workers, _, cause]) = budget_inside(groups.inner(), &[]) else {
        return skip("the child could not enter");
    };
    assert_eq!(workers, "1");
    if Machine::detect().unwrap().cores().len() > 1 {
        assert_eq!(
            cause,
            "cpu.cfs_quota_us of the parent cgroup (100000/100000)"
        );
    }
}

#[test]
fn a_parent_quota_binds_in_cgroup_v2() {
    let Some(groups) = groups(v2_hierarchy("cpu"), "quota2") else {
        return;
    };
    if fs::write(groups.outer().join("cpu.max"), "100000 100000").is_err() {
        return skip("no quotas in this kernel");
    }
    let Some([workers, _, cause]) = budget_inside(groups.inner(), &[]) else {
        return skip("the child could not enter");
    };
    assert_eq!(workers, "1");
    if Machine::detect().unwrap().cores().len() > 1 {
        assert_eq!(cause, "cpu.max of the parent cgroup (100000/100000)");
    }
}

#[test]
fn quotas_are_visible_inside_a_namespace() {
    let Some(groups) = groups(v1_hierarchy("cpu"), "namespace") else {
        return;
    };
    if fs::write(groups.outer().join("cpu.cfs_quota_us"), "100000").is_err() {
        return skip("no quotas in this kernel");
    }
    let Some([workers, _, cause]) = budget_inside(groups.inner(), &["unshare", "--cgroup"]) else {
        return skip("the child could not make a namespace");
    };
    assert_eq!(workers, "1");
    if Machine::detect().unwrap().cores().len() > 1 {
        assert!(
            cause.starts_with("cpu.cfs_quota_us of the parent cgroup"),
            "{cause}"
        );
    }
}

#[test]
fn nested_cpusets_bind_in_version_1() {
    let machine = Machine::detect().unwrap();
    let Some(groups) = groups(v1_hierarchy("cpuset"), "cpuset") else {
        return;
    };
    let Some(last) = machine.allowed().last() else {
        return;
    };
    for group in [groups.outer(), groups.inner()] {
        let pus = if group == groups.outer() {
            machine.allowed().to_string()
        } else {
            last.to_string()
        };
        let set = fs::write(group.join("cpuset.cpus"), pus)
            .and_then(|()| fs::write(group.join("cpuset.mems"), "0"));
        if set.is_err() {
            return skip("the cpuset could not be set");
        }
    }
    let Some([workers, allowed, cause]) = budget_inside(groups.inner(), &[]) else {
        return skip("the child could not enter");
    };
    assert_eq!((workers, allowed), ("1".into(), last.to_string()));
    if machine.cores().len() > 1 {
        assert!(cause.contains("of this cgroup"), "{cause}");
    }
}

#[test]
fn the_affinity_mask_limits_the_workers() {
    let machine = Machine::detect().unwrap();
    let Some(first) = machine.allowed().first() else {
        return;
    };
    let one = first.to_string();
    let nowhere = tempfile::tempdir().unwrap();
    let Some([workers, allowed, _]) = budget_inside(nowhere.path(), &["taskset", "-c", &one])
    else {
        return skip("no taskset on this host");
    };
    assert_eq!((workers, allowed), ("1".into(), one));
}
