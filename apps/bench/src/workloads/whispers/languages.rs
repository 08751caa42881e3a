//! Go, where its toolchain is: the cases' own small program, built once and run for each sample.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, ensure};

use super::jobs::Job;
use crate::harness::{Plan, Subject};

const SOURCE: &str = include_str!("whispers.go");

/// A subject, if there is a Go toolchain and the program has this job.
pub fn subject(job: Job, workers: usize) -> Option<Subject> {
    let (case, size) = match job {
        Job::Chain(length) => ("chain", length),
        Job::Hop(length) => ("hop", length),
        Job::SpawnJoin => ("spawn-join", 0),
        Job::PingPong => ("ping-pong", 0),
        Job::Yield | Job::FanOut(..) | Job::Blocked => return None,
    };
    let program = program()?;
    let name = format!("go {workers} workers");
    let scale = if case == "chain" { 1e6 } else { 1.0 };
    Some(Subject::new(name, move |plan: &Plan| {
        let microseconds = |time: std::time::Duration| format!("{}us", time.as_micros());
        let output = Command::new(&program)
            .args([case, &size.to_string(), &workers.to_string()])
            .args([microseconds(plan.warm_up), microseconds(plan.sample)])
            .output()?;
        ensure!(output.status.success(), "the Go program failed");
        let text = String::from_utf8(output.stdout)?;
        let nanoseconds: f64 = text.trim().parse().context("the Go program's figure")?;
        Ok(nanoseconds / scale)
    }))
}

/// The built program; `None` without a toolchain, or if the build fails.
fn program() -> Option<PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(build).clone()
}

fn build() -> Option<PathBuf> {
    let folder = std::env::temp_dir().join(format!("creel-bench-go-{}", std::process::id()));
    fs::create_dir_all(&folder).ok()?;
    let (source, program) = (folder.join("whispers.go"), folder.join("whispers"));
    fs::write(&source, SOURCE).ok()?;
    let status = Command::new("go")
        .arg("build")
        .arg("-o")
        .args([&program, &source])
        .stderr(Stdio::null())
        .status()
        .ok()?;
    status.success().then_some(program)
}
