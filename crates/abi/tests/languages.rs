//! Tests of the packages for other languages. A test prints that it is skipped if a compiler is not
//! installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

fn packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages")
}

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

/// Installs the libraries, the header and the pkg-config file under a temporary prefix.
fn prefix() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let built = folder.path().join("built");
    fs::create_dir(&built).unwrap();
    for ending in [".a", ".so"] {
        fs::copy(newest(ending), built.join(format!("libcreel_abi{ending}"))).unwrap();
    }
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("install");
    let mut command = Command::new(install);
    let done = command
        .arg(folder.path())
        .env("CREEL_BUILT", built)
        .output();
    assert!(done.unwrap().status.success());
    folder
}

/// Copies a package, because compilers write files next to its sources.
fn copied(name: &str, to: &Path) -> PathBuf {
    let (from, to) = (packages().join(name), to.join(name));
    let mut command = Command::new("cp");
    assert!(
        command
            .arg("-r")
            .arg(from)
            .arg(&to)
            .status()
            .unwrap()
            .success()
    );
    to
}

/// Runs a command with the libraries of a prefix and returns the last line of its output. Prints a
/// message and returns `None` if the program is not installed.
fn last_line(command: &mut Command, prefix: &Path) -> Option<String> {
    let lib = prefix.join("lib");
    command
        .env("LD_LIBRARY_PATH", &lib)
        .env("LIBRARY_PATH", &lib)
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    let Ok(Output {
        status,
        stdout,
        stderr,
    }) = command.output()
    else {
        eprintln!(
            "skipped: {} is not installed",
            command.get_program().display()
        );
        return None;
    };
    let (out, err) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    assert!(status.success(), "{command:?}: {out}{err}");
    Some(out.trim().lines().last().unwrap_or_default().into())
}

/// Returns the number of workers that the packages must report.
fn expected() -> String {
    let machine = creel_topology::Machine::detect().unwrap();
    creel_topology::Budget::of(&machine).workers().to_string()
}

/// Returns whether a program is installed. Prints a message if it is not.
fn is_installed(program: &str, argument: &str) -> bool {
    let there = Command::new(program).arg(argument).output();
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("skipped: {program} is not installed");
    }
    there
}

const WORKERS: &str = "import creel; print(creel.workers())";

fn python(words: &[&str]) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.args(words).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn the_python_package_returns_and_applies_the_budget() {
    let prefix = prefix();
    let source = packages().join("python");
    let run = |code: &str| {
        let mut command = python(&["-c", code]);
        last_line(command.env("PYTHONPATH", &source), prefix.path())
    };
    let Some(count) = run(WORKERS) else { return };
    assert_eq!(count, expected());
    let check = "import creel
assert creel.bound_by() and creel.cores() and creel.process_mask()
for cpus, error in [('0\\0-1', ValueError), ('x', OSError)]:
    try:
        creel.set_mask(cpus)
    except error:
        continue
    raise AssertionError(cpus)
changes = creel.apply(1)
assert any(c.what == 'LOKY_MAX_CPU_COUNT' and c.after == 1 for c in changes), changes
print('ok')";
    assert_eq!(run(check).unwrap(), "ok");
    // Without a library, the error says what to do.
    let out = python(&["-c", WORKERS]).env("PYTHONPATH", &source).output();
    let out = String::from_utf8(out.unwrap().stderr).unwrap();
    assert!(
        out.contains("ImportError: creel cannot load its library"),
        "{out}"
    );
}

/// A stand-in for threadpoolctl and two copies of one library, which have 2 and 8 threads.
const THREADPOOLCTL: &str = "
class Library:
    def __init__(self, number):
        self.num_threads = number
    def info(self):
        return {'internal_api': 'openmp', 'filepath': '/lib/libgomp.so.1'}
    def set_num_threads(self, number):
        self.num_threads = number
class ThreadpoolController:
    lib_controllers = [Library(2), Library(8)]
";

#[test]
fn apply_of_the_python_package_never_raises_a_number() {
    let prefix = prefix();
    fs::write(prefix.path().join("threadpoolctl.py"), THREADPOOLCTL).unwrap();
    let path = [packages().join("python"), prefix.path().to_owned()];
    let code = "import creel; print([c[1:3] for c in creel.apply(4) if 'gomp' in c.what])";
    let mut command = python(&["-c", code]);
    command.env("PYTHONPATH", std::env::join_paths(path).unwrap());
    let Some(changes) = last_line(&mut command, prefix.path()) else {
        return;
    };
    assert_eq!(changes, "[(2, 2), (8, 4)]");
    // Without threadpoolctl, it says that it cannot size what numpy has loaded.
    let code = "import sys, creel
sys.modules['numpy'], sys.modules['threadpoolctl'] = sys, None
print(creel.apply(4)[0].note)";
    let mut command = python(&["-c", code]);
    command.env("PYTHONPATH", packages().join("python"));
    let note = last_line(&mut command, prefix.path()).unwrap();
    assert!(note.contains("threadpoolctl is not installed"), "{note}");
}

