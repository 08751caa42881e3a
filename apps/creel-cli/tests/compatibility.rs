//! `creel run` must not make a program fail or behave differently. We check programs that only look
//! like a runtime, and inherited settings. We build the programs here, so no runtime needs to be
//! installed.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

const CREEL: &str = env!("CARGO_BIN_EXE_creel");

/// The C source of a program that prints its arguments. A blank follows each argument.
const PRINTS: &str = "#include <stdio.h>\n\
                      int main(int n, char **a) { while (*++a) printf(\"%s \", *a); return 0; }\n";

fn compiled(folder: &Path, name: &str, text: &str, options: &[&str]) -> PathBuf {
    let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&source, text).unwrap();
    let mut command = Command::new("cc");
    command.args(["-w", "-o"]).arg(&program).arg(&source);
    let out = command.args(options).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    program
}

fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

fn creel(options: &[&str], program: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(CREEL);
    command.arg("run").args(options).arg(program).args(args);
    command.output().unwrap()
}

fn stdout(out: &Output) -> String {
    assert!(out.status.success(), "{out:?}");
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

#[test]
fn only_java_gets_java_options() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    compiled(
        folder,
        "libjli.so",
        "void jli(void) {}",
        &["-shared", "-fPIC"],
    );
    let rpath = format!("-Wl,--no-as-needed,-rpath,{}", folder.display());
    let lib = format!("-L{}", folder.display());
    let tool = |name| compiled(folder, name, PRINTS, &[&rpath, &lib, "-ljli"]);
    let java = creel(&["-j3"], &tool("java"), &["x"]);
    assert_eq!(stdout(&java), "-XX:ActiveProcessorCount=3 x");
    for name in ["javac", "jar", "keytool"] {
        assert_eq!(stdout(&creel(&["-j3"], &tool(name), &["x"])), "x", "{name}");
    }
}

#[test]
fn stripped_haskell_programs_get_no_arguments() {
    let folder = TempDir::new().unwrap();
    let own = "const char *own = \"-N\", *rts = \"GHCRTS\";\n";
    let comment = "__asm__(\".ident \\\"GHC 9.4.7\\\"\");\n";
    for (name, text) in [
        ("commented", format!("{comment}{PRINTS}")),
        // Packages of Debian are stripped like this.
        ("bare", format!("{own}{PRINTS}")),
    ] {
        let program = compiled(folder.path(), name, &text, &["-s"]);
        let ran = creel(&["-j1", "--explain"], &program, &["a", "b"]);
        assert_eq!(stdout(&ran), "a b", "{name}");
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(said.contains("GHC linked it"), "{said}");
    }
}

#[test]
fn compressors_get_threads_only_from_jobs() {
    let folder = TempDir::new().unwrap();
    let text = "#!/bin/sh\necho \"$XZ_DEFAULTS$ZSTD_NBTHREADS\"\n";
    for (name, asked) in [("xz", "-T3"), ("zstd", "3")] {
        let program = script(folder.path(), name, text);
        assert_eq!(stdout(&creel(&[], &program, &[])), "", "{name}");
        assert_eq!(stdout(&creel(&["-j3"], &program, &[])), asked, "{name}");
    }
}

#[test]
fn cargo_configuration_is_kept() {
    let folder = TempDir::new().unwrap();
    let cargo = script(
        folder.path(),
        "cargo",
        "#!/bin/sh\necho \"$CARGO_BUILD_JOBS\"\n",
    );
    let jobs = || {
        let mut command = Command::new(CREEL);
        command.arg("run").arg(&cargo).current_dir(folder.path());
        let empty = folder.path().join("none");
        command.env("CARGO_HOME", &empty).env("HOME", &empty);
        stdout(&command.env_remove("CARGO_BUILD_JOBS").output().unwrap())
    };
    assert_ne!(jobs(), "");
    fs::create_dir(folder.path().join(".cargo")).unwrap();
    fs::write(
        folder.path().join(".cargo/config.toml"),
        "[build]\njobs = 1\n",
    )
    .unwrap();
    assert_eq!(jobs(), "");
}

