//! Tests of cpusets and quotas in trees with every arrangement of control groups.

use creel_topology::{Budget, LimitKind, Machine, Rounding};

use crate::support::{Fixture, set};

const V2: &str = "31 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

/// Returns a tree with eight cores of one PU each. The process is in the control group `group` of
/// the hierarchy of version 2.
fn v2(group: &str) -> Fixture {
    Fixture::online("0-7")
        .topology("core_cpus_list", &["0", "1", "2", "3", "4", "5", "6", "7"])
        .file("proc/self/mountinfo", V2)
        .file("proc/self/cgroup", &format!("0::{group}\n"))
}

fn workers_and_cause(fixture: &Fixture) -> (usize, String) {
    let budget = fixture.budget();
    (budget.workers(), budget.bound_by().to_string())
}

#[test]
fn another_process_has_limits_of_its_own() {
    let fixture = v2("/own")
        .file("proc/7/cgroup", "0::/other\n")
        .file("proc/7/status", "Cpus_allowed_list:\t0-4\n")
        // The other process sees its group at another mount point, but we read the group through
        // our own mount.
        .file(
            "proc/7/mountinfo",
            "1 1 0:26 /other /cg rw - cgroup2 c rw\n",
        )
        .file("sys/fs/cgroup/own/cpu.max", "100000 100000\n")
        .file("sys/fs/cgroup/other/cpu.max", "300000 100000\n");
    assert_eq!(fixture.budget().workers(), 1);
    let workers = |process, mask: Option<&str>| {
        let mask = mask.map(set);
        let machine = Machine::detect_process_in(fixture.root(), process, mask.as_ref());
        Budget::of(&machine).workers()
    };
    assert_eq!(workers(7, None), 3);
    assert_eq!(workers(7, Some("6-7")), 2);
    assert_eq!(workers(8, None), 8, "it has ended");
}

