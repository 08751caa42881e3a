//! Runs `creel advise` with programs whose best setting is known.

use serde_json::Value;
use std::{os::unix::fs::PermissionsExt, process::Command};

const CREEL: &str = env!("CARGO_BIN_EXE_creel");

fn advise(words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(CREEL);
    let out = command.arg("advise").args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

/// Writes a program that is fast only if `RAYON_NUM_THREADS` has this value. Its time does not
/// depend on the machine, and the difference is larger than the noise of a busy machine.
fn program(folder: &tempfile::TempDir, fast: &str) -> String {
    let program = folder.path().join("program");
    let script = format!(
        "#!/bin/sh\ncase \"$RAYON_NUM_THREADS\" in {fast}) sleep 0.05;; *) sleep 0.4;; esac\n"
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program.to_str().unwrap().to_owned()
}

#[test]
fn the_faster_size_is_recommended() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(&folder, "1");
    let words = ["--budget", "8s", "--sizes", "1,3", "--as", "rayon"];
    let words = [&words[..], &["--format", "json", "--", &program]].concat();
    let (code, json, err) = advise(&words);
    assert_eq!(code, Some(0), "{err}");
    let output: Value = serde_json::from_str(&json).unwrap();
    let best = &output["settings"][output["best"].as_u64().unwrap() as usize];
    assert_eq!(best["workers"], 1, "{json}");
    assert!(best["ratio_high"].as_f64().unwrap() < 0.8, "{json}");
    let line = |key: &str| output[key].as_str().unwrap().to_owned();
    assert!(line("command").starts_with("creel run --jobs 1 "), "{json}");
    assert!(line("shell").starts_with("RAYON_NUM_THREADS=1 "), "{json}");
    assert_eq!(line("dockerfile"), "ENV RAYON_NUM_THREADS=\"1\"\n");
    assert_eq!(line("systemd"), "Environment=\"RAYON_NUM_THREADS=1\"\n");
}

#[test]
fn a_program_that_is_best_as_it_is_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(&folder, "''");
    let words = ["--budget", "3s", "--sizes", "1", "--as", "rayon", &program];
    let (code, text, err) = advise(&words);
    assert_eq!(code, Some(0), "{err}");
    assert!(text.contains("best: as it is"), "{text}");
}

#[test]
fn a_program_without_another_setting_runs_once() {
    // With one CPU, there is nothing to change about this program.
    let cpu = creel_topology::affinity::current().unwrap().first();
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.unwrap().to_string(), CREEL, "advise"]);
    let out = command.args(["--budget", "1s", "true"]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert!(text.contains("best: as it is"), "{text}");
}

#[test]
fn failures_are_reported() {
    let (code, _, err) = advise(&["--budget", "1s", "false"]);
    assert!(code == Some(1) && err.contains("exit code 1"), "{err}");
    let (code, _, err) = advise(&["no-such-program"]);
    assert!(
        code == Some(127) && err.contains("no-such-program"),
        "{err}"
    );
    let (code, _, err) = advise(&["--budget", "300ms", "sleep", "30"]);
    assert!(code == Some(1) && err.contains("--budget"), "{err}");
}
