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
    /// Options for `creel run` that this runtime needs.
    options: &'static [&'static str],
    command: Vec<String>,
}

/// A line of words.
type Words = &'static [&'static str];

/// Interpreters and tools that answer by themselves: name, options, a command to see whether
/// they are there, the command that asks.
const ASKING: [(&str, Words, Words, Words); 14] = [
    (
        "Erlang",
        &[],
        &["erl", "-version"],
        &[
            "erl",
            "-noshell",
            "-eval",
            "io:format(\"~p~n\",[erlang:system_info(schedulers_online)]),halt().",
        ],
    ),
    (
        "Erlang through wrappers",
        &[],
        &["erl", "-version"],
        &[
            "env",
            "A=1",
            "nice",
            "-n",
            "1",
            "timeout",
            "60",
            "erl",
            "-noshell",
            "-eval",
            "io:format(\"~p~n\",[erlang:system_info(schedulers_online)]),halt().",
        ],
    ),
    (
        "Elixir",
        &[],
        &["elixir", "-v"],
        &["elixir", "-e", "IO.puts(System.schedulers_online())"],
    ),
    (
        "R",
        &[],
        &["Rscript", "--version"],
        &[
            "Rscript",
            "-e",
            "library(parallel);cat(getOption('mc.cores'))",
        ],
    ),
    (
        "R inside a shell",
        &[],
        &["Rscript", "--version"],
        &[
            "sh",
            "-c",
            "cd / && Rscript -e \"cat(Sys.getenv('R_DATATABLE_NUM_THREADS'))\"",
        ],
    ),
    (
        "Python's cpu_count",
        &["--shim"],
        &["/usr/bin/python3", "-V"],
        &["/usr/bin/python3", "-c", "import os; print(os.cpu_count())"],
    ),
    (
        "Python 3.13's cpu_count",
        &[],
        &["python3.13", "-V"],
        &["python3.13", "-c", "import os; print(os.cpu_count())"],
    ),
    (
        "Ruby",
        &["--shim"],
        &["ruby", "-v"],
        &["ruby", "-retc", "-e", "puts Etc.nprocessors"],
    ),
    (
        "Node",
        &["--shim"],
        &["node", "-v"],
        &["node", "-p", "os.availableParallelism()"],
    ),
    (
        "Guile",
        &["--shim"],
        &["guile", "-v"],
        &[
            "guile",
            "-c",
            "(use-modules (ice-9 threads)) (display (current-processor-count))",
        ],
    ),
    (
        "Perl",
        &["--shim"],
        &["perl", "-v"],
        &["perl", "-MPOSIX", "-e", "print POSIX::sysconf(84)"],
    ),
    (
        "Julia",
        &["--shim"],
        &["julia", "-v"],
        &["julia", "-t", "auto", "-e", "print(Threads.nthreads())"],
    ),
    ("nproc", &[], &["nproc"], &["nproc"]),
    (
        "getconf",
        &["--shim"],
        &["getconf", "_NPROCESSORS_ONLN"],
        &["getconf", "_NPROCESSORS_ONLN"],
    ),
];

