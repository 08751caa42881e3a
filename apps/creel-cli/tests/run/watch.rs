//! Checks limits that change or throttle while the program runs.

use crate::{CREEL, quota::Quota};
use std::{fs, process::Command};
use tempfile::TempDir;

#[test]
fn limit_changes_are_reported_and_run_the_hook() {
    let Some(quota) = Quota::of_one_cpu() else {
        return;
    };
    if std::thread::available_parallelism().unwrap().get() < 2 {
        eprintln!("skipped: this machine has only one CPU");
        return;
    }
    let folder = TempDir::new().unwrap();
    let written = folder.path().join("workers");
    let line = format!("echo $CREEL_WORKERS > {}", written.display());
    let program = format!(
        "until [ -e {} ]; do sleep 0.05; done; exit 3",
        written.display()
    );
    let mut words = quota.enter("inner");
    words.extend([CREEL, "run", "--watch", "--on-change", &line]);
    words.extend(["--", "timeout", "60", "sh", "-c", &program]);
    let child = Command::new(words[0])
        .args(&words[1..])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The shell has executed creel, and creel has started its program.
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    while fs::read_to_string(&children).unwrap().is_empty() {
        std::thread::yield_now();
    }
    quota.lift();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("limits have changed"), "{said}");
    assert_ne!(fs::read_to_string(written).unwrap(), "1\n");
}

#[test]
fn signals_are_forwarded_under_watch() {
    // The script ends after half a minute. It has to, because a `timeout` that gets the signal too
    // early ends without its child.
    let script = "trap 'exit 9' TERM; echo ready; \
                  i=0; while [ $i -lt 600 ]; do i=$((i+1)); sleep 0.05; done";
    let mut child = Command::new(CREEL)
        .args([
            "run",
            "--watch",
            "--",
            "timeout",
            "--foreground",
            "60",
            "sh",
            "-c",
            script,
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    let code = child.wait().unwrap().code().unwrap();
    // `timeout` forwards the signal and returns the exit code of its child, or its own.
    assert!([9, 124, 143].contains(&code), "{code}");
}

#[test]
fn top_reports_that_an_outer_quota_stops_the_program() {
    let Some(quota) = Quota::of_one_cpu() else {
        return;
    };
    quota.tighten();
    let mut words = quota.enter("inner");
    let busy =
        "timeout 1 sh -c 'while :; do :; done' & timeout 1 sh -c 'while :; do :; done'; wait";
    words.extend([CREEL, "top", "--format", "json", "--", "sh", "-c", busy]);
    let out = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let output: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let throttled = output["throttled"]["throttled"].as_u64();
    assert!(throttled.is_some_and(|n| n > 0), "{}", output["throttled"]);
}
