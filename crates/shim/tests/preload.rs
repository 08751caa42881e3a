//! Preloads the library into real programs. Programs that are not installed are skipped with a
//! message.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

#[path = "../compile.rs"]
mod compile;

/// Returns the library, which the first call builds.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcreel_shim.so");
        assert!(compile::compile(&rustc, &source, None, None, &library));
        library
    })
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
fn programs_see_the_requested_number_of_cpus() {
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

/// A C program that prints the number of CPUs, the size of its mask and another value of `sysconf`.
const COUNT: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    sched_getaffinity(0, sizeof mask, &mask);
    printf("%ld %d %ld\n", sysconf(_SC_NPROCESSORS_ONLN), CPU_COUNT(&mask), sysconf(_SC_PAGESIZE));
    return 0;
}
"#;

/// musl's loader ends a program if a preloaded library needs a symbol that does not exist.
#[test]
fn a_dynamic_program_for_musl_starts_and_sees_the_number() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("count.c"), folder.join("count-musl"));
    std::fs::write(&source, COUNT).unwrap();
    let built = Command::new("musl-gcc")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("skipped: musl-gcc is not installed");
        return;
    }
    let text = output_with(program.to_str().unwrap(), &[], "1");
    assert_eq!(text.as_deref(), Some("1 1 4096"));
}

/// A symbol that must exist, or a library that must exist, could keep a program from starting.
#[test]
fn the_library_needs_no_symbol_and_no_library() {
    let read = |options: &[&str]| {
        let mut command = Command::new("readelf");
        let output = command.args(options).arg(library()).output();
        output
            .ok()
            .map(|out| String::from_utf8(out.stdout).unwrap())
    };
    let (Some(symbols), Some(dynamic)) = (read(&["-W", "--dyn-syms"]), read(&["-d"])) else {
        eprintln!("skipped: readelf is not installed");
        return;
    };
    assert!(symbols.contains(" sysconf"), "{symbols}");
    let undefined = symbols.lines().filter(|line| line.contains(" UND "));
    for line in undefined.filter(|line| !line.trim_end().ends_with("UND")) {
        assert!(line.contains(" WEAK "), "{line}");
    }
    assert!(!dynamic.contains("NEEDED"), "{dynamic}");
}