#[test]
fn a_library_keeps_the_variable_that_the_user_has_set() {
    let folder = TempDir::new().unwrap();
    let text = "#!/bin/sh\necho \"$OPENBLAS_NUM_THREADS|$BLIS_NUM_THREADS|$MKL_NUM_THREADS\"\n";
    let r = script(folder.path(), "Rscript", text);
    let output = |name: &str| {
        let mut command = Command::new(CREEL);
        command.args(["run", "-j3"]).arg(&r);
        for own in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"] {
            command.env_remove(own);
        }
        stdout(&command.env(name, "1").output().unwrap())
    };
    assert_eq!(output("X"), "3|3|3");
    assert_eq!(output("OMP_NUM_THREADS"), "||");
    assert_eq!(output("GOTO_NUM_THREADS"), "|3|3");
}

#[test]
fn scripts_without_a_shebang_run_in_sh() {
    let folder = TempDir::new().unwrap();
    let file = script(folder.path(), "plain", "echo \"ran $1\"\n");
    assert_eq!(stdout(&creel(&[], &file, &["x"])), "ran x");
    assert_eq!(stdout(&creel(&["--watch"], &file, &["x"])), "ran x");
}

#[test]
fn ignored_signals_stay_ignored_under_watch() {
    let script = "trap '' HUP PIPE; exec \"$0\" run --watch -- \
                  sh -c 'grep -h SigIgn /proc/self/status /proc/$PPID/status'";
    let out = Command::new("sh").args(["-c", script, CREEL]).output();
    let text = stdout(&out.unwrap());
    let (hangup, pipe) = (1, 1 << 12);
    let sets: Vec<u64> = text
        .lines()
        .map(|line| u64::from_str_radix(line.rsplit('\t').next().unwrap(), 16).unwrap())
        .collect();
    assert_eq!(sets[0] & (hangup | pipe), hangup | pipe, "{text}");
    assert_eq!(sets[1] & hangup, hangup, "{text}");
}

#[test]
fn the_watching_parent_reaps_orphans_as_pid_1() {
    let orphans = "for i in 1 2 3; do (true &); done; sleep 0.3; \
                   i=0; while grep -qs '^State:.Z' /proc/[0-9]*/status; \
                   do i=$((i+1)); [ $i -gt 100 ] && exit 9; sleep 0.05; done; echo clean";
    let mut command = Command::new("unshare");
    command.args(["-pf", "--mount-proc", CREEL, "run", "--watch", "--"]);
    match command.args(["sh", "-c", orphans]).output() {
        Ok(out) if matches!(out.status.code(), Some(0 | 9)) => assert_eq!(stdout(&out), "clean"),
        _ => eprintln!("skipped: this host does not allow process namespaces"),
    }
}

#[test]
fn the_npm_package_without_the_tool_says_what_is_missing() {
    let folder = TempDir::new().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages/npm/index.js");
    fs::copy(source, folder.path().join("index.js")).unwrap();
    let asks = "console.log(require('./index.js').workers())";
    let mut command = Command::new("node");
    command.args(["-e", asks]).current_dir(folder.path());
    match command.output() {
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && output.stdout.is_empty());
            assert!(error.contains("is missing. Install a package"), "{error}");
        }
        Err(_) => eprintln!("skipped: node is not installed"),
    }
}

#[test]
fn systemd_exports_are_escaped() {
    let folder = TempDir::new().unwrap();
    let java = script(folder.path(), "java", "#!/bin/sh\n");
    let mut command = Command::new(CREEL);
    command
        .args(["run", "-j3", "--export", "systemd"])
        .arg(java);
    let out = command
        .env("JAVA_TOOL_OPTIONS", "-Xlog:gc:file=gc-%t.log")
        .output();
    let said = stdout(&out.unwrap());
    assert!(said.contains("gc-%%t.log"), "{said}");
}

#[test]
fn an_unwritable_manual_is_an_error() {
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    for words in [&["man"][..], &["completions", "bash"]] {
        let status = Command::new(CREEL).args(words).stdout(full()).status();
        assert_eq!(status.unwrap().code(), Some(1), "{words:?}");
    }
}

#[test]
fn an_unknown_program_gives_a_csv_header_only() {
    let csv = |words: &[&str]| {
        let mut command = Command::new(CREEL);
        command.args(["run", "-n", "--format", "csv"]).args(words);
        stdout(&command.output().unwrap())
    };
    assert_eq!(csv(&[CREEL, "topo"]), "kind,name,value,kept,why");
    let rows = csv(&["--as", "crystal", "true"]);
    assert!(rows.starts_with("kind,name,value,kept,why\n"), "{rows}");
}
