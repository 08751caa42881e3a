//! Preloads the library into real programs. Programs that are not installed are skipped with a
//! message.

use std::{path::PathBuf, process::Command};

fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let deps = own.parent().unwrap();
    let found = std::fs::read_dir(deps).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?;
        let ours = name.starts_with("libcreel_shim") && name.ends_with(".so");
        let built = path.metadata().ok()?.modified().ok()?;
        ours.then_some((built, path))
    });
    found.max().expect("cargo must have built the library").1
}

/// Runs a program with the library preloaded and `CREEL_CPUS` set to `cpus`. Returns its output, or
/// `None` if it is not installed.
fn output_with(program: &str, args: &[&str], cpus: &str) -> Option<String> {
    let mut command = Command::new(program);
    command
        .args(args)
        .env("LD_PRELOAD", library())
        .env("CREEL_CPUS", cpus);
    let Ok(output) = command.output() else {
        eprintln!("skipped: {program} is not installed");
        return None;
    };
    assert!(output.status.success(), "{program}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap().trim().into())
}

const PYTHON: [&str; 2] = [
    "-c",
    "import os; print(os.cpu_count(), len(os.sched_getaffinity(0)), os.sysconf('SC_PAGE_SIZE') > 0)",
];

#[test]
fn programs_see_the_number_of_cpus() {
    for (program, args) in [
        ("nproc", &[][..]),
        ("getconf", &["_NPROCESSORS_ONLN"]),
        ("ruby", &["-retc", "-e", "puts Etc.nprocessors"]),
    ] {
        if let Some(text) = output_with(program, args, "1") {
            assert_eq!(text, "1", "{program}");
        }
    }
    if let Some(text) = output_with("/usr/bin/python3", &PYTHON, "1") {
        assert_eq!(text, "1 1 True");
    }
}

#[test]
fn a_larger_number_does_not_widen_the_mask() {
    let real_count = std::thread::available_parallelism().unwrap().to_string();
    if let Some(text) = output_with("nproc", &[], "64") {
        assert_eq!(text, real_count);
    }
}

#[test]
fn without_a_number_the_real_count_is_reported() {
    let real_count = std::thread::available_parallelism().unwrap().to_string();
    for cpus in ["", "0", "x", "-3", "99999999999"] {
        if let Some(text) = output_with("nproc", &[], cpus) {
            assert_eq!(text, real_count, "{cpus}");
        }
    }
}
