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
        let status = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::null())
            .stdout(shown(self.args.show_stdout))
            .stderr(shown(self.args.show_stderr))
            .status()
            .context("cannot start the shell `sh`")?;
        if !status.success() {
            bail!("{flag} `{line}` failed: {status} (use --show-output to see its messages)");
        }
        Ok(())
    }
}
