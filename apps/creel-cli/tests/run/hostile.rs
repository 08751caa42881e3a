//! Starts programs on machines whose `/sys` and `/proc` are missing, empty, or contradict the
//! affinity mask. Nothing that creel reads may keep a program from starting.
//!
//! A mount namespace of its own shows other files. We skip the tests if this host does not allow
//! that.

use crate::CREEL;
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

/// The environment variable that makes this program build a pool instead of running the test.
const CHILD: &str = "CREEL_TEST_BUILDS_A_POOL";

/// The first CPU on which this thread may run.
fn own_cpu() -> usize {
    let mask = creel_topology::affinity::current().unwrap();
    mask.first().unwrap()
}

#[test]
fn child_builds_a_pool() {
    if std::env::var_os(CHILD).is_some() {
        let pool = creel::Pool::builder()
            .placement(creel::Placement::Cores)
            .build()
            .unwrap();
        let mut items = [1, 2, 3];
        pool.for_each(&mut items, |item| *item += 1);
        println!("workers={} items={items:?}", pool.workers());
    }
}

/// Runs a command after `mounts`, a line of shell. Returns the exit code, stdout and stderr, or
/// `None` if this host does not allow such mounts.
fn below(mounts: &str, command: &[&str]) -> Option<(Option<i32>, String, String)> {
    let script = format!("({mounts}) || exit 99; exec \"$@\"");
    let out = Command::new("unshare")
        .args(["-m", "sh", "-c", &script, "sh"])
        .args(command)
        .env(CHILD, "1")
        .output()
        .ok()?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if out.status.code() == Some(99) || text(&out.stderr).contains("unshare:") {
        eprintln!("skipped: this host does not allow other files in /sys and /proc");
        return None;
    }
    Some((out.status.code(), text(&out.stdout), text(&out.stderr)))
}

/// Checks that a pool, `creel run` with several options and `creel topo` start after these mounts.
/// Returns `None` if this host does not allow the mounts.
fn starts(mounts: &str) -> Option<()> {
    let own = std::env::current_exe().unwrap();
    let test = [
        own.to_str().unwrap(),
        "--exact",
        "hostile::child_builds_a_pool",
        "--nocapture",
        "--test-threads=1",
    ];
    let (code, out, err) = below(mounts, &test)?;
    assert_eq!(code, Some(0), "a pool with {mounts}: {out} {err}");
    assert!(out.contains("items=[2, 3, 4]"), "{mounts}: {out} {err}");
    for options in [
        &[][..],
        &["--explain"],
        &["--placement", "cores"],
        &["--placement", "close"],
        &["--placement", "per-cache"],
        &["--no-smt"],
        &["--gc", "--shim"],
        &["--jobs", "cores"],
    ] {
        let mut words = vec![CREEL, "run"];
        words.extend(options);
        words.extend(["--", "sh", "-c", "echo started; exit 7"]);
        let (code, out, err) = below(mounts, &words)?;
        let started = (code, out.as_str());
        assert_eq!(
            started,
            (Some(7), "started\n"),
            "{options:?} with {mounts}: {err}"
        );
    }
    let (code, out, err) = below(mounts, &[CREEL, "topo"])?;
    assert_eq!(code, Some(0), "topo with {mounts}: {err}");
    assert!(!out.contains("allowed:  of"), "{mounts}: {out}");
    Some(())
}

/// Writes a file `online` to the folder. It lists other CPUs than ours. Returns the line of shell
/// that shows this file in `/sys`.
fn other_cpus(folder: &Path, online: &str) -> String {
    let file = folder.join("online");
    fs::write(&file, online).unwrap();
    format!(
        "mount --bind {} /sys/devices/system/cpu/online",
        file.display()
    )
}

#[test]
fn programs_start_although_the_online_list_names_other_cpus() {
    let folder = TempDir::new().unwrap();
    for online in ["900\n", "1000-1023\n", "", "x\n", "0-\n", "0-16383\n"] {
        let mounts = other_cpus(folder.path(), online);
        if starts(&mounts).is_none() {
            return;
        }
    }
    let mounts = other_cpus(folder.path(), "900\n");
    let words = [CREEL, "run", "--explain", "--", "true"];
    let (_, _, said) = below(&mounts, &words).unwrap();
    let note = format!("affinity mask has the CPUs {}", own_cpu());
    assert!(said.contains("note:") && said.contains(&note), "{said}");
}

#[test]
fn programs_start_although_files_are_missing_or_empty() {
    let hidden = "mount -t tmpfs none /sys && mount -t tmpfs none /proc";
    let mounts = [
        "mount -t tmpfs none /sys",
        "mount -t tmpfs none /sys/devices/system/cpu",
        hidden,
        "mount -t tmpfs none /proc && mkdir -p /proc/self && ln -s status /proc/self/status && \
         ln -s /dev/zero /proc/self/mountinfo && mkdir /proc/self/cgroup && ln -s /dev/zero \
         /proc/cpuinfo",
    ];
    for mounts in mounts {
        if starts(mounts).is_none() {
            return;
        }
    }
    let words = [CREEL, "run", "--explain", "--", "true"];
    let (_, _, said) = below(hidden, &words).unwrap();
    assert!(said.contains("no file lists the online CPUs"), "{said}");
    assert!(said.contains("/proc is not mounted"), "{said}");
    // The peak memory of a tree of processes that we do not see is unknown.
    let words = [
        CREEL, "measure", "-n", "2", "--format", "json", "--", "true",
    ];
    let (code, out, err) = below(hidden, &words).unwrap();
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("\"peak_rss_bytes\": null"), "{out}");
    let words = [
        CREEL,
        "measure",
        "-n",
        "1",
        "--timeout",
        "100ms",
        "--",
        "sleep",
        "600",
    ];
    let (code, _, err) = below(hidden, &words).unwrap();
    assert!(code == Some(1) && err.contains("--timeout"), "{err}");
    let words = [
        CREEL, "advise", "--budget", "1s", "--sizes", "1", "--", "true",
    ];
    let (code, out, err) = below(hidden, &words).unwrap();
    assert!(code == Some(0) && out.contains("best:"), "{out} {err}");
    let words = [CREEL, "top", "--", "true"];
    let (code, _, err) = below(hidden, &words).unwrap();
    assert!(code == Some(1) && err.contains("mount -t proc"), "{err}");
}

#[test]
fn processes_are_not_watched_in_the_files_of_another_namespace() {
    let script = format!("{CREEL} top -- true; echo $?");
    let out = Command::new("unshare")
        .args(["-p", "-f", "sh", "-c", &script])
        .output();
    let Ok(out) = out else { return };
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&out.stdout), text(&out.stderr));
    if err.contains("unshare:") {
        eprintln!("skipped: this host does not allow another PID namespace");
        return;
    }
    assert!(out == "1\n" && err.contains("PID namespace"), "{out} {err}");
}
