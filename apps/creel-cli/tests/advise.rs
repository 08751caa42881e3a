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
    script(folder, &format!("{fast}) sleep 0.05;; *) sleep 0.4;;"))
}

/// Writes a program that does something else for each value of `RAYON_NUM_THREADS`.
fn script(folder: &tempfile::TempDir, cases: &str) -> String {
    let program = folder.path().join("program");
    let script = format!("#!/bin/sh\ncase \"$RAYON_NUM_THREADS\" in {cases} esac\n");
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
fn a_setting_with_which_the_program_fails_is_not_recommended() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(&folder, "1) exit 3;; *) sleep 0.02;;");
    let words = [
        "--budget", "2s", "--sizes", "1,3", "--as", "rayon", &program,
    ];
    let (code, text, err) = advise(&words);
    assert_eq!(code, Some(0), "{err}");
    assert!(text.contains("failed, exit code 3"), "{text}");
    assert!(text.contains("best: as it is"), "{text}");
}

#[test]
fn a_program_that_fails_as_it_is_gets_a_setting_that_works() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(&folder, "'') exit 3;; *) sleep 0.02;;");
    let words = ["--budget", "2s", "--sizes", "1", "--as", "rayon", &program];
    let (code, text, err) = advise(&words);
    assert_eq!(code, Some(0), "{err}");
    let best = "best: 1 worker. As it is, the program fails with exit code 3.";
    assert!(text.contains(best), "{text}");
}

#[test]
fn a_setting_that_takes_much_longer_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(&folder, "1) sleep 600;; *) sleep 0.02;;");
    let words = [
        "--budget", "5s", "--sizes", "1,3", "--as", "rayon", &program,
    ];
    let (code, text, err) = advise(&words);
    assert_eq!(code, Some(0), "{err}");
    assert!(text.contains("ended after "), "{text}");
    assert!(text.contains("best: as it is"), "{text}");
}

#[test]
fn a_program_that_exceeds_the_budget_as_it_is_gets_a_setting_that_ends() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(&folder, "'') sleep 600;; *) sleep 0.02;;");
    let words = ["--budget", "4s", "--sizes", "1", "--as", "rayon", &program];
    let (code, text, err) = advise(&words);
    assert_eq!(code, Some(0), "{err}");
    let best = "best: 1 worker. As it is, the program takes more than 4.0 s.";
    assert!(text.contains(best), "{text}");
}

#[test]
fn more_workers_than_cpus_are_tried() {
    let pus = creel_topology::affinity::current().unwrap().len();
    let folder = tempfile::tempdir().unwrap();
    let program = program(&folder, &format!("{}|{}", 2 * pus, 4 * pus));
    let words = [
        "--budget", "12s", "--as", "rayon", "--format", "json", &program,
    ];
    let (code, json, err) = advise(&words);
    assert_eq!(code, Some(0), "{err}");
    let output: Value = serde_json::from_str(&json).unwrap();
    let settings = output["settings"].as_array().unwrap();
    let tried = |workers: usize| settings.iter().any(|row| row["workers"] == workers);
    assert!(tried(2 * pus), "{json}");
    assert!(tried(4 * pus), "{json}");
}

#[test]
fn data_on_stdin_gets_a_note() {
    use std::{io::Write, process::Stdio};

    let mut command = Command::new(CREEL);
    command.args(["advise", "--budget", "1s", "--sizes", "1", "cat"]);
    let pipes = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // The pipe stays open until the end, and the program does not wait for it.
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(b"data").unwrap();
    let (status, err) = (child.wait().unwrap(), child.stderr.take().unwrap());
    let err = std::io::read_to_string(err).unwrap();
    assert!(status.success() && err.contains("--input FILE"), "{err}");
    drop(pipe);
}

#[test]
fn a_budget_for_one_run_gives_no_advice_by_chance() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(&folder, "'') sleep 2.5;; *) sleep 2.2;;");
    // This leaves a program on a busy machine more than a second to start.
    let words = ["--budget", "4s", "--sizes", "1", "--as", "rayon", &program];
    let (code, text, err) = advise(&words);
    assert_eq!(code, Some(0), "{err}");
    assert!(text.contains("best: as it is"), "{text}");
    assert!(text.contains("larger --budget"), "{text}");
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
fn failures_of_advise_have_an_exit_code_and_a_message() {
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
