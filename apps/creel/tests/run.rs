//! `creel run` against the real thing: each runtime that is installed is asked how many threads
//! it will use, free, under a mask and under an outer cgroup's quota.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

const CREEL: &str = env!("CARGO_BIN_EXE_creel");

fn source(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtimes");
    tests.join(name)
}

/// Runs a command to its end; `None`, with a word on stderr, if there is no such program.
fn output(command: &mut Command) -> Option<Output> {
    let output = command.output();
    if output.is_err() {
        eprintln!(
            "skipped: {} is not installed",
            command.get_program().display()
        );
    }
    output.ok()
}

/// Builds a program; `None` if its compiler is not installed.
fn built(compiler: &str, args: &[&str], into: &Path) -> Option<PathBuf> {
    let mut command = Command::new(compiler);
    let output = output(command.args(args).current_dir(into))?;
    assert!(output.status.success(), "{command:?}: {output:?}");
    Some(into.join("cpu"))
}

/// A program that prints the number of threads that its runtime chose.
struct Asked {
    name: &'static str,
    command: Vec<String>,
}

/// Every runtime that is installed here.
fn installed(folder: &Path) -> Vec<Asked> {
    let text = |path: PathBuf| path.display().to_string();
    let mut all = Vec::new();
    let mut add = |name, command: Option<Vec<String>>| {
        all.extend(command.map(|command| Asked { name, command }));
    };
    let sub = |name: &str| {
        let folder = folder.join(name);
        fs::create_dir(&folder).unwrap();
        folder
    };
    let (c, go) = (text(source("cpu.c")), text(source("cpu.go")));
    let openmp = built("cc", &["-fopenmp", "-o", "cpu", &c], &sub("openmp"));
    add("OpenMP", openmp.map(|p| vec![text(p)]));
    let go = built("go", &["build", "-o", "cpu", &go], &sub("go"));
    add("Go", go.map(|p| vec![text(p)]));
    for (name, options) in [
        ("GHC, default options", &[][..]),
        ("GHC, all options", &["-rtsopts"]),
        ("GHC, its own -N", &["-with-rtsopts=-N"]),
        ("GHC, stripped", &["-optl-s"]),
    ] {
        add(name, haskell(folder, name, options).map(|p| vec![text(p)]));
    }
    let known = |program: &str, arg: &str| output(Command::new(program).arg(arg)).is_some();
    if known("java", "-version") {
        add("Java", Some(vec!["java".into(), text(source("Cpu.java"))]));
    }
    if known("erl", "-version") {
        let ask = "io:format(\"~p~n\",[erlang:system_info(schedulers_online)]),halt().";
        let erl = ["erl", "-noshell", "-eval", ask].map(String::from);
        add("Erlang", Some(erl.into()));
    }
    let numpy = Command::new("/usr/bin/python3")
        .arg(source("cpu.py"))
        .output();
    match numpy {
        Ok(out) if out.status.success() && !out.stdout.starts_with(b"no") => {
            let python = ["/usr/bin/python3".into(), text(source("cpu.py"))];
            add("Python with numpy", Some(python.into()));
        }
        _ => eprintln!("skipped: numpy with OpenBLAS is not installed"),
    }
    all
}

fn haskell(folder: &Path, name: &str, options: &[&str]) -> Option<PathBuf> {
    let own = folder.join(name);
    fs::create_dir(&own).unwrap();
    let hs = source("cpu.hs").display().to_string();
    let fixed = ["-v0", "-threaded", "-outputdir", ".", "-o", "cpu", &hs];
    built("ghc", &[&fixed[..], options].concat(), &own)
}

/// What a program prints that is started by `creel run` below `wrapper`.
fn answer(wrapper: &[&str], options: &[&str], asked: &Asked) -> String {
    let mut words: Vec<&str> = wrapper.to_vec();
    words.extend([CREEL, "run"]);
    words.extend(options);
    words.push("--");
    words.extend(asked.command.iter().map(String::as_str));
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{}: {output:?}", asked.name);
    String::from_utf8(output.stdout).unwrap().trim().into()
}

#[test]
fn every_runtime_gets_the_budget() {
    let folder = TempDir::new().unwrap();
    let runtimes = installed(folder.path());
    let cpus = std::thread::available_parallelism().unwrap().to_string();
    let quota = Quota::of_one_cpu();
    for asked in &runtimes {
        // What the machine offers, unless SMT makes fewer cores of it.
        if creel_topology_has_no_smt() {
            assert_eq!(answer(&[], &[], asked), cpus, "{}, free", asked.name);
        }
        let masked = answer(&["taskset", "-c", "0"], &[], asked);
        assert_eq!(masked, "1", "{}, under a mask", asked.name);
        assert_eq!(
            answer(&[], &["--cpus", "0"], asked),
            "1",
            "{}, --cpus",
            asked.name
        );
        if let Some(quota) = &quota {
            let within = answer(&quota.enter(), &[], asked);
            // Go's least under a quota is one too once it is told.
            assert_eq!(within, "1", "{}, under an outer quota", asked.name);
        }
    }
    assert!(!runtimes.is_empty(), "at least a C compiler is there");
}

