//! Runs the program in tests.
#![allow(dead_code, reason = "each test file uses only a part of this module")]

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

pub const CITY: [&str; 7] = ["run", "--city", "12x12", "--noise", "20", "--cars", "900"];

pub fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_creel-traffic"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Returns a path for a file of this test.
pub fn place(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!(
        "creel-traffic-program-{}-{name}",
        std::process::id()
    ))
}

pub fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--format", "json"]].concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}
