//! The options of `creel measure`.

use super::{
    RUNS_MOST,
    plan::{self, Axis},
    report::Plot,
    sample,
};
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use creel_console::duration;
use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Run a command several times and measure its cost
///
/// creel measures wall, user and system time, the peak memory of the whole process tree and context
/// switches. Where the kernel reports them, it also measures migrations, cycles, instructions and
/// energy. Several commands take turns (A B A B …), so that a drift in the speed of the machine
/// affects them equally. Without -n, creel runs the commands until the mean is precise enough.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel measure -- ./render song.vgz
          Measure one command
  creel measure --vs './old song.vgz' --name new --name old -- ./new song.vgz
          Compare two commands
  creel measure --scan jobs=1..8 --prepare 'make clean' --csv runs.csv -- make -j{jobs}
          Measure a command with each value of a parameter
  creel measure --metric 'samples=rendered (\\d+) samples' -- ./render song.vgz
          Also record a number that the command prints
  creel measure --from old.csv new.csv --markdown
          Compare earlier measurements

Exit codes:
  0         success
  1         a command failed; creel prints the runs before it
  2         the command line is wrong
  65        a file is not a measurement
  126, 127  a command cannot be executed, or does not exist
  130, 143  interrupted by Ctrl-C, or terminated by SIGTERM; creel prints the runs before it")]
pub struct MeasureArgs {
    /// Measure each command RUNS times, instead of as often as --within needs
    #[arg(
        short = 'n',
        short_alias = 'r',
        long,
        value_name = "RUNS",
        value_parser = clap::value_parser!(u32).range(1..=RUNS_MOST as i64),
        help_heading = "Number of runs"
    )]
    pub runs: Option<u32>,
    /// Measure each command until the 95 % confidence interval of its mean time is within PERCENT
    /// percent of the mean (only without -n)
    #[arg(
        long,
        default_value_t = 2.0,
        value_name = "PERCENT",
        help_heading = "Number of runs"
    )]
    pub within: f64,
    /// Stop after TIME per command, but run each command at least five times (only without -n)
    #[arg(
        long,
        default_value = "5s",
        value_name = "TIME",
        value_parser = duration::value_parser,
        help_heading = "Number of runs"
    )]
    pub at_most: Duration,
    /// Run each command RUNS times before the measured runs, for example to fill caches
    #[arg(
        short,
        long,
        default_value_t = 0,
        value_name = "RUNS",
        help_heading = "Number of runs"
    )]
    pub warmup: u32,
    /// Compare the first command with COMMAND. The runs of the two commands take turns. Quote
    /// COMMAND as one word, for example --vs './old input' (may be repeated)
    #[arg(long, value_name = "COMMAND", help_heading = "Comparison")]
    pub vs: Vec<String>,
    /// Compare all commands with COMMAND. Its runs take turns with the runs of the other commands.
    /// Quote COMMAND as one word
    #[arg(long, value_name = "COMMAND", help_heading = "Comparison")]
    pub reference: Option<String>,
    /// Use NAME for a command in the tables. Repeat the flag for further commands, in this order:
    /// --reference, COMMAND, each --vs
    #[arg(long, value_name = "NAME", help_heading = "Comparison")]
    pub name: Vec<String>,
    /// Estimate the noise: also compare the first command with itself, and report no difference
    /// that is smaller than this noise
    #[arg(long, help_heading = "Comparison")]
    pub aa: bool,
    /// Replace {NAME} in the commands by each VALUE, for example jobs=1,2,4 (may be repeated)
    #[arg(long, value_name = "NAME=VALUE,…", help_heading = "Comparison")]
    pub matrix: Vec<Axis>,
    /// Replace {NAME} in the commands by each number of the range FROM..TO[:STEP], for example
    /// jobs=1..8 (may be repeated)
    #[arg(
        long,
        value_name = "NAME=RANGE",
        value_parser = plan::scan,
        help_heading = "Comparison"
    )]
    pub scan: Vec<Axis>,
    /// Read the runs from files that --csv has written, instead of running commands. Compare the
    /// first file with the others
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with_all = ["vs", "reference", "matrix", "scan", "csv", "command"],
        help_heading = "Comparison"
    )]
    pub from: Vec<PathBuf>,
    /// Run LINE in a shell before the first run of each command. {NAME} is replaced by the value of
    /// --matrix or --scan, as in the command
    #[arg(long, value_name = "LINE", help_heading = "Around the runs")]
    pub setup: Option<String>,
    /// Run LINE in a shell before each run. The time of LINE is not measured
    #[arg(long, value_name = "LINE", help_heading = "Around the runs")]
    pub prepare: Option<String>,
    /// Run LINE in a shell after the last run of each command
    #[arg(long, value_name = "LINE", help_heading = "Around the runs")]
    pub cleanup: Option<String>,
    /// Wait for TIME before each run, so that the processor cools down
    #[arg(
        long,
        default_value = "0s",
        value_name = "TIME",
        value_parser = duration::value_parser,
        help_heading = "Around the runs"
    )]
    pub cooldown: Duration,
    /// Kill a run that takes longer than TIME, and count it as failed
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration::value_parser,
        help_heading = "Around the runs"
    )]
    pub timeout: Option<Duration>,
    /// Wait up to TIME for processes that the command has started and that are still running after
    /// it, and then end them
    #[arg(
        long,
        default_value = "10s",
        value_name = "TIME",
        value_parser = duration::value_parser,
        help_heading = "Around the runs"
    )]
    pub linger: Duration,
    /// Count failed runs too, instead of stopping at the first one. With CODES, only those with
    /// these exit codes, for example --ignore-failure=1,3
    #[arg(
        short,
        long,
        value_name = "CODES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        help_heading = "Around the runs"
    )]
    pub ignore_failure: Option<Ignored>,
    /// Read the stdin of the command from FILE [default: an empty file]
    #[arg(long, value_name = "FILE", help_heading = "Around the runs")]
    pub input: Option<PathBuf>,
    /// Send the stdout of the command to WHERE: null, pipe (a pipe that creel reads), inherit (the
    /// stdout of creel) or a file [default: null]
    #[arg(
        long,
        value_name = "WHERE",
        conflicts_with_all = ["metric", "show_stdout", "show_output"],
        help_heading = "Around the runs"
    )]
    pub output: Option<Where>,
    /// Run each command as a line of SHELL, for example sh or 'bash -e'
    #[arg(
        short = 'S',
        long,
        value_name = "SHELL",
        help_heading = "Around the runs"
    )]
    pub shell: Option<String>,
    /// Record a number that the command prints as the metric NAME. The number is what the first
    /// group of the regular expression REGEX matches, in the last match in the output
    #[arg(
        long,
        value_name = "NAME=REGEX",
        value_parser = metric,
        help_heading = "Output"
    )]
    pub metric: Vec<(String, Regex)>,
    /// Also write each run as a row of CSV to FILE as soon as the run ends. If FILE is -, write to
    /// stdout and print nothing else
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub csv: Option<PathBuf>,
    /// Append to the CSV file instead of replacing it
    #[arg(long, requires = "csv", help_heading = "Output")]
    pub append: bool,
    /// Continue an interrupted measurement: count the runs that the file of --csv has, and run only
    /// the missing ones
    #[arg(long, requires = "csv", requires = "runs", help_heading = "Output")]
    pub resume: bool,
    /// Add a column KEY with the text VALUE to the CSV file and the tables (may be repeated)
    #[arg(
        long,
        value_name = "KEY=VALUE",
        value_parser = plan::label,
        help_heading = "Output"
    )]
    pub label: Vec<(String, String)>,
    /// Order the commands in the tables: as given, or by their mean time
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "ORDER",
        help_heading = "Output"
    )]
    pub sort: Order,
    /// Print the tables as Markdown
    #[arg(long, help_heading = "Output")]
    pub markdown: bool,
    /// Also draw a chart of the runs
    #[arg(long, value_enum, value_name = "CHART", help_heading = "Output")]
    pub plot: Option<Plot>,
    /// Draw the chart as SVG into FILE. If FILE is -, draw to stdout and print nothing else
    #[arg(long, value_name = "FILE", requires = "plot", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// Show what the command prints on stdout
    #[arg(long, help_heading = "Output")]
    pub show_stdout: bool,
    /// Show what the command prints on stderr
    #[arg(long, help_heading = "Output")]
    pub show_stderr: bool,
    /// Show what the command prints on stdout and stderr
    #[arg(long, help_heading = "Output")]
    pub show_output: bool,
    /// The command and its arguments; creel reads no options after it
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        required_unless_present = "from"
    )]
    pub command: Vec<OsString>,
}