#[test]
fn the_smallest_quota_of_all_ancestors_applies() {
    let fixture = v2("/a/b/c")
        .file("sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n")
        .file("sys/fs/cgroup/a/b/cpu.max", "300000 100000\n")
        .file("sys/fs/cgroup/a/cpu.max", "500000 100000\n");
    assert_eq!(
        workers_and_cause(&fixture),
        (3, "cpu.max of the parent cgroup (300000/100000)".into())
    );
    let higher = fixture.file("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
    assert_eq!(
        workers_and_cause(&higher),
        (
            2,
            "cpu.max of the ancestor cgroup /sys/fs/cgroup/a (200000/100000)".into()
        )
    );
    let limits = higher.budget();
    let kinds: Vec<_> = limits
        .limits()
        .iter()
        .map(|limit| (limit.kind, limit.workers))
        .collect();
    assert_eq!(
        kinds,
        [
            (LimitKind::Cores, 8),
            (LimitKind::Quota, 3),
            (LimitKind::Quota, 2)
        ]
    );
}

#[test]
fn fractional_quotas_round_as_requested_but_never_to_zero() {
    for (quota, floor, ceil) in [
        ("250000", 2, 3),
        ("50000", 1, 1),
        ("1000", 1, 1),
        ("799999", 7, 8),
        ("18446744073709551615", 8, 8),
    ] {
        let machine = v2("/a")
            .file("sys/fs/cgroup/a/cpu.max", &format!("{quota} 100000\n"))
            .machine();
        assert_eq!(Budget::of(&machine).workers(), floor, "{quota}");
        assert_eq!(
            Budget::rounded(&machine, Rounding::Ceil).workers(),
            ceil,
            "{quota}"
        );
    }
}

#[test]
fn an_explicit_number_overrides_all_limits() {
    let budget = v2("/a")
        .file("sys/fs/cgroup/a/cpu.max", "100000 100000\n")
        .budget()
        .explicit(20);
    assert_eq!(
        (budget.workers(), budget.bound_by().kind),
        (20, LimitKind::Explicit)
    );
    assert_eq!(budget.clone().explicit(0).workers(), 1);
}

#[test]
fn an_unusable_list_of_groups_is_noted() {
    for list in ["", "garbage\n", "\u{1}\u{2}"] {
        let machine = v2("/a")
            .file("sys/fs/cgroup/cgroup.procs", "")
            .file("proc/self/cgroup", list)
            .file("proc/self/cpuset", "/\n")
            .machine();
        let notes = machine.notes().join("; ");
        assert!(
            notes.contains("limits of control groups are hidden"),
            "{list:?}: {notes}"
        );
    }
}

#[test]
fn invalid_limits_are_noted_and_do_not_limit() {
    for (file, text) in [
        ("cpu.max", ""),
        ("memory.max", ""),
        ("memory.max", "1G"),
        ("memory.max", "-1"),
        ("pids.max", ""),
        ("pids.max", "many"),
        ("cpu.max", "0 100000"),
        ("cpu.max", "100000 0"),
        ("cpu.max", "-5 100000"),
        ("cpu.max", "many 100000"),
        ("cpu.max", "99999999999999999999 100000"),
    ] {
        let machine = v2("/a")
            .file(&format!("sys/fs/cgroup/a/{file}"), text)
            .machine();
        let [note] = machine.notes() else {
            panic!("{file} {text}: {:?}", machine.notes());
        };
        assert!(note.contains(&format!("a/{file}")), "{text}: {note}");
        assert_eq!(Budget::of(&machine).workers(), 8);
    }
}

#[test]
fn a_cpuset_narrows_the_allowed_pus() {
    let fixture = v2("/a/b")
        .file("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n")
        .file("sys/fs/cgroup/a/cpuset.cpus.effective", "0-5\n")
        .file("sys/fs/cgroup/a/b/cpuset.cpus.effective", "2-3,9\n");
    assert_eq!(fixture.machine().allowed().to_string(), "2-3");
    assert_eq!(
        workers_and_cause(&fixture),
        (2, "cpuset.cpus.effective of this cgroup (2-3,9)".into())
    );
}

#[test]
fn hyper_threads_of_one_core_count_once() {
    let fixture = Fixture::online("0-7")
        .topology("core_cpus_list", &["0-1", "2-3", "4-5", "6-7"])
        .file(
            "proc/self/status",
            "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-2\n",
        );
    assert_eq!(
        workers_and_cause(&fixture),
        (2, "the affinity mask (0-2)".into())
    );
}

#[test]
fn cgroup_v1_has_one_hierarchy_per_controller() {
    let fixture = Fixture::online("0-7")
        .file(
            "proc/self/mountinfo",
            "32 31 0:29 / /cg/my\\040cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
             34 31 0:31 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n\
             35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n",
        )
        .file(
            "proc/self/cgroup",
            "4:memory:/\n3:cpuset:/jobs\n2:cpu,cpuacct:/x/y\n1:name=systemd:/z\n",
        )
        .file("cg/my cpu/x/y/cpu.cfs_quota_us", "-1\n")
        .file("cg/my cpu/x/cpu.cfs_quota_us", "450000\n")
        .file("cg/my cpu/x/cpu.cfs_period_us", "150000\n")
        .file("cg/cpuset/jobs/cpuset.cpus", "0-4\n");
    assert_eq!(fixture.machine().allowed().to_string(), "0-4");
    assert_eq!(
        workers_and_cause(&fixture),
        (
            3,
            "cpu.cfs_quota_us of the parent cgroup (450000/150000)".into()
        )
    );
    let zero = fixture.file("cg/my cpu/x/cpu.cfs_quota_us", "0\n");
    assert!(zero.machine().notes()[0].contains("cpu.cfs_quota_us"));
}

#[test]
fn hybrid_cgroups_are_read_per_controller() {
    let fixture = Fixture::online("0-7")
        .file(
            "proc/self/mountinfo",
            "41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu\n",
        )
        .file("proc/self/cgroup", "2:cpu:/v1\n0::/v2\n")
        .file("cg/cpu/v1/cpu.cfs_quota_us", "200000\n")
        .file("cg/unified/v2/cpuset.cpus.effective", "1-6\n")
        .file("cg/unified/v2/cpu.max", "100000 100000\n");
    assert_eq!(fixture.machine().allowed().to_string(), "1-6");
    assert_eq!(
        fixture.budget().workers(),
        2,
        "the controller is in version 1, so cpu.max must be ignored"
    );
}

#[test]
fn containers_see_their_cgroup_at_the_mount_point() {
    let fixture = Fixture::online("0-7")
        .file(
            "proc/self/mountinfo",
            "31 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
        )
        .file("proc/self/cgroup", "0::/docker/abc/inner\n")
        .file("sys/fs/cgroup/inner/cpu.max", "max 100000\n")
        .file("sys/fs/cgroup/cpu.max", "150000 100000\n");
    assert_eq!(fixture.budget().workers(), 1);
}

#[test]
fn mounts_of_other_subtrees_are_ignored() {
    let fixture = Fixture::online("0-7")
        .file(
            "proc/self/mountinfo",
            "31 23 0:26 /docker/abc /mnt rw - cgroup2 cgroup rw\n",
        )
        .file("proc/self/cgroup", "0::/user.slice\n")
        .file("mnt/cpu.max", "100000 100000\n");
    assert_eq!(fixture.budget().workers(), 8);
}

#[test]
fn the_mount_with_most_ancestors_is_read() {
    let fixture = Fixture::online("0-7")
        .file(
            "proc/self/mountinfo",
            "30 23 0:26 /a /mnt/a rw - cgroup2 cgroup rw\n31 23 0:26 / /mnt/all rw - cgroup2 cgroup rw\n",
        )
        .file("proc/self/cgroup", "0::/a/b\n")
        .file("mnt/a/b/cpu.max", "500000 100000\n")
        .file("mnt/all/a/b/cpu.max", "500000 100000\n")
        .file("mnt/all/a/cpu.max", "400000 100000\n");
    assert_eq!(
        workers_and_cause(&fixture),
        (4, "cpu.max of the parent cgroup (400000/100000)".into())
    );
}

#[test]
fn cgroup_namespaces_are_resolved() {
    let fixture = Fixture::online("0-7")
        .file(
            "proc/self/mountinfo",
            "31 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
        )
        .file("proc/self/cgroup", "0::/\n")
        .file("proc/self/stat", "4711 (a b) R 1\n")
        .file("sys/fs/cgroup/cgroup.procs", "1\n")
        .file("sys/fs/cgroup/other/one/cgroup.procs", "2\n47\n")
        .file("sys/fs/cgroup/pods/mine/cgroup.procs", "12\n4711\n")
        .file("sys/fs/cgroup/pods/mine/cpu.max", "max 100000\n")
        .file("sys/fs/cgroup/pods/cpu.max", "250000 100000\n");
    assert_eq!(
        workers_and_cause(&fixture),
        (2, "cpu.max of the parent cgroup (250000/100000)".into())
    );
}

#[test]
fn cpusets_without_cgroups_are_read() {
    let fixture = Fixture::online("0-7")
        .file("proc/mounts", "none /dev/cpuset cpuset rw 0 0\n")
        .file("proc/self/cpuset", "/jobs\n")
        .file("dev/cpuset/jobs/cpus", "1,3\n");
    assert_eq!(fixture.machine().allowed().to_string(), "1,3");
}

#[test]
fn a_mask_outside_the_cpuset_has_priority() {
    let fixture = v2("/a")
        .file("sys/fs/cgroup/a/cpuset.cpus.effective", "0-1\n")
        .file("proc/self/status", "Cpus_allowed_list:\t4-6\n");
    assert_eq!(fixture.machine().allowed().to_string(), "4-6");
    assert_eq!(
        workers_and_cause(&fixture),
        (3, "the affinity mask (4-6)".into())
    );
}

#[test]
fn a_hidden_file_system_of_control_groups_is_noted() {
    let hidden = v2("/a").file("proc/self/mountinfo", "31 23 8:1 / / rw - ext4 disk rw\n");
    let machine = hidden.machine();
    let [note] = machine.notes() else {
        panic!("{:?}", machine.notes());
    };
    assert!(note.contains("no file system shows it"), "{note}");
}