/// Every runtime that is installed here.
fn installed(folder: &Path) -> Vec<Asked> {
    let text = |path: PathBuf| path.display().to_string();
    let mut all = Vec::new();
    let mut add = |name, options, command: Option<Vec<String>>| {
        all.extend(command.map(|command| Asked {
            name,
            options,
            command,
        }));
    };
    let sub = |name: &str| {
        let folder = folder.join(name);
        fs::create_dir(&folder).unwrap();
        folder
    };
    let (c, go) = (text(source("cpu.c")), text(source("cpu.go")));
    let openmp = built("cc", &["-fopenmp", "-o", "cpu", &c], &sub("openmp"));
    add("OpenMP", &[][..], openmp.map(|p| vec![text(p)]));
    let go = built("go", &["build", "-o", "cpu", &go], &sub("go"));
    add("Go", &[], go.map(|p| vec![text(p)]));
    let (cpp, tbb) = (text(source("cpu.cpp")), text(source("tbb.cpp")));
    let cpp = built("c++", &["-pthread", "-o", "cpu", &cpp], &sub("cpp"));
    add("C++", &["--shim"], cpp.map(|p| vec![text(p)]));
    if Path::new("/usr/include/tbb/info.h").exists() {
        let tbb = built("c++", &["-o", "cpu", &tbb, "-ltbb"], &sub("tbb"));
        add("TBB", &["--shim"], tbb.map(|p| vec![text(p)]));
    }
    let rust = text(source("cpu.rs"));
    let rust = built("rustc", &["-o", "cpu", &rust], &sub("rust"));
    add("Rust", &[], rust.map(|p| vec![text(p)]));
    for (name, options) in [
        ("GHC, default options", &["-with-rtsopts=-N"][..]),
        ("GHC, all options", &["-rtsopts", "-with-rtsopts=-N"]),
        // Stripped, it takes nothing from us that could be one option too many.
        ("GHC, stripped", &["-optl-s", "-with-rtsopts=-N"]),
    ] {
        add(
            name,
            if name.ends_with("stripped") {
                &["--shim"]
            } else {
                &[][..]
            },
            haskell(folder, name, options).map(|p| vec![text(p)]),
        );
    }
    let crystal = text(source("cpu.cr"));
    let crystal = built(
        "crystal",
        &["build", "-o", "cpu", &crystal],
        &sub("crystal"),
    );
    add("Crystal", &[], crystal.map(|p| vec![text(p)]));
    let known = |command: &[&str]| output(Command::new(command[0]).args(&command[1..])).is_some();
    if known(&["java", "-version"]) {
        let java = text(source("Cpu.java"));
        add("Java", &[], Some(vec!["java".into(), java.clone()]));
        let script = format!("true; exec java {java}");
        let shell = ["sh", "-c", &script].map(String::from);
        add("Java inside a shell", &[], Some(shell.into()));
    }
    if known(&["mcs", "--version"]) {
        let (cs, out) = (text(source("cpu.cs")), sub("mono").join("cpu.exe"));
        let out_option = format!("-out:{}", out.display());
        assert!(known(&["mcs", &out_option, &cs]));
        add("Mono", &["--shim"], Some(vec!["mono".into(), text(out)]));
    }
    for (name, options, probe, command) in ASKING {
        if known(probe) {
            let command = command.iter().map(|word| (*word).to_owned());
            add(name, options, Some(command.collect()));
        }
    }
    let numpy = Command::new("/usr/bin/python3")
        .arg(source("cpu.py"))
        .output();
    match numpy {
        Ok(out) if out.status.success() && !out.stdout.starts_with(b"no") => {
            let python = ["/usr/bin/python3".into(), text(source("cpu.py"))];
            add("Python with numpy", &[], Some(python.into()));
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
    words.extend(asked.options);
    words.push("--");
    words.extend(asked.command.iter().map(String::as_str));
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{}: {output:?}", asked.name);
    String::from_utf8(output.stdout).unwrap().trim().into()
}

#[test]
fn every_runtime_gets_the_budget() {
    let folder = TempDir::new().unwrap();
    let mut runtimes = installed(folder.path());
    if !shim_is_beside() {
        eprintln!("skipped: the shim is not built beside the program");
        runtimes.retain(|asked| !asked.options.contains(&"--shim"));
    }
    // A name that is found may still be a stand-in for what is not installed.
    runtimes.retain(|asked| {
        let plain = Command::new(&asked.command[0])
            .args(&asked.command[1..])
            .output();
        let runs = plain.is_ok_and(|output| output.status.success());
        if !runs {
            eprintln!("skipped: {} does not run here", asked.name);
        }
        runs
    });
    let cpus = std::thread::available_parallelism().unwrap().to_string();
    let quota = Quota::of_one_cpu();
    let ask = |asked: &Asked| {
        // What the machine offers, unless SMT makes fewer cores of it.
        if creel_topology_has_no_smt() {
            assert_eq!(answer(&[], &[], asked), cpus, "{}, free", asked.name);
        }
        let masked = answer(&["taskset", "-c", "0"], &[], asked);
        assert_eq!(masked, "1", "{}, under a mask", asked.name);
        assert_eq!(
            answer(&[], &["--cpu-list", "0"], asked),
            "1",
            "{}, --cpu-list",
            asked.name
        );
        if let Some(quota) = &quota {
            // One budget, one answer, whoever has set the quota.
            for (whose, group) in [("own", "."), ("outer", "inner")] {
                let within = answer(&quota.enter(group), &[], asked);
                assert_eq!(within, "1", "{}, under an {whose} quota", asked.name);
            }
        }
    };
    // Most of the time is that of their start.
    for some in runtimes.chunks(4) {
        std::thread::scope(|s| {
            for asked in some {
                s.spawn(|| ask(asked));
            }
        });
    }
    eprintln!("asked {} runtimes", runtimes.len());
    assert!(!runtimes.is_empty(), "at least a C compiler is there");
}

/// Puts the preload library, where cargo has built it, beside the program.
fn shim_is_beside() -> bool {
    let folder = Path::new(CREEL).parent().unwrap();
    let (built, beside) = (folder.join("deps"), folder.join("libcreel_shim.so"));
    let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let entries = fs::read_dir(built).into_iter().flatten().flatten();
    let ours = entries.filter(|e| name(e).starts_with("libcreel_shim") && name(e).ends_with(".so"));
    let newest = ours.max_by_key(|entry| entry.metadata().and_then(|m| m.modified()).ok());
    if let Some(newest) = newest.filter(|_| !beside.exists()) {
        fs::copy(newest.path(), &beside).unwrap();
    }
    beside.exists()
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
        use std::sync::atomic::{AtomicUsize, Ordering};
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("creel-run-{}-{number}", std::process::id());
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

    /// Makes a tenth of a CPU of it, which is used up however busy the machine is.
    fn tighten(&self) {
        let v1 = fs::write(self.outer.join("cpu.cfs_quota_us"), "10000");
        v1.or_else(|_| fs::write(self.outer.join("cpu.max"), "10000 100000"))
            .unwrap();
    }

    /// Takes the quota away.
    fn lift(&self) {
        let v1 = fs::write(self.outer.join("cpu.cfs_quota_us"), "-1");
        v1.or_else(|_| fs::write(self.outer.join("cpu.max"), "max"))
            .unwrap();
    }

    /// Whether no quota binds this process itself.
    fn none_here() -> bool {
        let machine = creel_topology::Machine::detect().unwrap();
        let budget = creel_topology::Budget::of(&machine);
        let kinds = budget.limits().iter().map(|limit| limit.kind);
        !kinds
            .into_iter()
            .any(|kind| kind == creel_topology::LimitKind::Quota)
    }

    fn inner(&self) -> PathBuf {
        self.outer.join("inner")
    }

    /// The words that put what follows them into the inner group, or into the outer one: `.`.
    fn enter(&self, group: &'static str) -> Vec<&str> {
        let script = match group {
            "." => "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"",
            _ => "echo $$ > \"$0/inner/cgroup.procs\" && exec \"$@\"",
        };
        vec!["sh", "-c", script, self.outer.to_str().unwrap()]
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.inner());
        let _ = fs::remove_dir(&self.outer);
    }
}

#[test]
fn haskell_programs_of_every_kind_run_as_they_would() {
    let folder = TempDir::new().unwrap();
    let hs = source("cpu.hs").display().to_string();
    let build = |name: &str, options: &[&str]| {
        let own = folder.path().join(name);
        fs::create_dir(&own).unwrap();
        let fixed = ["-v0", "-outputdir", ".", "-o", "cpu", &hs];
        built("ghc", &[&fixed[..], options].concat(), &own)
    };
    let plain = build("plain", &["-rtsopts"]);
    let stripped = build("stripped", &["-optl-s"]);
    let threaded = build("threaded", &["-threaded", "-rtsopts"]);
    let (Some(plain), Some(stripped), Some(threaded)) = (plain, stripped, threaded) else {
        return;
    };
    let asked = |name, command: &[&PathBuf]| Asked {
        name,
        options: &[],
        command: command.iter().map(|w| w.display().to_string()).collect(),
    };
    for program in [&plain, &stripped] {
        let alone = asked("non-threaded", &[program]);
        assert_eq!(answer(&[], &["--jobs", "2"], &alone), "1");
    }
    // What a program chose itself is not raised; what is asked for is.
    let one = asked("threaded without -N", &[&threaded]);
    assert_eq!(answer(&[], &[], &one), "1");
    assert_eq!(answer(&[], &["--jobs", "2"], &one), "2");
    // A threaded program that starts a non-threaded one: the child inherits nothing.
    let parent = asked("parent", &[&threaded, &plain]);
    assert_eq!(answer(&[], &["--jobs", "2"], &parent), "2\n1");
}

#[test]
fn what_the_user_has_set_stays() {
    let asks = "io:format(\"~p~n\",[erlang:system_info(schedulers)]),halt().";
    let erl = |words: &[&str], name: &str, value: &str| {
        let mut command = Command::new(CREEL);
        command.args(["run", "-j", "2", "--", "erl"]).args(words);
        command.args(["-noshell", "-eval", asks]).env(name, value);
        output(&mut command).map(|out| String::from_utf8(out.stdout).unwrap())
    };
    if output(Command::new("erl").arg("-version")).is_some() {
        assert_eq!(erl(&[], "X", "").unwrap(), "2\n");
        assert_eq!(erl(&["+S", "3:3"], "X", "").unwrap(), "3\n");
        for name in ["ERL_AFLAGS", "ERL_FLAGS", "ERL_ZFLAGS"] {
            assert_eq!(erl(&[], name, "+S 3:3").unwrap(), "3\n", "{name}");
        }
    }
    let said = |name: &str, value: &str, runtime: &str| {
        let mut command = Command::new(CREEL);
        command.args(["run", "-j1", "--dry-run", "--as", runtime, "--", "sh"]);
        let out = command.env(name, value).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let kept = said("ELIXIR_ERL_OPTIONS", "+S 3:3", "erlang");
    let elixir = "kept:     ELIXIR_ERL_OPTIONS=+S 3:3";
    assert!(kept.contains(elixir), "{kept}");
    // What a knob does besides is said where it is turned, and only there.
    let beside = "serial collector";
    let turned = said("JAVA_TOOL_OPTIONS", "-Xmx64m", "java");
    let joined = "JAVA_TOOL_OPTIONS gets -XX:ActiveProcessorCount=1";
    assert!(
        turned.contains(joined) && turned.contains(beside),
        "{turned}"
    );
    let kept = said("JAVA_TOOL_OPTIONS", "-XX:ActiveProcessorCount=5", "java");
    assert!(kept.contains("kept:") && !kept.contains(beside), "{kept}");
}

#[test]
fn a_runtime_that_is_named_gets_its_variables() {
    let run = |options: &[&str], variable: &str| {
        let mut command = Command::new(CREEL);
        command.args(["run", "-j1"]).args(options);
        command.args(["--", "sh", "-c", "echo $JAVA_TOOL_OPTIONS"]);
        let out = command.env("JAVA_TOOL_OPTIONS", variable).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(run(&[], ""), "");
    assert_eq!(run(&["--as", "java"], ""), "-XX:ActiveProcessorCount=1");
    let joined = "-Xmx64m -XX:ActiveProcessorCount=1";
    assert_eq!(run(&["--as", "java"], "-Xmx64m"), joined);
    let theirs = "-XX:ActiveProcessorCount=7";
    assert_eq!(run(&["--as", "java"], theirs), theirs);
}

#[test]
fn an_export_for_java_says_something() {
    let export = |jobs: &[&str]| {
        let mut command = Command::new(CREEL);
        command.arg("run").args(jobs);
        // The program is in the image, not here.
        command.args(["--export", "docker", "--as", "java", "--", "/app/start"]);
        let out = command.env_remove("JAVA_TOOL_OPTIONS").output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(out.stdout), text(out.stderr))
    };
    let (set, _) = export(&["-j7"]);
    let expected = "-e 'JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount=7'\n";
    assert_eq!(set, expected);
    // What it comes to here says nothing of where it will run.
    let here = std::thread::available_parallelism().unwrap();
    let (set, _) = export(&[&format!("-j{here}")]);
    assert!(set.contains("ActiveProcessorCount="), "{set}");
    if creel_topology_has_no_smt() && Quota::none_here() {
        let (nothing, why) = export(&[]);
        assert!(nothing.is_empty() && why.contains("left alone"), "{why}");
    }
}

#[test]
fn the_shim_obeys_jobs_and_joins_what_the_user_preloads() {
    if !shim_is_beside() {
        eprintln!("skipped: the shim is not built beside the program");
        return;
    }
    let run = |preloaded: &str| {
        let mut command = Command::new(CREEL);
        command.args(["run", "--shim", "-j1", "--", "sh", "-c"]);
        command.arg("echo $LD_PRELOAD; getconf _NPROCESSORS_ONLN");
        let out = command.env("LD_PRELOAD", preloaded).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let alone = run("");
    assert!(alone.ends_with("libcreel_shim.so\n1\n"), "{alone}");
    let beside = run("libm.so.6");
    assert!(beside.starts_with("libm.so.6:/"), "{beside}");
    assert!(beside.ends_with("libcreel_shim.so\n1\n"), "{beside}");
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let ignored = |trap: &str| {
        let script = format!("{trap} exec \"$0\" run -- grep SigIgn /proc/self/status");
        let out = Command::new("sh")
            .args(["-c", &script, CREEL])
            .output()
            .unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let hex = text.trim().rsplit('\t').next().unwrap();
        u64::from_str_radix(hex, 16).unwrap() & (1 << 12) != 0
    };
    assert!(ignored("trap '' PIPE;"));
    assert!(!ignored(""));
}

#[test]
fn a_machine_that_cannot_be_read_changes_nothing() {
    let hidden = "mount -t tmpfs none /sys && mount -t tmpfs none /proc || exit 99; \
                  exec \"$0\" run -- sh -c 'echo started; exit 7'";
    let mut command = Command::new("unshare");
    let Some(out) = output(command.args(["-m", "sh", "-c", hidden, CREEL])) else {
        return;
    };
    if !matches!(out.status.code(), Some(0 | 7)) {
        eprintln!("skipped: this host lets nobody hide /proc and /sys");
        return;
    }
    assert_eq!(
        (out.status.code(), &out.stdout[..]),
        (Some(7), &b"started\n"[..])
    );
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains("cannot be read"), "{said}");
}

#[test]
fn options_are_read_strictly_and_the_programs_own_are_left_to_it() {
    let run = |words: &[&str]| {
        let out = Command::new(CREEL).args(words).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (out.status.code(), text(out.stdout), text(out.stderr))
    };
    let (_, told, _) = run(&["run", "-j3", "-n", "sh", "-x", "--dry-run"]);
    assert!(told.contains("usable:   3 workers"), "{told}");
    for words in [
        ["run", "--wrong", "true"],
        ["measure", "-z", "true"],
        ["top", "--wrong", "true"],
    ] {
        let (code, _, said) = run(&words);
        assert_eq!(code, Some(2), "{words:?}");
        assert!(said.contains(words[1]), "{said}");
        // A program is not called so.
        assert!(!said.contains("as a value"), "{said}");
    }
    let (_, said, _) = run(&["run", "echo", "-j9", "--wrong", "--", "-n"]);
    assert_eq!(said, "-j9 --wrong -- -n\n");
    let (code, _, said) = run(&["run", "--cpus", "2", "true"]);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("--jobs") && said.contains("--cpu-list"),
        "{said}"
    );
    let (_, json, _) = run(&["run", "-n", "--format", "json", "true"]);
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["command"], serde_json::json!(["true"]));
    let (code, _, said) = run(&["run", "-n", "--rounding", "up", "true"]);
    assert!(code == Some(2) && said.contains("floor"), "{said}");
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
fn limits_that_change_are_said_and_the_program_can_be_told() {
    let Some(quota) = Quota::of_one_cpu() else {
        return;
    };
    if std::thread::available_parallelism().unwrap().get() < 2 {
        eprintln!("skipped: one CPU is all that there is");
        return;
    }
    let folder = TempDir::new().unwrap();
    let told = folder.path().join("told");
    let line = format!("echo $CREEL_WORKERS > {}", told.display());
    let program = format!(
        "until [ -e {} ]; do sleep 0.05; done; exit 3",
        told.display()
    );
    let mut words = quota.enter("inner");
    words.extend([CREEL, "run", "--watch", "--on-change", &line]);
    words.extend(["--", "timeout", "60", "sh", "-c", &program]);
    let child = Command::new(words[0])
        .args(&words[1..])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The shell has become the tool, and the tool has started its program.
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    while fs::read_to_string(&children).unwrap().is_empty() {
        std::thread::yield_now();
    }
    quota.lift();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("limits have changed"), "{said}");
    assert_ne!(fs::read_to_string(told).unwrap(), "1\n");
}

