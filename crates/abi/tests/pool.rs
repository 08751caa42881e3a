//! Compiles the programs in `tests/c` as a user would, and runs them. A program that checks its
//! results itself prints `ok`. A test prints that it is skipped if a compiler is not installed.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};
use tempfile::TempDir;

/// Returns the newest library with this file extension that cargo has built.
fn newest(ending: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let found = fs::read_dir(own.parent().unwrap()).unwrap().flatten();
    let ours = found.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("libcreel_abi") && name.ends_with(ending)
    });
    let newest = ours.max_by_key(|entry| entry.metadata().unwrap().modified().unwrap());
    newest.expect("cargo must have built the libraries").path()
}

/// Returns the folder into which the libraries are installed, once for all tests.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<TempDir> = OnceLock::new();
    let prefix = PREFIX.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("built");
        fs::create_dir(&built).unwrap();
        for ending in [".a", ".so"] {
            fs::copy(newest(ending), built.join(format!("libcreel_abi{ending}"))).unwrap();
        }
        let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("install");
        let mut command = Command::new(install);
        let done = command.arg(folder.path()).env("CREEL_BUILT", built);
        assert!(done.status().unwrap().success());
        folder
    });
    prefix.path()
}

fn source(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    tests.join(name)
}

const C: [&str; 7] = [
    "cc",
    "-std=c89",
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Werror",
    "-pedantic",
];
const CPP: [&str; 7] = [
    "c++",
    "-std=c++11",
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Werror",
    "-pedantic",
];

/// Compiles a program. `more` are options and libraries. Returns `None` if there is no compiler.
fn compiled(compiler: &[&str], name: &str, into: &Path, more: &[&str]) -> Option<PathBuf> {
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg(source(name));
    command.arg("-I").arg(prefix().join("include"));
    let out = command.arg("-o").arg(into).args(more).output();
    let Ok(out) = out else {
        eprintln!("skipped: {} is not installed", compiler[0]);
        return None;
    };
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && errors.is_empty(),
        "{name}: {errors}"
    );
    Some(into.to_owned())
}

/// Returns the options that link the shared or the static library.
fn link(shared: bool) -> Vec<String> {
    let lib = prefix().join("lib");
    let lib = lib.display();
    if shared {
        return vec![
            format!("-L{lib}"),
            "-lcreel".into(),
            format!("-Wl,-rpath,{lib}"),
        ];
    }
    let own = format!("{lib}/libcreel.a");
    [&own, "-lpthread", "-ldl", "-lm"]
        .map(String::from)
        .to_vec()
}

fn assert_ok(out: &Output) {
    assert_eq!(out.stdout, b"ok\n", "{out:?}");
    assert!(out.status.success(), "{out:?}");
}

/// Compiles a program with the shared and with the static library, each with and without the address
/// and undefined-behaviour sanitizers, and runs all four. It runs the one with the shared library
/// under valgrind as well, which also looks for memory that was never freed.
fn works(compiler: &[&str], name: &str) {
    const SANITIZERS: [&str; 3] = [
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ];
    let folder = tempfile::tempdir().unwrap();
    for shared in [false, true] {
        let link = link(shared);
        let link: Vec<&str> = link.iter().map(String::as_str).collect();
        let program = folder.path().join(format!("program-{shared}"));
        let Some(program) = compiled(compiler, name, &program, &link) else {
            return;
        };
        assert_ok(&Command::new(&program).output().unwrap());
        let limited = Command::new(&program).env("CREEL_JOBS", "1").output();
        assert_ok(&limited.unwrap());
        let sanitized = folder.path().join(format!("sanitized-{shared}"));
        let options = [&SANITIZERS[..], &link].concat();
        let sanitized = compiled(compiler, name, &sanitized, &options).unwrap();
        assert_ok(&Command::new(sanitized).output().unwrap());
        if shared {
            let mut valgrind = Command::new("valgrind");
            valgrind.args(["-q", "--error-exitcode=9", "--fair-sched=yes"]);
            valgrind.args(["--leak-check=full", "--errors-for-leak-kinds=definite"]);
            match valgrind.arg(program).output() {
                Ok(out) => assert_ok(&out),
                Err(_) => eprintln!("skipped: valgrind is not installed"),
            }
        }
    }
}

#[test]
fn the_checks_of_the_c_interface_succeed() {
    works(&C, "pool.c");
}

#[test]
fn the_checks_of_the_cpp_interface_succeed() {
    works(&CPP, "pool.cpp");
}

#[test]
fn an_exception_that_leaves_a_body_of_the_c_interface_ends_the_process() {
    const SIGABRT: i32 = 6;
    let folder = tempfile::tempdir().unwrap();
    let link = link(true);
    let link: Vec<&str> = link.iter().map(String::as_str).collect();
    if let Some(program) = compiled(&CPP, "pool.cpp", &folder.path().join("escape"), &link) {
        let out = Command::new(program).arg("escape").output().unwrap();
        assert_eq!(out.status.signal(), Some(SIGABRT), "{out:?}");
    }
}

