//! Finds out what a program is before it is started.

use super::elf::{self, Facts, Ghc};
use anyhow::Result;
use creel_console::{Exit, Failure};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Read,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

/// How many interpreters a script may name one after the other; the kernel's own bound is 5.
const INTERPRETERS_MAX: usize = 5;
/// How much of a script is searched for what it will start.
const SCRIPT_MAX: u64 = 64 << 10;

/// A runtime that chooses its number of threads by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    Go,
    Ghc(Ghc),
    /// The launcher `java` itself, which takes arguments.
    Java,
    /// A script that will start `java`.
    JavaScriptLauncher,
    Node,
    Python,
    Erlang,
    Ruby,
    OpenMp,
    Mono,
    DotNet,
    Crystal,
    Rayon,
    Tokio,
    Julia,
    Ocaml,
    /// A shell's script: what it starts is not known.
    Shell,
    Unknown,
}

/// A program found, and what it is.
#[derive(Debug)]
pub struct Program {
    pub path: PathBuf,
    pub runtime: Runtime,
    /// How that was told: "it links libgomp".
    pub because: String,
    /// Whether no preloaded library reaches it.
    pub is_static: bool,
}

/// Finds a command as a shell would, and looks into it.
pub fn identify(command: &OsStr) -> Result<Program> {
    let path = find(command)?;
    let mut because = String::new();
    let mut looked = path.clone();
    for _ in 0..INTERPRETERS_MAX {
        let head = head(&looked)?;
        if head.starts_with(b"\x7fELF") {
            return Ok(from_elf(path, &looked, because));
        }
        let Some(interpreter) = interpreter(&head) else {
            break;
        };
        because = format!("a script of {}, ", interpreter.display());
        if is_shell(&interpreter) {
            let (runtime, told) = from_shell_script(&looked);
            return Ok(Program {
                path,
                runtime,
                because: because + told,
                is_static: false,
            });
        }
        looked = find(interpreter.as_os_str())?;
    }
    Ok(Program {
        path,
        runtime: Runtime::Unknown,
        because: because + "neither an ELF file nor a script",
        is_static: false,
    })
}

