//! Runs shell commands before and after the runs. We do not measure them. If one of them fails, the
//! measurement ends.

use super::{
    MeasureArgs,
    plan::{Subject, fill_text},
};
use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};

/// The shell commands of the user.
pub struct Hooks<'a> {
    args: &'a MeasureArgs,
}

impl<'a> Hooks<'a> {
    pub fn new(args: &'a MeasureArgs) -> Self {
        Self { args }
    }

    pub fn setup(&self, subject: &Subject) -> Result<()> {
        self.run("--setup", self.args.setup.as_deref(), subject)
    }

    pub fn prepare(&self, subject: &Subject) -> Result<()> {
        self.run("--prepare", self.args.prepare.as_deref(), subject)
    }

    pub fn cleanup(&self, subject: &Subject) -> Result<()> {
        self.run("--cleanup", self.args.cleanup.as_deref(), subject)
    }

    fn run(&self, flag: &str, line: Option<&str>, subject: &Subject) -> Result<()> {
        let Some(line) = line else {
            return Ok(());
        };
        let line = fill_text(line, &subject.settings);
        let shown = |shown: bool| {
            if shown || self.args.show_output {
                Stdio::inherit()
            } else {
                Stdio::null()
            }
        };
        let (mut shell, name) = shell(&line);
        let status = shell
            .stdin(Stdio::null())
            .stdout(shown(self.args.show_stdout))
            .stderr(shown(self.args.show_stderr))
            .status()
            .with_context(|| format!("cannot start the shell `{name}`"))?;
        if !status.success() {
            bail!("{flag} `{line}` failed: {status} (use --show-output to see its messages)");
        }
        Ok(())
    }
}

/// Returns the command that runs a line of the system's shell, and the name of that shell.
#[cfg(unix)]
fn shell(line: &str) -> (Command, &'static str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]);
    (shell, "sh")
}

#[cfg(windows)]
fn shell(line: &str) -> (Command, &'static str) {
    use std::os::windows::process::CommandExt;
    let mut shell = Command::new("cmd");
    // The shell splits the line itself, and does not understand the quotes that Rust would add.
    shell.arg("/C").raw_arg(line);
    (shell, "cmd")
}
