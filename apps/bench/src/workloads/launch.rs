//! Programs with the wrong number of threads, as they are and under `creel run`.
//!
//! `too many`: what a runtime starts that counts a host's CPUs and not those that the program may
//! use. `quota`: what one does that sees no quota, in a control group that has one; only where such
//! a group can be made. The programs are compiled here; without their compiler, or without the
//! tool, there are fewer cases.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::harness::{Case, Metric, Subject};
use crate::host::is_installed;
use crate::quota;
use crate::setting::Setting;
use crate::workloads::Workload;

/// The workload's entry.
pub const WORKLOAD: Workload = Workload {
    name: "launch",
    about: "programs with too many threads, as they are and under creel run",
    cases,
};

/// Threads for each that there is room for, as on a host with so many more CPUs.
const TOO_MANY: usize = 4;

/// A program that sizes itself.
struct Program {
    name: &'static str,
    file: &'static str,
    source: &'static str,
    /// SOURCE and PROGRAM are put in; run in a folder of its own.
    build: &'static [&'static str],
    run: &'static [&'static str],
    /// By which a larger machine is played.
    variable: &'static str,
    /// Before the number in the variable.
    option: &'static str,
}

static PROGRAMS: [Program; 3] = [
    Program {
        name: "OpenMP in lock-step",
        file: "lockstep.c",
        source: include_str!("../../../../docs/examples/lockstep.c"),
        build: &["cc", "-O2", "-fopenmp", "SOURCE", "-o", "PROGRAM"],
        run: &["PROGRAM"],
        variable: "OMP_NUM_THREADS",
        option: "",
    },
    Program {
        name: "Go",
        file: "sums.go",
        source: include_str!("launch/sums.go"),
        build: &["go", "build", "-o", "PROGRAM", "SOURCE"],
        run: &["PROGRAM"],
        variable: "GOMAXPROCS",
        option: "",
    },
    Program {
        name: "Java",
        file: "Sums.java",
        source: include_str!("launch/Sums.java"),
        build: &["javac", "-d", ".", "SOURCE"],
        run: &["java", "-cp", ".", "Sums"],
        variable: "JDK_JAVA_OPTIONS",
        option: "-XX:ActiveProcessorCount=",
    },
];

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    let Some(tool) = tool() else {
        creel_console::output::note(
            "launch: skipped, there is no creel beside this program or in PATH: \
             cargo build --release -p creel-cli\n",
        );
        return Ok(Vec::new());
    };
    let quotas = quota::can_be_set();
    let mut cases = Vec::new();
    for program in &PROGRAMS {
        if !is_installed(program.build[0]) {
            continue;
        }
        let started = |tool: Option<PathBuf>, many: Option<usize>| {
            move |_: &_| program.time(tool.as_deref(), many)
        };
        let many = setting.workers * TOO_MANY;
        let too_many = format!("as it is, {many} threads");
        let subjects = vec![
            Subject::new("creel run", started(Some(tool.clone()), None)),
            Subject::new(too_many, started(None, Some(many))),
        ];
        cases.push(case(program.name.into(), setting, subjects));
        if quotas {
            let cores = setting.workers as f64 / 2.0;
            let subjects = [
                Subject::new("creel run", started(Some(tool.clone()), None)),
                Subject::new("as it is", started(None, None)),
            ];
            let within = subjects.map(|subject| quota::within(subject, cores));
            cases.push(case(
                format!("{} quota", program.name),
                setting,
                within.into(),
            ));
        }
    }
    Ok(cases)
}

fn case(name: String, setting: &Setting, subjects: Vec<Subject>) -> Case {
    Case {
        name,
        metrics: vec![Metric {
            name: "time",
            unit: "ms",
        }],
        compared: true,
        plan: setting.plan(0, 0),
        rounds: setting.rounds(5),
        subjects,
    }
}

/// The tool beside this program, or else in PATH.
fn tool() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name("creel");
    if beside.is_file() {
        return Some(beside);
    }
    let path = std::env::var_os("PATH")?;
    let mut folders = std::env::split_paths(&path).map(|folder| folder.join("creel"));
    folders.find(|file| file.is_file())
}

impl Program {
    /// The folder with the program, built when it is first asked for; `None` if that fails.
    fn built(&'static self) -> Option<PathBuf> {
        static BUILT: Mutex<BTreeMap<&str, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
        let mut built = BUILT.lock().expect("nobody panics holding it");
        built
            .entry(self.name)
            .or_insert_with(|| self.build())
            .clone()
    }

    fn build(&self) -> Option<PathBuf> {
        let name = format!("creel-bench-{}-{}", self.file, std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).ok()?;
        fs::write(folder.join(self.file), self.source).ok()?;
        let words = self.words(self.build, &folder);
        let mut build = Command::new(words.first()?);
        build.args(&words[1..]).current_dir(&folder);
        let status = build
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .ok()?;
        status.success().then_some(folder)
    }

    fn words(&self, words: &[&str], folder: &Path) -> Vec<String> {
        let program = folder.join("program");
        let put_in = |word: &&str| {
            let word = word.replace("PROGRAM", &program.to_string_lossy());
            word.replace("SOURCE", self.file)
        };
        words.iter().map(put_in).collect()
    }

    /// Runs it once, under the tool or as on a machine with `many` CPUs, and gives the ms that took.
    fn time(&'static self, tool: Option<&Path>, many: Option<usize>) -> anyhow::Result<f64> {
        let Some(folder) = self.built() else {
            return Ok(f64::NAN);
        };
        let mut words = self.words(self.run, &folder);
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
        let output = command.output().with_context(|| words.join(" "))?;
        ensure!(
            output.status.success(),
            "{}: {}",
            words.join(" "),
            output.status
        );
        Ok(begin.elapsed().as_secs_f64() * 1e3)
    }
}
