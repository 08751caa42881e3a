//! Checks that creel starts whatever the system can start, and that it says why something else does
//! not start.

use crate::{CREEL, said};
use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// Writes a file with this mode.
fn file(folder: &TempDir, name: &str, contents: impl AsRef<[u8]>, mode: u32) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, contents).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// Returns the exit code and stderr of a program that creel starts.
fn run(program: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(CREEL);
    let out = command.args(["run", "--"]).arg(program).output().unwrap();
    (
        out.status.code(),
        String::from_utf8_lossy(&out.stderr).into(),
    )
}

#[test]
fn faults_of_interpreters_are_named() {
    let folder = TempDir::new().unwrap();
    let plain = file(&folder, "plain", "echo", 0o644);
    let inner = file(&folder, "inner", "#!/no/such/inner\n", 0o755);
    let itself = folder.path().join("itself");
    file(
        &folder,
        "itself",
        format!("#!{}\n", itself.display()),
        0o755,
    );
    let script = |interpreter: String| file(&folder, "script", format!("#!{interpreter}\n"), 0o755);
    for (interpreter, code, words) in [
        ("/bin/sh\r".into(), 127, ["/bin/sh\\r", "carriage return"]),
        (
            inner.display().to_string(),
            127,
            ["/no/such/inner", "its interpreter"],
        ),
        (
            plain.display().to_string(),
            126,
            ["plain", "is not executable"],
        ),
        ("/proc".into(), 126, ["/proc", "is not executable"]),
        (
            itself.display().to_string(),
            126,
            ["interpreters", "too many"],
        ),
    ] {
        let (found, err) = run(&script(interpreter.clone()));
        assert_eq!(found, Some(code), "{interpreter:?}: {err}");
        for word in words {
            assert!(err.contains(word), "{interpreter:?}: {err}");
        }
    }
}

#[test]
fn a_binary_for_another_processor_is_not_run_by_a_shell() {
    let folder = TempDir::new().unwrap();
    let mut header = [0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[18] = 0xf7;
    let (code, err) = run(&file(&folder, "foreign", header, 0o755));
    assert_eq!(code, Some(126), "{err}");
    assert!(err.contains("processor") && !err.contains("sh:"), "{err}");
    // A shell runs a text without a #! line, and an empty file.
    assert_eq!(run(&file(&folder, "text", "exit 7\n", 0o755)).0, Some(7));
    assert_eq!(run(&file(&folder, "empty", "", 0o755)).0, Some(0));
}

#[test]
fn programs_that_cannot_be_found_have_the_codes_of_a_shell() {
    let folder = TempDir::new().unwrap();
    let plain = file(&folder, "plain", "echo", 0o644);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("link", &link).unwrap();
    for (program, code) in [
        (folder.path().join("missing"), 127),
        (plain.join("below"), 126),
        (plain.clone(), 126),
        (link, 126),
        (folder.path().into(), 126),
        (folder.path().join("x".repeat(300)), 126),
    ] {
        let (found, err) = run(&program);
        assert_eq!(found, Some(code), "{}: {err}", program.display());
    }
    let mut command = Command::new(CREEL);
    command.args(["run", "plain"]).env("PATH", folder.path());
    let out = command.output().unwrap();
    assert_eq!(out.status.code(), Some(126), "{out:?}");
}

#[test]
fn a_program_that_another_user_may_execute_is_skipped_in_the_path() {
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for folder in [&first, &second] {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    }
    file(&first, "prog", "#!/bin/sh\necho first\n", 0o700);
    file(&second, "prog", "#!/bin/sh\necho second\n", 0o755);
    let path = format!("{}:{}", first.path().display(), second.path().display());
    let mut command = Command::new(CREEL);
    command.args(["run", "prog"]).env("PATH", path).uid(65_534);
    // Only root can become another user, who must be able to execute creel itself.
    match command.output() {
        Ok(out) => assert_eq!(String::from_utf8_lossy(&out.stdout), "second\n", "{out:?}"),
        Err(error) => eprintln!("skipped: {error}"),
    }
}

#[test]
fn a_program_starts_even_if_creel_can_write_no_message() {
    for options in [&["--explain"][..], &["-v", "--format", "json"], &["--shim"]] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut command = Command::new(CREEL);
        command.arg("run").args(options);
        let out = command
            .args(["sh", "-c", "exit 7"])
            .env("XDG_CACHE_HOME", "/proc/no-such-folder")
            .stderr(Stdio::from(full))
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(7), "{options:?}");
    }
}