#[test]
fn the_library_can_be_opened_and_closed_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let gnu = ["cc"];
    if let Some(program) = compiled(&gnu, "dlopen.c", &folder.path().join("dlopen"), &["-ldl"]) {
        let library = prefix().join("lib/libcreel.so.1");
        assert_ok(&Command::new(program).arg(library).output().unwrap());
    }
}

#[test]
fn two_libraries_of_one_process_each_use_their_own_copy_of_creel() {
    let folder = tempfile::tempdir().unwrap();
    let own = link(false);
    for (compiler, source) in [(&C, "carry.c"), (&CPP, "carry.cpp")] {
        for name in ["first", "second"] {
            let define = format!("-DNAME={name}");
            let mut more = vec!["-shared", "-fPIC", &define];
            more.extend(own.iter().map(String::as_str));
            let library = folder.path().join(format!("lib{name}.so"));
            if compiled(compiler, source, &library, &more).is_none() {
                return;
            }
            exports_nothing_of_creel(&library);
        }
        let search = format!("-L{}", folder.path().display());
        let rpath = format!("-Wl,-rpath,{}", folder.path().display());
        let program = folder.path().join("two");
        let more = [&search, "-lfirst", "-lsecond", &rpath];
        let program = compiled(&C, "two.c", &program, &more).unwrap();
        assert_ok(&Command::new(program).output().unwrap());
    }
}

/// Checks that a library which contains Creel does not export the functions of its copy. The loader
/// would replace them by those of another library.
fn exports_nothing_of_creel(library: &Path) {
    let mut nm = Command::new("nm");
    let Ok(out) = nm.args(["-D", "--defined-only"]).arg(library).output() else {
        return eprintln!("skipped: binutils are not installed");
    };
    let symbols = String::from_utf8(out.stdout).unwrap();
    for name in ["creel_", "5creel4pool", "5creel4gang"] {
        assert!(!symbols.contains(name), "{symbols}");
    }
}

/// libgomp pins the main thread to one place, so the thread's mask says nothing about the process.
#[test]
fn a_mask_that_openmp_has_narrowed_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let mut more = link(true);
    more.push("-fopenmp".into());
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let Some(program) = compiled(&["cc"], "openmp.c", &folder.path().join("openmp"), &more) else {
        return;
    };
    let run = |wrapper: &[&str], bind: &str| {
        let words = [wrapper, &[program.to_str().unwrap()]].concat();
        let mut command = Command::new(words[0]);
        let out = command
            .args(&words[1..])
            .env("OMP_PROC_BIND", bind)
            .output();
        String::from_utf8(out.unwrap().stdout).unwrap()
    };
    let free = run(&[], "false");
    let bound = run(&[], "true");
    let fields =
        |line: &str| -> Vec<String> { line.split_whitespace().map(String::from).collect() };
    let (free, bound) = (fields(&free), fields(&bound));
    assert_eq!(
        free[..2],
        bound[..2],
        "the number and the mask of the process"
    );
    if free[1] != "0" {
        assert_ne!(bound[1], bound[2], "OpenMP must have narrowed the thread");
    }
    // A mask of the whole process, which is not OpenMP's, still counts.
    let masked = run(&["taskset", "-c", "0"], "true");
    assert_eq!(fields(&masked), ["1", "0", "0"]);
}

#[test]
fn the_shared_library_has_a_soname_and_exports_only_our_names() {
    let library = prefix().join("lib/libcreel.so.1");
    let read = |program: &str, options: &[&str]| {
        let out = Command::new(program).args(options).arg(&library).output();
        out.ok().map(|out| String::from_utf8(out.stdout).unwrap())
    };
    let dynamic = read("readelf", &["-d"]);
    let symbols = read("nm", &["-D", "--defined-only"]);
    let (Some(dynamic), Some(symbols)) = (dynamic, symbols) else {
        eprintln!("skipped: binutils are not installed");
        return;
    };
    assert!(dynamic.contains("libcreel.so.1"), "{dynamic}");
    for line in symbols.lines() {
        let name = line.split(' ').next_back().unwrap();
        assert!(name.starts_with("creel_"), "{line}");
    }
}

#[test]
fn cmake_finds_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(user C CXX)\nset(CMAKE_CXX_STANDARD 11)\n\
         find_package(creel 0.1 REQUIRED)\n\
         add_executable(shared {c})\ntarget_link_libraries(shared creel::creel)\n\
         add_executable(static {cpp})\ntarget_link_libraries(static creel::static)\n",
        c = source("pool.c").display(),
        cpp = source("pool.cpp").display(),
    );
    fs::write(folder.path().join("CMakeLists.txt"), text).unwrap();
    let build = folder.path().join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(folder.path()).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix().display()));
    let Ok(out) = configure.output() else {
        eprintln!("skipped: cmake is not installed");
        return;
    };
    assert!(out.status.success(), "{out:?}");
    let out = Command::new("cmake")
        .arg("--build")
        .arg(&build)
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    for name in ["shared", "static"] {
        assert_ok(&Command::new(build.join(name)).output().unwrap());
    }
}
