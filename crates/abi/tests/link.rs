//! Links the examples as a user would. A test prints that it is skipped if a compiler is not
//! installed.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the static library that cargo has built with this test.
fn library() -> PathBuf {
    newest(".a")
}

/// Returns the newest library with this file extension that cargo has built.
fn newest(ending: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let deps = own.parent().unwrap();
    let found = std::fs::read_dir(deps).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?;
        let ours = name.starts_with("libcreel_abi") && name.ends_with(ending);
        let built = path.metadata().ok()?.modified().ok()?;
        ours.then_some((built, path))
    });
    found.max().expect("cargo must have built the libraries").1
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
}

/// Runs a command and returns its output. Prints a message and returns `None` if the program is not
/// installed.
fn output(command: &mut Command) -> Option<String> {
    let Ok(output) = command.output() else {
        eprintln!(
            "skipped: {} is not installed",
            command.get_program().display()
        );
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_c_program_gets_its_mask_before_main() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("workers");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-o"]).arg(&program);
    cc.arg("-I").arg(include).arg(example("workers.c"));
    cc.arg(library()).args(["-lpthread", "-ldl", "-lm"]);
    if output(&mut cc).is_some() {
        let printed = output(&mut Command::new(program)).unwrap();
        assert_eq!(printed, "workers 1, mask of 1\na CPU outside: 22\n");
    }
}

/// Builds the C program that prints `creel_workers()`.
fn counter(folder: &Path) -> Option<PathBuf> {
    let (source, program) = (folder.join("count.c"), folder.join("count"));
    let text = "#include <creel.h>\n#include <stdio.h>\n\
                int main(void) { printf(\"%u\\n\", creel_workers()); return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut cc = Command::new("cc");
    cc.arg("-o")
        .arg(&program)
        .arg("-I")
        .arg(include)
        .arg(source);
    cc.arg(library()).args(["-lpthread", "-ldl", "-lm"]);
    output(&mut cc).map(|_| program)
}

#[test]
fn the_jobs_option_of_creel_run_is_an_upper_bound() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = counter(folder.path()) else {
        return;
    };
    let count = |given: &str| output(Command::new(&program).env("CREEL_JOBS", given)).unwrap();
    assert_eq!(count("1"), "1\n");
    let alone = count("");
    for invalid in ["0", "-1", "many", "99999"] {
        assert_eq!(count(invalid), alone, "{invalid}");
    }
}

#[test]
fn without_proc_and_sys_the_mask_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = counter(folder.path()) else {
        return;
    };
    let hidden = "mount -t tmpfs none /sys && mount -t tmpfs none /proc || exit 99; exec \"$0\"";
    let mut command = Command::new("unshare");
    let out = command
        .args(["-m", "sh", "-c", hidden])
        .arg(program)
        .output();
    let Some(out) = out.ok().filter(|out| out.status.success()) else {
        eprintln!("skipped: this machine does not allow us to hide /proc and /sys");
        return;
    };
    let mask = creel_topology::affinity::current().unwrap().len();
    assert_eq!(String::from_utf8(out.stdout).unwrap(), format!("{mask}\n"));
}

/// Installs the libraries into a folder, and returns the prefix.
fn installed(folder: &Path) -> PathBuf {
    let (built, prefix) = (folder.join("built"), folder.join("usr"));
    std::fs::create_dir(&built).unwrap();
    std::fs::copy(newest(".a"), built.join("libcreel_abi.a")).unwrap();
    std::fs::copy(newest(".so"), built.join("libcreel_abi.so")).unwrap();
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("install");
    let mut command = Command::new(install);
    output(command.arg(&prefix).env("CREEL_BUILT", &built)).unwrap();
    prefix
}

/// Returns the names of the functions that the header declares.
fn functions() -> BTreeSet<&'static str> {
    let header = include_str!("../include/creel.h");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let declarations = header.lines().filter(|line| {
        let begins_a_type = line.starts_with(|c: char| c.is_ascii_lowercase());
        begins_a_type && !line.starts_with("typedef")
    });
    let names = declarations.filter_map(|line| {
        let (before, _) = line.split_once('(')?;
        before.rsplit(|c| !is_name(c)).next()
    });
    names.filter(|name| name.starts_with("creel_")).collect()
}

#[test]
fn every_public_function_has_a_man_page() {
    let functions = functions();
    let sources = ["budget", "gang", "lib", "pool"].map(|name| {
        let path = format!("{}/src/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap()
    });
    let exported = sources
        .iter()
        .map(|text| text.matches("#[unsafe(no_mangle)]").count());
    assert_eq!(functions.len(), exported.sum());
    let folder = tempfile::tempdir().unwrap();
    let pages = installed(folder.path()).join("share/man/man3");
    for name in functions {
        let page = std::fs::read_to_string(pages.join(format!("{name}.3")));
        let page = page.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (synopsis, _) = page.split_once(".SH DESCRIPTION").unwrap();
        let declaration = format!("{name}(");
        assert!(synopsis.contains(&declaration), "the page lacks {name}");
    }
}

#[test]
fn the_shared_library_links_with_pkg_config() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = installed(folder.path());
    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "creel"]);
    ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let Some(flags) = output(&mut ask) else {
        return;
    };
    let program = folder.path().join("workers");
    let mut cc = Command::new("cc");
    cc.arg("-o").arg(&program).arg(example("workers.c"));
    cc.args(flags.split_whitespace());
    if output(&mut cc).is_some() {
        let mut run = Command::new(program);
        let printed = output(run.env("LD_LIBRARY_PATH", prefix.join("lib"))).unwrap();
        assert_eq!(printed, "workers 1, mask of 1\na CPU outside: 22\n");
    }
}

#[test]
fn install_finds_a_moved_target_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (built, prefix) = (folder.path().join("small"), folder.path().join("prefix"));
    std::fs::create_dir(&built).unwrap();
    for name in ["libcreel_abi.a", "libcreel_abi.so"] {
        std::fs::write(built.join(name), name).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install");
    let mut command = Command::new(script);
    command.env_remove("CREEL_BUILT").env_remove("DESTDIR");
    let output = command
        .arg(&prefix)
        .env("CARGO_TARGET_DIR", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let installed = std::fs::read_to_string(prefix.join("lib/libcreel.so.1"));
    assert_eq!(installed.unwrap(), "libcreel_abi.so");
}