#[test]
fn a_watched_program_gets_our_signals() {
    // Bounded by itself: a `timeout` that is told too early ends alone.
    let script = "trap 'exit 9' TERM; echo ready; \
                  i=0; while [ $i -lt 600 ]; do i=$((i+1)); sleep 0.05; done";
    let mut child = Command::new(CREEL)
        .args([
            "run",
            "--watch",
            "--",
            "timeout",
            "--foreground",
            "60",
            "sh",
            "-c",
            script,
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    let code = child.wait().unwrap().code().unwrap();
    // `timeout` passes the signal on and tells the code of whom it started, or its own.
    assert!([9, 124, 143].contains(&code), "{code}");
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
        &["--cpu-list", "0-16000", "--", "true"],
        2,
        "may not be used here",
    );
    fails(&["--cpu-list", "3-1", "--", "true"], 2, "3-1");
    fails(&["--jobs", "0", "--", "true"], 2, "at least one worker");
    fails(&["--placement", "nowhere", "--", "true"], 2, "nowhere");
    fails(&[], 2, "PROGRAM");
}

#[test]
fn top_sees_an_outer_quota_stop_the_program() {
    let Some(quota) = Quota::of_one_cpu() else {
        return;
    };
    quota.tighten();
    let mut words = quota.enter("inner");
    let busy =
        "timeout 1 sh -c 'while :; do :; done' & timeout 1 sh -c 'while :; do :; done'; wait";
    words.extend([CREEL, "top", "--format", "json", "--", "sh", "-c", busy]);
    let out = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let throttled = told["throttled"]["throttled"].as_u64();
    assert!(throttled.is_some_and(|n| n > 0), "{}", told["throttled"]);
}
