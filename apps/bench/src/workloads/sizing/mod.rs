//! Programs with the wrong number of threads, as they are and under `creel run`.
//!
//! In the cases without a suffix, a program has four times as many threads as it should. A runtime
//! starts that many if it counts the CPUs of a host, and the program may use only a quarter of
//! them.
//!
//! In the cases `… quota`, a program runs in a control group with a quota, which its runtime may
//! not see. These cases exist only if we can create a control group. The programs work for about a
//! second there, because a program that ends within the quota's period of 100 ms may never be
//! stopped.
//!
//! In the cases `… neighbours`, a program runs next to threads that compute and sleep in turn, like
//! compilers. They use all CPUs. Threads that spin while they wait for each other are then slow.
//!
//! We compile the programs here. Without a compiler or without `creel`, there are fewer cases.

mod service;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::foreign::Foreign;
use crate::harness::{Case, Metric, Subject};
use crate::neighbours::with_neighbours;
use crate::quota;
use crate::setting::Setting;
use crate::workloads::Workload;

/// The workload `sizing`.
pub const WORKLOAD: Workload = Workload {
    name: "sizing",
    about: "programs with too many threads, as they are and under creel run",
    cases,
};

/// The number of threads per available CPU, as if the host had this many times as many CPUs.
const TOO_MANY: usize = 4;

/// The command that builds a Haskell program whose runtime counts the CPUs.
const GHC: &[&str] = &[
    "ghc",
    "-O1",
    "-threaded",
    "-rtsopts",
    "-with-rtsopts=-N",
    "SOURCE",
    "-o",
    "PROGRAM",
];

/// A program whose runtime chooses the number of threads itself.
struct Program {
    name: &'static str,
    foreign: Foreign,
    /// The environment variable that sets the number of threads, as on a larger machine.
    variable: &'static str,
    /// The text before the number in the variable, for example an option of the runtime.
    option: &'static str,
    /// The factor of the work in the case with a quota.
    under_quota: &'static str,
}

static PROGRAMS: [Program; 4] = [
    Program {
        name: "OpenMP in lock-step",
        foreign: Foreign {
            file: "lockstep.c",
            source: include_str!("../../../../../docs/examples/lockstep.c"),
            build: &["cc", "-O2", "-fopenmp", "SOURCE", "-o", "PROGRAM"],
            run: &["PROGRAM"],
        },
        variable: "OMP_NUM_THREADS",
        option: "",
        under_quota: "20",
    },
    Program {
        name: "Go",
        foreign: Foreign {
            file: "sums.go",
            source: include_str!("sums.go"),
            build: &["go", "build", "-o", "PROGRAM", "SOURCE"],
            run: &["PROGRAM"],
        },
        variable: "GOMAXPROCS",
        option: "",
        under_quota: "5",
    },
    Program {
        name: "Java",
        foreign: Foreign {
            file: "Sums.java",
            source: include_str!("Sums.java"),
            build: &["javac", "-d", ".", "SOURCE"],
            run: &["java", "-cp", ".", "Sums"],
        },
        variable: "JDK_JAVA_OPTIONS",
        option: "-XX:ActiveProcessorCount=",
        under_quota: "1",
    },
    Program {
        name: "Haskell",
        foreign: Foreign {
            file: "Sums.hs",
            source: include_str!("Sums.hs"),
            build: GHC,
            run: &["PROGRAM"],
        },
        variable: "GHCRTS",
        option: "-N",
        under_quota: "16",
    },
];

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    let Some(tool) = find_program("creel") else {
        creel_console::output::note(
            "creel-bench: skipped sizing, because there is no program `creel` next to this one or in \
             PATH: cargo build --release -p creel-cli\n",
        );
        return Ok(Vec::new());
    };
    let quotas = quota::can_be_set();
    let mut cases = Vec::new();
    for program in &PROGRAMS {
        if !program.foreign.has_compiler() {
            continue;
        }
        let started = |tool: Option<PathBuf>, many: Option<usize>, times: &'static str| {
            move |_: &_| program.time(tool.as_deref(), many, times)
        };
        let many = setting.workers * TOO_MANY;
        let too_many = format!("as it is, {many} threads");
        let subjects = vec![
            Subject::new("creel run", started(Some(tool.clone()), None, "1")),
            Subject::new(too_many, started(None, Some(many), "1")),
        ];
        cases.push(case(program.name.into(), setting, subjects, 500));
        let crowded = [
            Subject::new("creel run", started(Some(tool.clone()), None, "1")),
            Subject::new(
                format!("as it is, {many} threads"),
                started(None, Some(many), "1"),
            ),
        ];
        let crowded = crowded.map(|subject| with_neighbours(subject, setting.workers * 2));
        cases.push(case(
            format!("{} neighbours", program.name),
            setting,
            crowded.into(),
            1_000,
        ));
        if quotas {
            let cores = setting.workers as f64 / 2.0;
            let times = program.under_quota;
            let subjects = [
                Subject::new("creel run", started(Some(tool.clone()), None, times)),
                Subject::new("as it is", started(None, None, times)),
            ];
            let within = subjects.map(|subject| quota::within(subject, cores));
            cases.push(case(
                format!("{} quota", program.name),
                setting,
                within.into(),
                1_000,
            ));
        }
    }
    cases.extend(service::cases(setting, &tool));
    Ok(cases)
}

/// Returns a case with programs that take about `takes_ms`.
fn case(name: String, setting: &Setting, subjects: Vec<Subject>, takes_ms: u64) -> Case {
    Case {
        name,
        metrics: vec![Metric {
            name: "time",
            unit: "ms",
        }],
        compared: true,
        plan: setting.plan(0, 0).with_overhead_ms(takes_ms),
        rounds: setting.rounds(4),
        subjects,
    }
}

/// Returns the path of another program of this project: next to this one, or in PATH.
fn find_program(name: &str) -> Option<PathBuf> {
    let sibling = std::env::current_exe().ok()?.with_file_name(name);
    if sibling.is_file() {
        return Some(sibling);
    }
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

impl Program {
    /// Runs the program once, and returns the time in ms.
    ///
    /// With `tool`, it runs under `creel run`. With `many`, it gets this number of threads. `times`
    /// is the factor of its work.
    fn time(
        &'static self,
        tool: Option<&Path>,
        many: Option<usize>,
        times: &str,
    ) -> anyhow::Result<f64> {
        let Some(folder) = self.foreign.built() else {
            return Ok(f64::NAN);
        };
        let mut words = self.foreign.run(&folder, 1);
        words.push(times.into());
        if let Some(tool) = tool {
            let run = [
                tool.to_string_lossy().into_owned(),
                "run".into(),
                "-q".into(),
                "--".into(),
            ];
            words.splice(0..0, run);
        }
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .current_dir(folder)
            .env_remove(self.variable);
        if let Some(many) = many {
            command.env(self.variable, format!("{}{many}", self.option));
        }
        let begin = Instant::now();
        let output = command
            .output()
            .with_context(|| format!("cannot run {}", words.join(" ")))?;
        ensure!(
            output.status.success(),
            "{} failed: {}",
            words.join(" "),
            output.status
        );
        Ok(begin.elapsed().as_secs_f64() * 1e3)
    }
}
