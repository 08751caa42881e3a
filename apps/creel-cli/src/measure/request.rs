//! A request for one run of a command, and its outcome. These types and the preparation of a command
//! are the same on all systems.

use super::args::Where;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::File,
    path::PathBuf,
    process::{Command, Stdio},
};

/// A request for one run.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunRequest {
    /// The words of the command.
    pub words: Vec<OsString>,
    /// The variables that the command gets in addition to ours.
    #[serde(default)]
    pub variables: Vec<(OsString, OsString)>,
    /// The affinity mask of the command as a CPU list, or `None` for ours.
    #[serde(default)]
    pub mask: Option<String>,
    pub show_stderr: bool,
    /// The file for stdin, or `None` for an empty stdin.
    pub input: Option<PathBuf>,
    pub output: Where,
    /// The file for stdout and stderr, if we search the output.
    pub output_file: Option<PathBuf>,
    /// The longest time that the command may take, in seconds.
    pub timeout_s: Option<f64>,
    /// The time that we wait for processes that outlive the command, in seconds.
    pub linger_s: f64,
}

/// The reply to a request.
#[cfg(target_os = "linux")]
#[derive(Debug, Serialize, Deserialize)]
pub enum RunReply {
    Ran(Outcome),
    /// The command could not be started, for this reason. The exit code is that of a shell.
    Failed {
        exit: u8,
        reason: String,
    },
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The figures by name.
    pub values: BTreeMap<String, f64>,
    /// The exit code of the command, or 128 plus the signal that ended it.
    pub exit_code: i32,
    pub timed_out: bool,
    /// The number of processes that outlived the command too long, so that we ended them.
    pub ended: usize,
}

/// Returns the command that is ready to start, with its files open.
pub fn command(request: &RunRequest) -> Result<Command> {
    let mut words = request.words.iter();
    let Some(program) = words.next() else {
        bail!("no command");
    };
    let kept = || -> Result<Option<Stdio>> {
        let Some(file) = &request.output_file else {
            return Ok(None);
        };
        let file = File::options().append(true).open(file);
        let file = file.context("cannot write the output of the command to a temporary file")?;
        Ok(Some(file.into()))
    };
    let named =
        |what: &str, file: &PathBuf| format!("cannot open the {what} file {}", file.display());
    let stdin = match &request.input {
        Some(file) => File::open(file)
            .with_context(|| named("input", file))?
            .into(),
        None => Stdio::null(),
    };
    let stdout = match (kept()?, &request.output) {
        (Some(kept), _) => kept,
        (None, Where::Null) => Stdio::null(),
        (None, Where::Pipe) => Stdio::piped(),
        (None, Where::Inherit) => Stdio::inherit(),
        (None, Where::File(file)) => File::create(file)
            .with_context(|| named("output", file))?
            .into(),
    };
    let stderr = match kept()? {
        Some(kept) => kept,
        None if request.show_stderr => Stdio::inherit(),
        None => Stdio::null(),
    };
    let mut command = Command::new(program);
    command
        .envs(request.variables.iter().map(|(name, value)| (name, value)))
        .args(words)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    Ok(command)
}

/// Formats a number of processes.
pub fn processes(count: usize) -> String {
    match count {
        1 => "a process".into(),
        _ => format!("{count} processes"),
    }
}
