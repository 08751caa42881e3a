//! Links the examples as a user would. Skips, saying so, where a compiler is not installed.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The static library that cargo has built beside this test.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let deps = own.parent().unwrap();
    let found = std::fs::read_dir(deps).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?;
        let ours = name.starts_with("libcreel_abi") && name.ends_with(".a");
        let built = path.metadata().ok()?.modified().ok()?;
        ours.then_some((built, path))
    });
    found.max().expect("cargo builds the static library").1
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
}

/// Runs a command; `None`, with a word on stderr, if there is no such program.
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
fn a_c_program_is_masked_before_main_and_counts_by_the_mask() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("workers");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-o"]).arg(&program);
    cc.arg("-I").arg(include).arg(example("workers.c"));
    cc.arg(library()).args(["-lpthread", "-ldl", "-lm"]);
    if output(&mut cc).is_some() {
        let said = output(&mut Command::new(program)).unwrap();
        assert_eq!(said, "workers 1, mask of 1\na CPU outside: 22\n");
    }
}

#[test]
fn a_haskell_program_counts_by_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("workers");
    let mut ghc = Command::new("ghc");
    ghc.args(["-v0", "-threaded", "-with-rtsopts=-N", "-o"])
        .arg(&program);
    ghc.arg("-outputdir").arg(folder.path());
    ghc.args([
        "-optl-Wl,--wrap=getNumberOfProcessors",
        "-optl-Wl,-u,__wrap_getNumberOfProcessors",
    ]);
    ghc.arg(example("Workers.hs")).arg(library());
    if output(&mut ghc).is_none() {
        return;
    }
    let machine = creel_topology::Machine::detect().unwrap();
    let workers = creel_topology::Budget::of(&machine).workers();
    let said = output(&mut Command::new(&program)).unwrap();
    assert_eq!(
        said,
        format!("processors {workers}, capabilities {workers}\n")
    );
}