#[test]
fn the_python_wheel_installs() {
    let prefix = prefix();
    let site = prefix.path().join("site");
    let mut install = python(&[
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-build-isolation",
        "--target",
    ]);
    install.arg(&site).arg(packages().join("python"));
    install.env("CREEL_LIBRARY", newest(".so"));
    // The wheel also contains the program `creel`. We take `true` in its place, because the test
    // only checks that the wheel can start it.
    install.env("CREEL_TOOL", "/bin/true");
    let installed = install.output();
    if !installed.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: pip is not installed");
        return;
    }
    assert!(site.join("creel/py.typed").exists());
    // This runs without the library of the prefix, because the wheel contains its own.
    let out = python(&["-c", WORKERS])
        .env("PYTHONPATH", &site)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), expected());
    let run = python(&["-m", "creel"]).env("PYTHONPATH", &site).status();
    assert!(run.unwrap().success());
}

#[test]
fn the_npm_package_throws_if_its_program_is_missing() {
    let code = "try { require(process.argv[1]).workers() } catch (e) { console.log(e.message) }";
    let mut node = Command::new("node");
    node.args(["-e", code]).arg(packages().join("npm"));
    if let Some(message) = last_line(&mut node, Path::new("/")) {
        assert!(message.contains("is missing"), "{message}");
    }
}

#[test]
fn the_own_tests_of_the_packages_pass() {
    let prefix = prefix();
    // Since Python 3.13, a variable and an option change the number of CPUs that it reports.
    for python in ["/usr/bin/python3", "python3.13"] {
        if is_installed(python, "--version") {
            let mut test = Command::new(python);
            test.arg(packages().join("python/test.py"));
            test.env("LD_LIBRARY_PATH", prefix.path().join("lib"));
            test.env("PYTHONDONTWRITEBYTECODE", "1");
            let out = test.output().unwrap();
            assert!(out.status.success(), "{out:?}");
        }
    }
    let mut node = Command::new("node");
    node.arg(packages().join("npm/test.js"));
    if let Some(printed) = last_line(&mut node, Path::new("/")) {
        assert_eq!(printed, "ok");
    }
}

#[test]
fn the_cabal_package_sizes_dependents() {
    if !is_installed("cabal", "--version") || !is_installed("ghc", "--version") {
        return;
    }
    // libcreel is not installed here, because the package must work without it.
    let folder = tempfile::tempdir().unwrap();
    let project = copied("haskell", folder.path());
    // cabal needs no registry, because everything comes with the compiler.
    let config = folder.path().join("config");
    fs::write(&config, "").unwrap();
    let cabal = |wrapper: &[&str], program: &str, options: &[&str]| {
        let cabal = ["timeout", "300", "cabal", "run", "-v0", "--offline"];
        let words = [wrapper, &cabal, options, &[program]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(&project);
        command.env("HOME", folder.path());
        command.env("CABAL_CONFIG", &config);
        command
    };
    let run = |wrapper: &[&str], program: &str| {
        last_line(&mut cabal(wrapper, program, &[]), folder.path()).unwrap()
    };
    assert_eq!(run(&["env"], "exe:sized"), expected());
    assert_eq!(run(&["taskset", "-c", "0"], "exe:sized"), "1");
    let output = cabal(&["env"], "exe:masked", &[]).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = output.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].contains("Creel.setMask") && lines[1] == "1",
        "{output}"
    );
    // This program narrows its own mask. It ends when GHC's number of capabilities (its threads
    // that run Haskell code) has followed the mask.
    let output = run(&["env"], "exe:follows");
    assert_eq!(output.lines().last(), Some("1"), "{output}");
    // With -dynamic, the linker cannot replace the runtime's function, so the program warns.
    let options = ["--enable-executable-dynamic", "--builddir=dynamic"];
    let out = cabal(&["env"], "exe:sized", &options).output().unwrap();
    let warning = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{out:?}");
    assert!(warning.contains("linked with -dynamic"), "{out:?}");
}

