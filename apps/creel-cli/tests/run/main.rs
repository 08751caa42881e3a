//! Runs `creel run` with real runtimes and in real control groups.

mod export;
mod hostile;
mod process;
mod quota;
mod runtimes;
mod shim;
mod starts;
mod user_settings;
mod watch;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

const CREEL: &str = env!("CARGO_BIN_EXE_creel");

fn source(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtimes");
    tests.join(name)
}

/// Runs a command to its end. Returns `None`, with a note on stderr, if the program does not exist.
fn output(command: &mut Command) -> Option<Output> {
    let output = command.output();
    if output.is_err() {
        eprintln!(
            "skipped: {} is not installed",
            command.get_program().display()
        );
    }
    output.ok()
}

/// Builds a program. Returns `None` if its compiler is not installed.
fn built(compiler: &str, args: &[&str], into: &Path) -> Option<PathBuf> {
    let mut command = Command::new(compiler);
    let output = output(command.args(args).current_dir(into))?;
    assert!(output.status.success(), "{command:?}: {output:?}");
    Some(into.join("cpu"))
}

/// A program that prints the number of threads that its runtime chose.
struct Asked {
    name: &'static str,
    /// The options for `creel run` that this runtime needs.
    options: &'static [&'static str],
    command: Vec<String>,
}

/// Returns the output of a program that `creel run` starts inside of `wrapper`.
fn answer(wrapper: &[&str], options: &[&str], asked: &Asked) -> String {
    let mut words: Vec<&str> = wrapper.to_vec();
    words.extend([CREEL, "run"]);
    words.extend(options);
    words.extend(asked.options);
    words.push("--");
    words.extend(asked.command.iter().map(String::as_str));
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{}: {output:?}", asked.name);
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// Returns stdout and stderr of `creel` with these variables in addition to ours.
fn said(words: &[&str], variables: &[(&str, &str)]) -> (String, String) {
    let mut command = Command::new(CREEL);
    // Whoever runs the tests may have set it, and `creel run` keeps what the user has set.
    command.env_remove("CARGO_BUILD_JOBS");
    command.args(words).envs(variables.iter().copied());
    let out = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(out.stdout), text(out.stderr))
}

/// Returns whether every core of this machine has one PU.
fn creel_topology_has_no_smt() -> bool {
    let machine = creel_topology::Machine::detect().unwrap();
    machine.cores().iter().all(|core| core.pus.len() == 1)
}
