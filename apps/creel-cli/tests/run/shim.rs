//! Checks that programs still start with `--shim`: programs for musl, static programs, and programs
//! for other processors.

use crate::CREEL;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const COUNT: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(void) {
    printf("%ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    return 0;
}
"#;

/// Builds a program that prints the number of CPUs. Returns `None` if there is no such compiler.
fn counter(folder: &Path, compiler: &str, options: &[&str]) -> Option<PathBuf> {
    let (source, program) = (folder.join("count.c"), folder.join("count"));
    fs::write(&source, COUNT).unwrap();
    let mut command = Command::new(compiler);
    command.args(options).arg(source).arg("-o").arg(&program);
    let built = command.output().is_ok_and(|done| done.status.success());
    if !built {
        eprintln!("skipped: {compiler} is not installed");
    }
    built.then_some(program)
}

fn with_shim(options: &[&str], program: &Path) -> Output {
    let mut command = Command::new(CREEL);
    command.args(["run", "--shim", "-j1"]).args(options);
    command.arg("--").arg(program).output().unwrap()
}

#[test]
fn a_dynamic_program_for_musl_starts_and_is_sized() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = counter(folder.path(), "musl-gcc", &[]) else {
        return;
    };
    let out = with_shim(&[], &program);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "1\n");
}

#[test]
fn a_static_program_starts_and_a_message_says_why_it_is_not_sized() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = counter(folder.path(), "cc", &["-static"]) else {
        return;
    };
    let out = with_shim(&[], &program);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let message = String::from_utf8_lossy(&out.stderr);
    assert!(
        message.contains("--shim has no effect: this program is static"),
        "{message}"
    );
}

/// The loader of such a program would print an error, because it cannot load our library.
#[test]
fn the_library_is_not_preloaded_for_other_processors_and_unknown_loaders() {
    const MACHINE_AT: usize = 18;
    const AARCH64: u8 = 183;
    const X86_64: u8 = 62;
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = counter(folder.path(), "cc", &[]) else {
        return;
    };
    let plan = || {
        let out = with_shim(&["--explain", "--dry-run"], &program);
        assert_eq!(out.status.code(), Some(0), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    assert!(plan().contains("LD_PRELOAD gets"), "{}", plan());
    let native = fs::read(&program).unwrap();
    let mut foreign = native.clone();
    foreign[MACHINE_AT] = if cfg!(target_arch = "aarch64") {
        X86_64
    } else {
        AARCH64
    };
    fs::write(&program, foreign).unwrap();
    assert!(!plan().contains("LD_PRELOAD gets"), "{}", plan());
    assert!(plan().contains("another kind of processor"), "{}", plan());

    let named = native
        .windows(4)
        .position(|bytes| bytes == b"ld-l")
        .unwrap();
    let mut unknown = native;
    unknown[named] = b'x';
    fs::write(&program, unknown).unwrap();
    assert!(!plan().contains("LD_PRELOAD gets"), "{}", plan());
}