#[test]
fn a_program_starts_without_settings_if_there_is_no_space_for_them() {
    let run = |bytes: usize| {
        let mut command = Command::new(CREEL);
        command.args(["run", "--as", "python", "--jobs", "2", "sh", "-c", "exit 7"]);
        // One variable has at most 128 KiB.
        for (i, part) in vec![b'x'; bytes].chunks(100_000).enumerate() {
            let value = String::from_utf8(part.to_vec()).unwrap();
            command.env(format!("CREEL_TEST_{i}"), value);
        }
        command.output()
    };
    // The largest environment with which creel itself starts.
    let (mut fits, mut too_large) = (0, 8 << 20);
    while too_large - fits > 1 {
        let middle = usize::midpoint(fits, too_large);
        match run(middle) {
            Ok(_) => fits = middle,
            Err(_) => too_large = middle,
        }
    }
    let out = run(fits).unwrap();
    assert_eq!(out.status.code(), Some(7), "{fits} bytes: {out:?}");
}

/// Returns the explanation for a command.
fn explained(words: &[&str]) -> String {
    let (out, err) = said(&[&["run", "-n", "--"], words].concat(), &[]);
    assert!(err.is_empty(), "{words:?}: {err}");
    out
}

#[test]
fn programs_inside_of_shells_and_wrappers_are_found() {
    let folder = TempDir::new().unwrap();
    let entry = file(&folder, "entry", "set -e\nexec nice \"$@\"\n", 0o644);
    let entry = entry.to_str().unwrap();
    // Not every system has busybox, and only the name of this file matters.
    let busybox = folder.path().join("busybox");
    std::os::unix::fs::symlink("/bin/true", &busybox).unwrap();
    let many = vec!["env"; 40];
    for words in [
        &["bash", "-eo", "pipefail", "-c", "exec cargo x"][..],
        &["sh", "-c", "--", "exec cargo x"],
        &["sh", "-c", "-e", "exec cargo x"],
        &["sh", "-c", "exec \"$@\"", "sh", "cargo", "x"],
        &["sh", "-c", "exec nice -n 5 \"$@\"", "sh", "cargo", "x"],
        &["sh", "-e", entry, "cargo", "x"],
        &["env", "-S", "A=1 nice cargo x"],
        &["env", "--split-string=cargo", "x"],
        &["chroot", "/", "env", "cargo", "x"],
        &[busybox.to_str().unwrap(), "env", "nice", "cargo"],
        &[&many[..], &["cargo", "x"]].concat(),
    ] {
        let found = explained(words);
        assert!(found.contains("CARGO_BUILD_JOBS="), "{words:?}: {found}");
    }
}

#[test]
fn programs_below_another_root_folder_are_found_there() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().to_str().unwrap();
    let missing = explained(&["chroot", root, "cargo"]);
    assert!(
        missing.contains("starts cargo, which creel cannot find"),
        "{missing}"
    );
    fs::create_dir_all(folder.path().join("bin")).unwrap();
    fs::copy("/bin/true", folder.path().join("bin/cargo")).unwrap();
    for words in [
        &["chroot", root, "/bin/cargo"][..],
        &["chroot", "--userspec", "1:1", root, "cargo"],
        &["chroot", root, "nice", "-n", "1", "/bin/cargo"],
    ] {
        let found = explained(words);
        let is_found = found.contains("CARGO_BUILD_JOBS=") || words.contains(&"nice");
        assert!(is_found, "{words:?}: {found}");
    }
    let shim = ["run", "-n", "--shim", "--", "chroot", root, "cargo"];
    let (out, err) = said(&shim, &[]);
    assert!(out.contains("another root folder"), "{out} {err}");
    assert!(!out.contains("LD_PRELOAD"), "{out}");
}

#[test]
fn the_mask_that_a_wrapper_sets_limits_the_number() {
    let cpu = creel_topology::affinity::current()
        .unwrap()
        .first()
        .unwrap();
    let (list, mask) = (cpu.to_string(), format!("{:x}", 1u128 << cpu));
    for words in [
        &["taskset", "-c", &list, "cargo"][..],
        &["taskset", &mask, "cargo"],
        &["env", "taskset", "-c", &list, "nice", "cargo"],
    ] {
        let found = explained(words);
        assert!(found.contains("CARGO_BUILD_JOBS=1:"), "{words:?}: {found}");
    }
    // This CPU does not belong to our own mask, so the mask of the wrapper does not count.
    let found = explained(&["taskset", "-c", "4000", "cargo"]);
    assert!(!found.contains("a wrapper narrows"), "{found}");
}
