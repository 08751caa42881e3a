//! The workloads. To add one, add its module here and its entry to [`ALL`].

mod decode;
#[cfg(target_os = "linux")]
mod gstreamer;
mod loops;
mod messages;
mod programs;
pub mod render;
#[cfg(target_os = "linux")]
pub mod serve;
#[cfg(target_os = "linux")]
mod sizing;
mod streams;
mod traffic;

use std::path::Path;
use std::process::Command;

use clap::builder::PossibleValue;
use creel_console::{Exit, Failure};

use crate::harness::Case;
use crate::setting::Setting;

/// A kind of work that programs do. It has several cases.
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// Returns the cases for a setting. The most important case comes first.
    pub cases: fn(&Setting) -> anyhow::Result<Vec<Case>>,
}

/// All workloads, in the order in which they run.
pub const ALL: &[Workload] = &[
    loops::WORKLOAD,
    programs::WORKLOAD,
    render::WORKLOAD,
    messages::WORKLOAD,
    streams::WORKLOAD,
    #[cfg(target_os = "linux")]
    serve::WORKLOAD,
    traffic::WORKLOAD,
    decode::WORKLOAD,
    #[cfg(target_os = "linux")]
    sizing::WORKLOAD,
    #[cfg(target_os = "linux")]
    gstreamer::WORKLOAD,
];

/// Workloads that need Linux: `serve` has a client on epoll, `sizing` uses `creel run`, and the
/// program of `gstreamer` reads `/proc`. Other systems leave them out and say so.
pub const LINUX_ONLY: &[&str] = &["serve", "sizing", "gstreamer"];

/// Workloads that run only if the command line names a workload or a case, because each of them
/// takes minutes.
pub const OPT_IN: &[&str] = &["programs", "gstreamer"];

/// Cases that run only if the command line names them.
///
/// Some of them repeat measurements that others have published. The results of the rest have always
/// agreed with those of similar cases.
pub const OPT_IN_CASES: &[&str] = &[
    "article",
    "two systems",
    "spawn-join oversubscribed",
    "spawn-join busy",
    "ping-pong oversubscribed",
    "ping-pong busy",
    "grain 300 ns",
    "grain 3000 ns",
    "1000",
    "500",
    "500 on one worker",
    "50 of 2 MB on one worker",
    "f32 2048",
];

/// The most important cases of each workload. A run without arguments measures these.
const QUICK_CASES: &[(&str, &[&str])] = &[
    (
        "loops",
        &["hot", "frame", "uneven", "hog", "oversubscribed"],
    ),
    ("render", &["jobs {n}"]),
    ("messages", &["chain", "hop", "channel"]),
    ("streams", &["4000"]),
    ("serve", &["50"]),
    ("traffic", &["run"]),
    ("decode", &["q8 1024"]),
    ("sizing", &["OpenMP in lock-step"]),
];

/// Returns the most important cases of a workload.
pub fn quick_cases(workload: &str, setting: &Setting) -> Vec<String> {
    let cases = QUICK_CASES.iter().find(|(name, _)| *name == workload);
    let fill = |case: &&str| case.replace("{n}", &setting.workers.to_string());
    cases.map_or(Vec::new(), |(_, cases)| cases.iter().map(fill).collect())
}

/// Checks whether a Python has one of the simulators that are peers of `traffic`.
///
/// # Errors
///
/// Returns an error with the reason if the program cannot be started, or if it has none of them.
pub fn has_simulators(python: &Path) -> anyhow::Result<()> {
    let asks = "from importlib.util import find_spec as has
assert has('uxsim') or has('sumo'), 'it has neither uxsim nor sumo'";
    let why = match Command::new(python).args(["-c", asks]).output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            text.lines()
                .last()
                .unwrap_or("the interpreter reported no reason")
                .to_owned()
        }
        Err(error) => error.to_string(),
    };
    let message = format!(
        "cannot use the simulators of {}: {why}. Install them with `{0} -m pip install uxsim \
         eclipse-sumo`",
        python.display()
    );
    Err(Failure::new(Exit::Usage, message).into())
}

/// Returns the names of all workloads.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|workload| workload.name).collect()
}

/// The former names of workloads. An entry is the former name and the current name.
///
/// The command line accepts a former name for one more version. Reports keep the former names,
/// because docs/schema.md promises that a printed value does not change.
const FORMER_NAMES: &[(&str, &str)] = &[
    ("iterate", "loops"),
    ("whispers", "messages"),
    ("launch", "sizing"),
];

/// Returns the current name of a workload, given its current or its former name.
pub fn current_name(name: &str) -> &str {
    let mut names = FORMER_NAMES.iter();
    names
        .find(|(former, _)| *former == name)
        .map_or(name, |(_, current)| current)
}

/// Returns the name of a workload in JSON and CSV.
pub fn schema_name(name: &str) -> &str {
    let mut names = FORMER_NAMES.iter();
    names
        .find(|(_, current)| *current == name)
        .map_or(name, |(former, _)| former)
}

/// Returns the values of `--only`. Former names are hidden aliases.
pub fn possible_values() -> Vec<PossibleValue> {
    let value = |workload: &Workload| {
        let value = PossibleValue::new(workload.name);
        match schema_name(workload.name) {
            former if former != workload.name => value.alias(former),
            _ => value,
        }
    };
    ALL.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_cases_and_findings_name_existing_cases() {
        let setting = Setting::of_tests();
        let asked = crate::report::findings::asked(&setting);
        for workload in ALL {
            let cases = (workload.cases)(&setting).unwrap();
            if cases.is_empty() {
                // A workload has no cases if the programs that it measures are not installed.
                continue;
            }
            let there = |name: &str| cases.iter().any(|case| case.name == name);
            for case in quick_cases(workload.name, &setting) {
                assert!(there(&case), "{}: {case}", workload.name);
            }
            for (_, case) in asked.iter().filter(|(name, _)| *name == workload.name) {
                assert!(there(case), "{}: {case}", workload.name);
            }
        }
    }
}
