//! Passes the versions of the build to the program, and compiles the OpenMP peer with the feature
//! `peers`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| "unknown".into());
    set_variable("COMPILER", output_of(&rustc, &["--version"]));
    let target = format!("{}, {}", variable("TARGET"), variable("PROFILE"));
    set_variable("TARGET", Some(target));
    set_variable("COMMIT", commit());
    set_variable("CRATES", crates());
    #[cfg(feature = "peers")]
    {
        println!("cargo::rerun-if-changed=src/workloads/loops/openmp.c");
        cc::Build::new()
            .file("src/workloads/loops/openmp.c")
            .opt_level(3)
            .flag("-fopenmp")
            .compile("creel_bench_openmp");
        println!("cargo::rustc-link-lib=gomp");
    }
}

fn set_variable(name: &str, value: Option<String>) {
    let value = value.unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=CREEL_BENCH_{name}={value}");
}

/// Returns the commit, with `-dirty` after it if files have changed. Cargo builds the program again
/// when the commit changes.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| output_of("git", arguments);
    for name in ["HEAD", "logs/HEAD"] {
        // We name only files that exist, because Cargo runs this script before every build if a
        // file is missing.
        if let Some(file) = git(&["rev-parse", "--git-path", name])
            && Path::new(&file).exists()
        {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    git(&[
        "describe",
        "--always",
        "--dirty",
        "--exclude=*",
        "--abbrev=12",
    ])
}

/// Returns the crates that are peers with their versions, for example `rayon 1.11.0, tokio 1.48.0`.
fn crates() -> Option<String> {
    const PEERS: [&str; 14] = [
        "async-channel",
        "chili",
        "fork_union",
        "hyper",
        "hyper-util",
        "kanal",
        "micropool",
        "orx-parallel",
        "paralight",
        "rayon",
        "rayon-core",
        "scoped_threadpool",
        "tokio",
        "mio",
    ];
    let folder = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    let lock = Path::new(&folder).join("../../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    let text = std::fs::read_to_string(lock).ok()?;
    let value = |line: Option<&str>, key: &str| {
        let value = line?.strip_prefix(key)?.strip_prefix(" = \"")?;
        value.strip_suffix('"').map(str::to_owned)
    };
    let packages = text.split("[[package]]\n").skip(1).filter_map(|package| {
        let mut lines = package.lines();
        let name = value(lines.next(), "name")?;
        let version = value(lines.next(), "version")?;
        PEERS.contains(&&*name).then(|| format!("{name} {version}"))
    });
    Some(packages.collect::<Vec<_>>().join(", "))
}

/// Returns the first line of a program's output.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}