#[test]
fn the_crystal_shard_uses_jobs_and_the_budget() {
    if !is_installed("crystal", "--version") {
        return;
    }
    let folder = prefix();
    let program = folder.path().join("jobs");
    let source = folder.path().join("jobs.cr");
    copied("crystal", folder.path());
    let text = "require \"./crystal/src/creel\"
puts ENV[\"CRYSTAL_WORKERS\"]? || 4
";
    fs::write(&source, text).unwrap();
    let mut build = Command::new("crystal");
    build.args(["build", "-o"]).arg(&program).arg(&source);
    last_line(&mut build, folder.path()).unwrap();
    let run = |words: &[&str], set: Option<&str>| {
        let mut command = Command::new(&program);
        command.args(words).env_remove("CRYSTAL_WORKERS");
        command.envs(set.map(|count| ("CRYSTAL_WORKERS", count)));
        last_line(&mut command, folder.path()).unwrap()
    };
    assert_eq!(run(&[], None), expected());
    for words in [
        &["--jobs", "3"][..],
        &["x", "-j3"],
        &["--jobs=3"],
        &["-j", "3"],
    ] {
        assert_eq!(run(words, None), "3", "{words:?}");
    }
    assert_eq!(run(&["--", "--jobs", "3"], None), expected());
    assert_eq!(
        run(&["--jobs", "3"], Some("7")),
        "7",
        "a variable that is set must not change"
    );
    // The program must reject a number of workers that would crash Crystal's runtime.
    let mut many = Command::new(&program);
    many.args(["--jobs", "100000"])
        .env_remove("CRYSTAL_WORKERS");
    let out = many
        .env("LD_LIBRARY_PATH", folder.path().join("lib"))
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1), "{out:?}");
}

#[test]
fn the_common_lisp_package_returns_the_budget() {
    if !is_installed("sbcl", "--version") {
        return;
    }
    let prefix = prefix();
    let mut command = Command::new("sbcl");
    command.args(["--noinform", "--non-interactive", "--no-userinit"]);
    command.args(["--eval", "(require :asdf)", "--eval"]);
    command.arg("(handler-bind ((warning #'muffle-warning)) (asdf:load-system :cffi))");
    command
        .arg("--load")
        .arg(packages().join("lisp/creel.lisp"));
    command.args(["--eval", "(format t \"~&~a~%\" (creel:workers))"]);
    command.env("HOME", prefix.path());
    command.env("CL_SOURCE_REGISTRY", "/usr/share/common-lisp//:");
    // Debian 12 calls the folder cl-cffi.
    let sources = Path::new("/usr/share/common-lisp/source");
    let names = ["cffi", "cl-cffi"];
    if names.iter().any(|name| sources.join(name).exists()) {
        assert_eq!(last_line(&mut command, prefix.path()).unwrap(), expected());
    } else {
        eprintln!("skipped: CFFI is not installed");
    }
}

#[test]
fn the_go_module_works_without_cgo() {
    if !is_installed("go", "version") {
        return;
    }
    let mut test = Command::new("go");
    test.args(["test", "-count=1", "."])
        .current_dir(packages().join("go"));
    test.env("CREEL_EXPECTED", expected())
        .env("CGO_ENABLED", "0");
    assert!(
        last_line(&mut test, Path::new("/"))
            .unwrap()
            .starts_with("ok")
    );
    for target in ["arm64", "riscv64"] {
        let mut build = Command::new("go");
        build
            .args(["build", "."])
            .current_dir(packages().join("go"));
        build.env("GOARCH", target).env("CGO_ENABLED", "0");
        last_line(&mut build, Path::new("/")).unwrap();
    }
}

#[test]
fn go_get_takes_the_module_from_a_proxy() {
    if !is_installed("go", "version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (proxy, user) = (folder.path().join("proxy"), folder.path().join("user"));
    fs::create_dir(&user).unwrap();
    let mut pack = Command::new(packages().join("../.ci/go-proxy"));
    pack.arg(&proxy);
    let Some(module) = last_line(&mut pack, Path::new("/")) else {
        return;
    };
    let program = format!(
        "package main\nimport creel \"{module}\"\nfunc main() {{ println(creel.Workers()) }}\n"
    );
    fs::write(user.join("main.go"), program).unwrap();
    let go = |words: &[&str]| {
        let mut command = Command::new("go");
        command.args(words).current_dir(&user);
        command.env("GOPROXY", format!("file://{}", proxy.display()));
        command.env("GONOSUMDB", "*").env("GOFLAGS", "-modcacherw");
        command.env("GOPATH", folder.path().join("path"));
        let out = command.env("CGO_ENABLED", "0").output().unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    go(&["mod", "init", "user"]);
    go(&["get", &module]);
    let printed = go(&["run", "."]);
    assert_eq!(printed.trim(), expected());
}