/// Whether every core here has one PU.
fn creel_topology_has_no_smt() -> bool {
    let machine = creel_topology::Machine::detect().unwrap();
    machine.cores().iter().all(|core| core.pus.len() == 1)
}

/// Two nested cgroups, the outer with a quota of one CPU, removed when dropped.
struct Quota {
    outer: PathBuf,
}

impl Quota {
    /// `None`, with a word on stderr, where the host does not let us make one.
    fn of_one_cpu() -> Option<Self> {
        let name = format!("creel-run-{}", std::process::id());
        for (mount, file, value) in [
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000"),
            ("/sys/fs/cgroup", "cpu.max", "100000 100000"),
        ] {
            let outer = Path::new(mount).join(&name);
            if !Path::new(mount).join("cgroup.procs").exists() || fs::create_dir(&outer).is_err() {
                continue;
            }
            let quota = Quota { outer };
            let limited = fs::write(quota.outer.join(file), value).is_ok();
            if limited && fs::create_dir(quota.inner()).is_ok() {
                return Some(quota);
            }
        }
        eprintln!("skipped: this host lets nobody make a cgroup with a quota");
        None
    }

    fn inner(&self) -> PathBuf {
        self.outer.join("inner")
    }

    /// The words that put what follows them into the inner group.
    fn enter(&self) -> Vec<&str> {
        const SCRIPT: &str = "echo $$ > \"$0/inner/cgroup.procs\" && exec \"$@\"";
        vec!["sh", "-c", SCRIPT, self.outer.to_str().unwrap()]
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.inner());
        let _ = fs::remove_dir(&self.outer);
    }
}

#[test]
fn a_haskell_program_without_threads_still_runs() {
    let folder = TempDir::new().unwrap();
    let hs = source("cpu.hs").display().to_string();
    for options in [&["-rtsopts"][..], &["-optl-s"]] {
        let own = folder.path().join(options[0]);
        fs::create_dir(&own).unwrap();
        let fixed = ["-v0", "-outputdir", ".", "-o", "cpu", &hs];
        let Some(program) = built("ghc", &[&fixed[..], options].concat(), &own) else {
            return;
        };
        let plain = Asked {
            name: "GHC, non-threaded",
            command: vec![program.display().to_string()],
        };
        assert_eq!(answer(&[], &["--jobs", "2"], &plain), "1");
    }
}

#[test]
fn java_prints_what_it_prints_alone() {
    let version = |command: &mut Command| output(command.args(["-version"]));
    let (Some(alone), Some(ours)) = (
        version(&mut Command::new("java")),
        version(Command::new(CREEL).args(["run", "--jobs", "1", "--", "java"])),
    ) else {
        return;
    };
    if alone.status.success() {
        assert_eq!((ours.stdout, ours.stderr), (alone.stdout, alone.stderr));
    }
}

#[test]
fn exit_codes_signals_and_the_users_own_settings_are_untouched() {
    let run = |words: &[&str]| {
        let mut command = Command::new(CREEL);
        command.arg("run").args(words).env("OMP_NUM_THREADS", "7");
        command.output().unwrap()
    };
    assert_eq!(run(&["--", "sh", "-c", "exit 42"]).status.code(), Some(42));
    let killed = run(&["--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.status.signal(), Some(15));
    let pid = run(&["--", "sh", "-c", "echo $OMP_NUM_THREADS"]);
    assert_eq!(pid.stdout, b"7\n");
    let told = run(&["--explain", "--dry-run", "--", "sh"]);
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("kept:     OMP_NUM_THREADS=7: you have set it") || !text.contains("OMP"));
}

#[test]
fn bad_wishes_are_named() {
    let fails = |words: &[&str], code: i32, text: &str| {
        let output = Command::new(CREEL).arg("run").args(words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(text), "{words:?}: {said}");
    };
    fails(&["--", "no-such-program"], 127, "no-such-program");
    fails(&["--", "/etc/passwd"], 126, "/etc/passwd");
    fails(
        &["--cpus", "0-16000", "--", "true"],
        2,
        "may not be used here",
    );
    fails(&["--cpus", "3-1", "--", "true"], 2, "3-1");
    fails(&["--jobs", "0", "--", "true"], 2, "1 to 65535");
    fails(&["--placement", "nowhere", "--", "true"], 2, "nowhere");
    fails(&[], 2, "PROGRAM");
}
