//! Tasks of other languages, if their compilers are installed.
//!
//! Each language has a small program, which we build before its first sample and run for each
//! sample. Its arguments are the case, the size, the number of workers, and the times of warm-up
//! and sample in microseconds. It prints four numbers: the time per unit in ns, the number of
//! passes, and its memory in KiB before the first pass and at its peak (`VmRSS` and `VmHWM`, see
//! proc(5)). All programs have the chain, and the one in Go also has the hop, the spawn-join and
//! the ping-pong.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::cost::{self, Pass, Used};
use super::jobs::Job;
use crate::foreign::Foreign;
use crate::harness::{Plan, Subject};

/// A language whose tasks we compare.
struct Language {
    name: &'static str,
    foreign: Foreign,
    /// The environment variable with the number of workers, if the program has no option for it.
    variable: Option<&'static str>,
    /// The length of the longest chain that the language can run.
    longest: u64,
    /// Whether the program also has the hop, the spawn-join and the ping-pong.
    all_cases: bool,
}

const LANGUAGES: &[Language] = &[
    Language {
        name: "go",
        foreign: Foreign {
            file: "messages.go",
            source: include_str!("languages/messages.go"),
            build: &["go", "build", "-o", "PROGRAM", "SOURCE"],
            run: &["PROGRAM"],
        },
        variable: None,
        longest: u64::MAX,
        all_cases: true,
    },
    Language {
        name: "java virtual threads",
        foreign: Foreign {
            file: "Messages.java",
            source: include_str!("languages/Messages.java"),
            build: &["javac", "-d", ".", "SOURCE"],
            run: &[
                "java",
                "-Djdk.virtualThreadScheduler.parallelism=WORKERS",
                "-cp",
                ".",
                "Messages",
            ],
        },
        variable: None,
        longest: u64::MAX,
        all_cases: false,
    },
    Language {
        name: "ghc forkIO",
        foreign: Foreign {
            file: "Messages.hs",
            source: include_str!("languages/Messages.hs"),
            build: &[
                "ghc",
                "-O2",
                "-threaded",
                "-rtsopts",
                "-o",
                "PROGRAM",
                "SOURCE",
            ],
            run: &["PROGRAM"],
        },
        variable: None,
        longest: u64::MAX,
        all_cases: false,
    },
    Language {
        name: "erlang",
        foreign: Foreign {
            file: "messages.erl",
            source: include_str!("languages/messages.erl"),
            build: &["erlc", "SOURCE"],
            run: &[
                "erl",
                "+S",
                "WORKERS:WORKERS",
                "+P",
                "2000000",
                "-noshell",
                "-run",
                "messages",
                "main",
            ],
        },
        variable: None,
        longest: u64::MAX,
        all_cases: false,
    },
    Language {
        name: "crystal",
        foreign: Foreign {
            file: "messages.cr",
            source: include_str!("languages/messages.cr"),
            build: &[
                "crystal",
                "build",
                "--release",
                "-Dpreview_mt",
                "-o",
                "PROGRAM",
                "SOURCE",
            ],
            run: &["PROGRAM"],
        },
        variable: Some("CRYSTAL_WORKERS"),
        // Crystal 1.6 crashed with a longer chain.
        longest: 30_000,
        all_cases: false,
    },
];

/// Returns the languages that have the job and whose compiler is installed. If `quick`, only Go is
/// left, because the other compilers take longer than the whole run.
pub fn subjects(job: Job, workers: usize, quick: bool) -> Vec<Subject> {
    let (case, size) = match job {
        Job::Chain(length) => ("chain", length),
        Job::Hop(length) => ("hop", length),
        Job::SpawnJoin => ("spawn-join", 0),
        Job::PingPong => ("ping-pong", 0),
        Job::Yield | Job::FanOut(..) | Job::Blocked => return Vec::new(),
    };
    let knows = |language: &&Language| {
        (language.all_cases || (case == "chain" && !quick)) && size <= language.longest
    };
    let known = LANGUAGES.iter().filter(knows);
    let subject = |language: &'static Language| {
        if !language.foreign.has_compiler() {
            return None;
        }
        let name = format!("{} {workers} workers", language.name);
        Some(Subject::with_metrics(name, move |plan: &Plan| {
            // The build fails if the version of the compiler is unsuitable. This should not end the
            // whole run, so we return NaN for all values.
            let Some(folder) = language.foreign.built() else {
                let metrics = if case == "chain" {
                    cost::METRICS.len()
                } else {
                    1
                };
                return Ok(vec![f64::NAN; metrics]);
            };
            let (ns, pass) = language.sample(&folder, &[case, &size.to_string()], workers, plan)?;
            Ok(if case == "chain" {
                pass.values(ns / 1e6, size)
            } else {
                vec![ns]
            })
        }))
    };
    known.filter_map(subject).collect()
}

impl Language {
    /// Runs the program. Returns the time per unit in ns, and the costs of a pass.
    fn sample(
        &self,
        folder: &Path,
        job: &[&str],
        workers: usize,
        plan: &Plan,
    ) -> anyhow::Result<(f64, Pass)> {
        let words = self.foreign.run(folder, workers);
        let microseconds = |time: std::time::Duration| time.as_micros().to_string();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(folder);
        if let Some(variable) = self.variable {
            command.env(variable, workers.to_string());
        }
        command.args(job).arg(workers.to_string());
        command.args([microseconds(plan.warm_up), microseconds(plan.sample)]);
        let before = Used::by_children();
        let output = command.stderr(Stdio::null()).output()?;
        let used = Used::by_children() - before;
        ensure!(
            output.status.success(),
            "the program in {} failed",
            self.name
        );
        let text = String::from_utf8(output.stdout)?;
        let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
        let numbers = numbers
            .with_context(|| format!("cannot read the output of the program in {}", self.name))?;
        let [ns, passes, before_kib, peak_kib] = numbers[..] else {
            anyhow::bail!(
                "the program in {} printed something other than four numbers: {text}",
                self.name
            );
        };
        let bytes = (peak_kib - before_kib) * 1024.0;
        Ok((ns, Pass::of(used, passes, bytes)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn installed_languages_run_the_chain() {
        let plan = Plan {
            warm_up: Duration::ZERO,
            sample: Duration::from_millis(1),
            overhead: Duration::ZERO,
        };
        let mut found = Vec::new();
        // We skip Crystal, because its compiler takes a minute.
        for language in LANGUAGES
            .iter()
            .filter(|language| language.name != "crystal")
        {
            let Some(folder) = language.foreign.built() else {
                continue;
            };
            let (ns, _) = language
                .sample(&folder, &["chain", "100"], 1, &plan)
                .unwrap();
            assert!(ns > 0.0, "{}", language.name);
            found.push(language.name);
        }
        println!("installed: {}", found.join(", "));
    }
}
