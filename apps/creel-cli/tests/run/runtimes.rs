//! Asks each installed runtime for its number of threads: without limits, with a mask and with
//! quotas.

use crate::{Asked, CREEL, answer, built, creel_topology_has_no_smt, output, quota::Quota, source};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// The words of a command, or of its options.
type Words = &'static [&'static str];

/// Interpreters and tools that print the number themselves. Each entry has the name, the options
/// for `creel run`, a command that checks whether the tool is installed, and the command that
/// prints the number.
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

/// Returns every installed runtime.
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
        ("GHC, stripped", &["-with-rtsopts=-N"]),
    ] {
        let program = haskell(folder, name, options);
        if let Some(program) = program.as_ref().filter(|_| name.ends_with("stripped")) {
            strip(program);
        }
        add(name, &[], program.map(|p| vec![text(p)]));
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

/// Strips a program as the packages of Debian are stripped. No symbol then shows how it was linked.
fn strip(program: &Path) {
    let sections = [".comment", ".note", ".debug-ghc-link-info"];
    let options = sections.map(|name| format!("--remove-section={name}"));
    let stripped = Command::new("strip").args(options).arg(program).status();
    assert!(stripped.unwrap().success());
}

#[test]
fn every_runtime_gets_the_budget() {
    let folder = TempDir::new().unwrap();
    let mut runtimes = installed(folder.path());
    // A program that exists may still be a placeholder for a runtime that is not installed.
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
        // Without a mask, the answer is the number of PUs of the machine, unless SMT means that
        // there are fewer cores.
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
            // The answer must be the same, whether the quota belongs to the program's own group or
            // to its parent.
            for (whose, group) in [("own", "."), ("outer", "inner")] {
                let within = answer(&quota.enter(group), &[], asked);
                assert_eq!(within, "1", "{}, under an {whose} quota", asked.name);
            }
        }
    };
    // Most of the time of this test is the start of the runtimes.
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

#[test]
fn every_kind_of_haskell_program_still_runs() {
    let folder = TempDir::new().unwrap();
    let hs = source("cpu.hs").display().to_string();
    let build = |name: &str, options: &[&str]| {
        let own = folder.path().join(name);
        fs::create_dir(&own).unwrap();
        let fixed = ["-v0", "-outputdir", ".", "-o", "cpu", &hs];
        built("ghc", &[&fixed[..], options].concat(), &own)
    };
    let plain = build("plain", &["-rtsopts"]);
    let stripped = build("stripped", &[]);
    let threaded = build("threaded", &["-threaded", "-rtsopts"]);
    let (Some(plain), Some(stripped), Some(threaded)) = (plain, stripped, threaded) else {
        return;
    };
    strip(&stripped);
    let asked = |name, command: &[&PathBuf]| Asked {
        name,
        options: &[],
        command: command.iter().map(|w| w.display().to_string()).collect(),
    };
    for program in [&plain, &stripped] {
        let alone = asked("non-threaded", &[program]);
        assert_eq!(answer(&[], &["--jobs", "2"], &alone), "1");
    }
    // creel does not raise the number that a program chose itself, except with --jobs.
    let one = asked("threaded without -N", &[&threaded]);
    assert_eq!(answer(&[], &[], &one), "1");
    assert_eq!(answer(&[], &["--jobs", "2"], &one), "2");
    // creel adds options only if the program accepts them. Otherwise it would fail, or print them.
    for (taken, n) in [
        ("none", "2"),
        ("ignoreAll", "2"),
        ("some", "1"),
        ("all", "1"),
    ] {
        let options = [
            "-threaded",
            "-with-rtsopts=-N2",
            &format!("-rtsopts={taken}"),
        ];
        let program = build(taken, &options).unwrap();
        for stripped in [false, true] {
            if stripped {
                strip(&program);
            }
            let asked = asked("linked to run two", &[&program]);
            let found = answer(&[], &["--jobs", "1"], &asked);
            assert_eq!(found, n, "{taken}, stripped: {stripped}");
        }
    }
    // A threaded program starts a non-threaded one, and the child must inherit no options.
    let parent = asked("parent", &[&threaded, &plain]);
    assert_eq!(answer(&[], &["--jobs", "2"], &parent), "2\n1");
}

#[test]
fn java_output_is_unchanged() {
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