/// The order of the commands in the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// The order on the command line
    #[default]
    Command,
    /// The fastest first
    MeanTime,
}

/// The exit codes that `--ignore-failure` names, or all if the list is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored(Vec<i32>);

impl Ignored {
    /// Returns whether a run with this exit code counts.
    pub fn has(&self, code: i32) -> bool {
        self.has_all() || self.0.contains(&code)
    }

    /// Returns whether all failed runs count, also those that took too long.
    pub fn has_all(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::str::FromStr for Ignored {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if ["all", "all-non-zero"].contains(&text) {
            return Ok(Self(Vec::new()));
        }
        let codes = text.split(',').map(|code| {
            code.trim()
                .parse::<u8>()
                .map(i32::from)
                .with_context(|| format!("`{code}` is not an exit code from 0 to 255"))
        });
        Ok(Self(codes.collect::<Result<_>>()?))
    }
}

/// The destination of the stdout of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Where {
    Null,
    Pipe,
    Inherit,
    File(PathBuf),
}

impl std::str::FromStr for Where {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "null" => Where::Null,
            "pipe" => Where::Pipe,
            "inherit" => Where::Inherit,
            file => Where::File(file.into()),
        })
    }
}

/// Parses the value of `--metric`, for example `samples=(\d+) samples`.
fn metric(text: &str) -> Result<(String, Regex)> {
    let (name, expression) = text
        .split_once('=')
        .context("expected NAME=REGEX, for example 'samples=rendered (\\d+) samples'")?;
    if sample::unit(name) != sample::Unit::Plain || name.is_empty() || name == "exit_code" {
        bail!(
            "cannot use `{name}` as the name of a metric: it is empty, or creel has a column of \
             this name. Use another name"
        );
    }
    let regex = Regex::new(expression)
        .map_err(|error| anyhow!("`{expression}` is not a regular expression: {error}"))?;
    if regex.captures_len() < 2 {
        bail!(
            "the regular expression `{expression}` has no group: put the part that matches the \
             number in parentheses"
        );
    }
    Ok((name.into(), regex))
}
