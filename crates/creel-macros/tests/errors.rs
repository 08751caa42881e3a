//! Checks that each wrong use of an attribute is reported by one error that says what to do.
//!
//! We pass small programs to the compiler, which only needs this crate to report the error.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The library of this crate, which cargo has put next to this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let files = std::fs::read_dir(test.parent().unwrap()).unwrap();
    let libraries = files.filter_map(|file| {
        let path = file.ok()?.path();
        let name = path.file_name()?.to_str()?;
        let name = name.strip_prefix(std::env::consts::DLL_PREFIX)?;
        let is_it =
            name.starts_with("creel_macros-") && name.ends_with(std::env::consts::DLL_SUFFIX);
        is_it.then_some(path)
    });
    let newest = libraries.max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    newest.expect("cargo has built the library")
}

/// Compiles a program and returns the messages of its errors.
fn errors(program: &str) -> Vec<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compiler = Command::new(rustc);
    compiler.args(["--edition=2024", "--test", "--emit=metadata", "-o"]);
    compiler.arg(std::env::temp_dir().join(format!("creel-macros-{}", std::process::id())));
    compiler.arg("--extern").arg({
        let mut library_of_name = std::ffi::OsString::from("creel=");
        library_of_name.push(library());
        library_of_name
    });
    compiler
        .arg("-")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut compiler = compiler.spawn().unwrap();
    let mut input = compiler.stdin.take().unwrap();
    input.write_all(program.as_bytes()).unwrap();
    drop(input);
    let output = compiler.wait_with_output().unwrap();
    assert!(!output.status.success(), "it compiles: {program}");
    let output = String::from_utf8(output.stderr).unwrap();
    let errors = output.lines().filter_map(|line| {
        let error = line.strip_prefix("error")?;
        let (_, message) = error.split_once(": ")?;
        (!message.starts_with("aborting")).then(|| message.to_owned())
    });
    errors.collect()
}

#[track_caller]
fn reports(program: &str, message: &str) {
    let errors = errors(program);
    assert_eq!(errors.len(), 1, "{program}: {errors:#?}");
    assert!(errors[0].contains(message), "{program}: {errors:#?}");
}

#[test]
fn the_item_must_be_an_async_function() {
    for item in [
        "fn main() {}",
        "pub(crate) fn main() {}",
        "async unsafe fn main() {}",
    ] {
        reports(
            &format!("#[creel::main] {item}"),
            "#[creel::main] needs an `async fn`",
        );
    }
    for item in ["fn test() {}", "struct Test;", "const fn test() {}"] {
        reports(
            &format!("#[creel::test] {item}"),
            "#[creel::test] needs an `async fn`",
        );
    }
}

#[test]
fn generics_and_parameters_are_errors() {
    let without_generics = "needs a function without generics";
    reports("#[creel::main] async fn main<T>() {}", without_generics);
    let message = "a test has no parameters, except with #[creel::test(manual_clock)]";
    reports("#[creel::test] async fn test(n: u32) {}", message);
    let message = "add a parameter, for example `clock: creel::time::Clock`";
    reports("#[creel::test(manual_clock)] async fn test() {}", message);
}

#[test]
fn unknown_options_and_missing_values_are_errors() {
    let main = |options: &str| format!("#[creel::main({options})] async fn main() {{}}");
    let message = "unknown option `threads`: expected one of name, workers,";
    reports(&main("threads = 4"), message);
    reports(&main("seed = 4"), "unknown option `seed`");
    reports(
        &main("workers"),
        "the option `workers` needs a value: `workers = VALUE`",
    );
    reports(
        &main("workers(4)"),
        "expected `=` after `workers`, found `(4)`",
    );
    reports(
        &main("workers = 4, workers = 5"),
        "the option `workers` is repeated",
    );
    reports(&main("4"), "expected the name of an option, found `4`");
}

#[test]
fn contradicting_options_of_a_test_are_errors() {
    let test = |options: &str| format!("#[creel::test({options})] async fn test(_: Clock) {{}}");
    let message = "`seed` cannot be combined with `workers`";
    reports(&test("seed = 7, workers = 2"), message);
    let message = "`seed` cannot be combined with `manual_clock`";
    reports(&test("manual_clock, seed = 7"), message);
    let message = "`manual_clock` already sets the clock";
    reports(&test("manual_clock, clock = Clock::manual()"), message);
    reports(
        &test("manual_clock = true"),
        "the option `manual_clock` has no value",
    );
    let twice = "#[creel::test] #[test] async fn test() {}";
    reports(
        twice,
        "remove #[test], because #[creel::test] already adds it",
    );
}
