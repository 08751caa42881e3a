//! Runs the program `creel` for the tests.

use std::process::Command;

/// The path of the program.
pub const CREEL: &str = env!("CARGO_BIN_EXE_creel");

/// Runs `creel` with these arguments. Returns the exit code, stdout and stderr.
pub fn creel(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(CREEL).args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}
