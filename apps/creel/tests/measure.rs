//! `creel measure` and `creel top` from outside.

use std::{fs, process::Command};
use tempfile::TempDir;

const CREEL: &str = env!("CARGO_BIN_EXE_creel");

fn creel(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(CREEL).args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The number behind a key, from a run's JSON.
fn figure(json: &str, key: &str) -> f64 {
    let (_, rest) = json.split_once(&format!("\"{key}\": ")).unwrap();
    let end = rest.find([',', '\n', '}']).unwrap();
    rest[..end].parse().unwrap()
}

#[test]
fn a_program_is_charged_with_its_own_memory_and_not_ours() {
    let measured = |mib: &str| {
        let script = format!("head -c {mib}M /dev/zero | tail -c {mib}M >/dev/null");
        let words = [
            "measure", "-n", "1", "--format", "json", "sh", "-c", &script,
        ];
        let (code, json, err) = creel(&words);
        assert_eq!(code, Some(0), "{err}");
        figure(&json, "peak_rss_bytes")
    };
    // `tail` must keep the whole of what it was asked for.
    assert!(measured("64") > 64e6);
    let (_, json, _) = creel(&["measure", "-n", "1", "--format", "json", "true"]);
    let small = figure(&json, "peak_rss_bytes");
    assert!(small < 2.0 * 1024.0 * 1024.0, "true takes {small} bytes");
}

#[test]
fn a_child_that_outlives_its_parent_is_counted() {
    let busy = "(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done) & exit 0";
    let (code, json, err) = creel(&["measure", "-n", "1", "--format", "json", "sh", "-c", busy]);
    assert_eq!(code, Some(0), "{err}");
    let (user, wall) = (figure(&json, "user_s"), figure(&json, "wall_s"));
    assert!(user > 2.0 * wall, "user {user} s, wall {wall} s");
}

#[test]
fn runs_are_written_and_read_back() {
    let folder = TempDir::new().unwrap();
    let csv = folder.path().join("runs.csv");
    let csv = csv.to_str().unwrap();
    let words = [
        "measure", "-n", "2", "--csv", csv, "--matrix", "n=1,2,3", "--", "echo", "{n}",
    ];
    let (code, first, err) = creel(&words);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), 7);
    let (code, again, _) = creel(&["measure", "--from", csv]);
    assert_eq!((code, again), (Some(0), first));
    fs::write(csv, "not,a,measurement\n1,2,3\n").unwrap();
    let (code, _, err) = creel(&["measure", "--from", csv]);
    assert_eq!(code, Some(65));
    assert!(err.contains("is no measurement"), "{err}");
}

#[test]
fn failures_are_named() {
    let fails = |words: &[&str], code: i32, text: &str| {
        let (ended, _, said) = creel(words);
        assert_eq!(ended, Some(code), "{words:?}: {said}");
        assert!(said.contains(text), "{words:?}: {said}");
    };
    fails(&["measure", "no-such-program"], 2, "no-such-program");
    fails(&["measure", "false"], 1, "exit code 1");
    fails(&["measure", "--matrix", "x", "true"], 2, "NAME=VALUE");
    fails(&["measure", "--matrix", "x=1", "true"], 2, "{x}");
    fails(&["measure", "-n", "0", "true"], 2, "10000");
    fails(&["top", "no-such-program"], 127, "no-such-program");
    fails(&["top", "-p", "4000000000"], 2, "no process");
}

#[test]
fn top_tells_threads_and_a_verdict() {
    let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let (code, text, err) = creel(&["top", "--", "sh", "-c", busy]);
    assert_eq!(code, Some(0), "{err}");
    assert!(text.contains("threads runnable on average"), "{text}");
    assert!(text.lines().any(|line| line.contains(" sh ")), "{text}");
}