/// Resolves a command by `PATH`.
///
/// Fails as a shell does: code 127 if there is none, 126 if it cannot be executed.
fn find(command: &OsStr) -> Result<PathBuf> {
    let fail = |code, reason: &str| {
        let text = format!("{}: {reason}", command.display());
        Err(anyhow::Error::from(Failure::new(code, text)))
    };
    if command.as_bytes().contains(&b'/') {
        let path = PathBuf::from(command);
        return match is_executable(&path) {
            Some(true) => Ok(path),
            Some(false) => fail(Exit::NotExecutable, "is not an executable file"),
            None => fail(Exit::NotFound, "there is no such program"),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut found = std::env::split_paths(&folders).map(|folder| folder.join(command));
    match found.find(|path| is_executable(path) == Some(true)) {
        Some(path) => Ok(path),
        None => fail(Exit::NotFound, "there is no such program in PATH"),
    }
}

/// `None` if there is no such file.
fn is_executable(path: &Path) -> Option<bool> {
    let data = path.metadata().ok()?;
    Some(data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn head(path: &Path) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    // A program may be executable and not readable: then it is merely unknown.
    if let Ok(file) = File::open(path) {
        file.take(256).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// The program that a `#!` line names; behind `env`, the one that env starts.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let mut words = line
        .split(|b| b.is_ascii_whitespace())
        .filter(|w| !w.is_empty());
    let first = Path::new(OsStr::from_bytes(words.next()?));
    if first.file_name()? != "env" {
        return Some(first.into());
    }
    let plain = |word: &&[u8]| !word.starts_with(b"-") && !word.contains(&b'=');
    Some(PathBuf::from(OsStr::from_bytes(words.find(plain)?)))
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn is_shell(interpreter: &Path) -> bool {
    let shells = ["sh", "bash", "dash", "zsh", "ksh", "ash", "fish"];
    shells.contains(&name(interpreter).as_str())
}

/// What a shell's script will start, if it says so.
fn from_shell_script(script: &Path) -> (Runtime, &'static str) {
    let mut text = String::new();
    if let Ok(file) = File::open(script) {
        let mut bytes = Vec::new();
        if file.take(SCRIPT_MAX).read_to_end(&mut bytes).is_ok() {
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
    }
    let launches = |words: &[&str]| words.iter().any(|w| text.contains(w));
    if launches(&["JAVA_HOME", "JAVACMD", "exec java "]) {
        (Runtime::JavaScriptLauncher, "which starts java")
    } else if launches(&["erlexec", "erl_call", "exec erl "]) || starts_erl(&text) {
        (Runtime::Erlang, "which starts erl")
    } else if let Some(runtime) = by_name(&name(script)) {
        (runtime, "named like the runtime that it starts")
    } else {
        (Runtime::Shell, "whose children are not known")
    }
}

/// Elixir's launcher builds its command from a variable.
fn starts_erl(text: &str) -> bool {
    text.contains("ERL_EXEC") || text.contains("ERTS_BIN")
}

fn from_elf(path: PathBuf, elf: &Path, script: String) -> Program {
    // /usr/bin/python3 is a link to python3.11: the real name tells more.
    let real = elf.canonicalize().unwrap_or_else(|_| elf.to_owned());
    let Some(facts) = elf::read(&real) else {
        return Program {
            path,
            runtime: Runtime::Unknown,
            because: script + "an ELF file that cannot be read",
            is_static: false,
        };
    };
    let (runtime, told) = from_facts(&facts, &name(&real));
    Program {
        path,
        runtime,
        because: script + &told,
        is_static: facts.is_static,
    }
}

/// The rule for each runtime, the surest sign first.
fn from_facts(facts: &Facts, name: &str) -> (Runtime, String) {
    if facts.go {
        return (Runtime::Go, "it holds Go's build information".into());
    }
    if let Some(ghc) = facts.ghc {
        let kind = if ghc.threaded { "" } else { "non-" };
        let told = format!("GHC linked it with the {kind}threaded runtime");
        return (Runtime::Ghc(ghc), told);
    }
    let by_library = [
        ("libjli.", Runtime::Java),
        ("libnode.", Runtime::Node),
        ("libpython", Runtime::Python),
        ("libruby", Runtime::Ruby),
        ("libmonosgen", Runtime::Mono),
        ("libjulia", Runtime::Julia),
    ];
    let by_mark = [
        ("CRYSTAL_WORKERS", Runtime::Crystal),
        ("RAYON_NUM_THREADS", Runtime::Rayon),
        ("TOKIO_WORKER_THREADS", Runtime::Tokio),
        ("DOTNET_PROCESSOR_COUNT", Runtime::DotNet),
        ("OCAMLRUNPARAM", Runtime::Ocaml),
    ];
    let links = |library: &str| facts.needed.iter().any(|n| n.starts_with(library));
    if let Some((library, runtime)) = by_library.into_iter().find(|(l, _)| links(l)) {
        return (
            runtime,
            format!("it links {}", library.trim_end_matches('.')),
        );
    }
    if let Some(runtime) = by_name(name) {
        return (runtime, format!("its file is named {name}"));
    }
    if let Some((mark, runtime)) = by_mark.into_iter().find(|(m, _)| facts.marks.contains(m)) {
        return (runtime, format!("it reads {mark}"));
    }
    let openmp = ["libgomp.", "libomp.", "libiomp5."];
    if let Some(library) = openmp.into_iter().find(|l| links(l)) {
        let library = library.trim_end_matches('.');
        return (Runtime::OpenMp, format!("it links {library}"));
    }
    (Runtime::Unknown, "no known runtime in it".into())
}

/// The runtime that a file name stands for.
fn by_name(name: &str) -> Option<Runtime> {
    let names = [
        ("java", Runtime::Java),
        ("node", Runtime::Node),
        ("python", Runtime::Python),
        ("ruby", Runtime::Ruby),
        ("beam", Runtime::Erlang),
        ("erlexec", Runtime::Erlang),
        ("mono", Runtime::Mono),
        ("dotnet", Runtime::DotNet),
        ("julia", Runtime::Julia),
    ];
    let named = names
        .into_iter()
        .find(|(prefix, _)| is_versioned(name, prefix));
    named.map(|(_, runtime)| runtime)
}

/// Whether a file name is `prefix` and a version: `python3.11`, `mono-sgen`, `beam.smp`.
fn is_versioned(name: &str, prefix: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix) else {
        return false;
    };
    let version = |c: char| c.is_ascii_digit() || ".-_".contains(c);
    rest.chars().all(version) || matches!(rest, ".smp" | "-sgen" | "js")
}

/// The command and its arguments.
pub fn split(command: &[OsString]) -> Result<(&OsString, &[OsString])> {
    let missing = || Failure::new(Exit::Usage, "no program was given").into();
    command.split_first().ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_read_as_the_kernel_and_env_do() {
        let named = |head: &str| interpreter(head.as_bytes()).map(|p| p.display().to_string());
        assert_eq!(named("#!/bin/sh\nx"), Some("/bin/sh".into()));
        assert_eq!(named("#! /usr/bin/perl -w\n"), Some("/usr/bin/perl".into()));
        assert_eq!(named("#!/usr/bin/env python3\n"), Some("python3".into()));
        assert_eq!(
            named("#!/usr/bin/env -S X=1 ruby -w\n"),
            Some("ruby".into())
        );
        assert_eq!(named("#!\n"), None);
        assert_eq!(named("\x7fELF"), None);
    }

    #[test]
    fn a_name_is_the_runtime_or_one_of_its_versions() {
        assert!(is_versioned("python3.11", "python"));
        assert!(is_versioned("beam.smp", "beam"));
        assert!(is_versioned("nodejs", "node"));
        assert!(!is_versioned("node-exporter", "node"));
        assert!(!is_versioned("javac", "java"));
    }
}
