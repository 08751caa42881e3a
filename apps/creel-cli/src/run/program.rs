//! Finds out which program and which runtime a command will start, before we start it.

use super::{
    facts::{self, Facts, Preload},
    runtime::{Runtime, by_name, is_versioned},
    shell,
    variables::Variables,
    wrappers,
};
use anyhow::Result;
use creel_console::{Exit, Failure};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Read,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

/// The largest number of wrappers, scripts and shells that we follow. For interpreters, the limit
/// of the kernel is 5.
const DEPTH_MAX: usize = 8;
/// The number of bytes of a script that we search for commands.
const SCRIPT_MAX: u64 = 64 << 10;
/// The largest number of programs of one script that we inspect.
const COMMANDS_MAX: usize = 8;

/// A program that we have found, with its runtime.
#[derive(Debug)]
pub struct Program {
    /// The path to execute, found from the first word of the command.
    pub path: PathBuf,
    /// The runtimes of the program. A script may start several.
    pub runtimes: Vec<Runtime>,
    /// The evidence for the runtime, for example "it links libgomp".
    pub because: String,
    /// The index of the first argument of the program in the command. It is `None` if a script
    /// starts the program, because we can set only variables then.
    pub arguments_at: Option<usize>,
    /// Every word that may be an argument of the runtime: words of the command and of scripts.
    pub words: Vec<OsString>,
    /// The changes that wrappers make to the variables.
    pub variables: Variables,
    /// Whether a preloaded library has an effect on the program.
    pub preload: Preload,
    pub notes: Vec<String>,
}

/// Finds a command as a shell does, follows wrappers to the program that they start, and identifies
/// the runtime of that program.
pub fn identify(command: &[OsString]) -> Result<Program> {
    let (first, _) = split(command)?;
    let path = find(first)?;
    let mut inspection = Inspection::default();
    inspection.command(command, &path, 0, Some(1), 0);
    if inspection.runtimes.is_empty() {
        inspection.runtimes.push(Runtime::Unknown);
    }
    inspection.words.extend_from_slice(&command[1..]);
    Ok(Program {
        path,
        words: inspection.words,
        runtimes: inspection.runtimes,
        because: inspection.because.join(", "),
        arguments_at: inspection.arguments_at,
        variables: inspection.variables,
        preload: inspection.preload,
        notes: inspection.notes,
    })
}

/// Returns a program that is not on this machine, of which we know only the runtime.
pub fn assumed(command: &[OsString], runtime: Runtime) -> Program {
    Program {
        path: PathBuf::from(&command[0]),
        runtimes: vec![runtime],
        because: String::new(),
        arguments_at: None,
        words: command[1..].to_vec(),
        variables: Variables::default(),
        preload: Preload::Loaded,
        notes: Vec::new(),
    }
}

/// The facts that we have found about a command so far.
#[derive(Default)]
struct Inspection {
    runtimes: Vec<Runtime>,
    because: Vec<String>,
    arguments_at: Option<usize>,
    words: Vec<OsString>,
    variables: Variables,
    preload: Preload,
    notes: Vec<String>,
}

impl Inspection {
    /// Inspects `command[at..]`, whose program is at `path`. `arguments_at` is the index at which
    /// we can insert arguments, if we can.
    fn command(
        &mut self,
        command: &[OsString],
        path: &Path,
        at: usize,
        arguments_at: Option<usize>,
        depth: usize,
    ) {
        if depth >= DEPTH_MAX {
            return;
        }
        let own = &command[at..];
        if let Some(unwrap_one) = wrappers::unwrap_one(own)
            && let Some(inner) = wrapped(path, &own[unwrap_one.at])
        {
            self.because.push(format!("{} starts", name(path)));
            self.notes.extend(unwrap_one.note);
            self.variables.then(unwrap_one.variables);
            let next = arguments_at.map(|at| at + unwrap_one.at);
            return self.command(command, &inner, at + unwrap_one.at, next, depth + 1);
        }
        if is_shell(path)
            && let Some(script) = script_argument(own)
        {
            self.because.push(format!("{} -c", name(path)));
            return self.script(&script, &own[1..], depth + 1);
        }
        self.file(own, path, arguments_at, depth);
    }

    /// Inspects the file of the program, and follows the interpreters that it names.
    fn file(
        &mut self,
        own: &[OsString],
        path: &Path,
        mut arguments_at: Option<usize>,
        depth: usize,
    ) {
        let mut inspected = path.to_owned();
        for _ in depth..DEPTH_MAX {
            let head = head(&inspected);
            if head.starts_with(b"\x7fELF") {
                return self.elf(&inspected, arguments_at);
            }
            let Some(interpreter) = interpreter(&head) else {
                if !head.is_empty() && !head.contains(&0) {
                    // A shell runs such a file itself, and so do we (see `exec`).
                    self.because.push("a script without a #! line".into());
                    return self.shell_script(&inspected, own, depth + 1);
                }
                self.because.push("neither an ELF file nor a script".into());
                return;
            };
            self.because
                .push(format!("a script of {}", interpreter.display()));
            if is_shell(&interpreter) {
                return self.shell_script(&inspected, own, depth + 1);
            }
            // Additional arguments would go to the script and not to the runtime.
            arguments_at = None;
            match find(interpreter.as_os_str()) {
                Ok(found) => inspected = found,
                Err(_) => return,
            }
        }
    }

    fn elf(&mut self, elf: &Path, arguments_at: Option<usize>) {
        // /usr/bin/python3 is a link to python3.11, so the real name says more.
        let real = elf.canonicalize().unwrap_or_else(|_| elf.to_owned());
        let names = [name(elf), name(&real)];
        let is_named = names.iter().any(|name| by_name(name).is_some());
        let Some(facts) = facts::read(&real, is_named) else {
            self.because.push("an ELF file that cannot be read".into());
            return;
        };
        self.preload = facts.preload;
        let (runtime, evidence) = from_facts(&facts, &names);
        self.because.push(evidence);
        self.found(runtime, arguments_at);
    }

    fn found(&mut self, runtime: Runtime, arguments_at: Option<usize>) {
        if self.runtimes.is_empty() {
            self.arguments_at = arguments_at;
        }
        if runtime != Runtime::Unknown && !self.runtimes.contains(&runtime) {
            self.runtimes.push(runtime);
        }
    }

    /// Inspects a shell script in a file, by its name and by its text.
    fn shell_script(&mut self, script: &Path, own: &[OsString], depth: usize) {
        let text = text(script);
        let launches = |words: &[&str]| words.iter().any(|w| text.contains(w));
        let known = if let Some(runtime) = by_name(&name(script)) {
            Some((runtime, "named like the runtime that it starts"))
        } else if launches(&["JAVA_HOME", "JAVACMD", "exec java "]) {
            Some((Runtime::Java, "which starts java"))
        } else if launches(&["erlexec", "erl_call", "exec erl ", "ERL_EXEC", "ERTS_BIN"]) {
            Some((Runtime::Erlang, "which starts erl"))
        } else {
            None
        };
        match known {
            Some((runtime, evidence)) => {
                self.because.push(evidence.into());
                self.found(runtime, None);
            }
            None => self.script(&text, own, depth),
        }
    }

    /// Inspects the programs that a script starts. If it uses `exec`, we inspect only the programs
    /// after `exec`.
    fn script(&mut self, text: &str, own: &[OsString], depth: usize) {
        let commands = shell::commands(text);
        let is_exec = |words: &&Vec<String>| words[0] == "exec" && words.len() > 1;
        let executed: Vec<_> = commands.iter().filter(is_exec).collect();
        let last: Vec<_> = commands.iter().collect();
        let chosen = if executed.is_empty() { last } else { executed };
        let (alone, variables) = (chosen.len() == 1, self.variables.clone());
        for words in chosen.into_iter().take(COMMANDS_MAX) {
            let words = &words[usize::from(words[0] == "exec")..];
            let words = match words.first().map(String::as_str) {
                // This script is an entry point that executes its arguments.
                Some("$@") => own.get(1..).unwrap_or_default().to_vec(),
                _ => words.iter().map(OsString::from).collect(),
            };
            if let Some(first) = words.first()
                && let Ok(path) = find(first)
            {
                self.words.extend_from_slice(&words[1..]);
                self.command(&words, &path, 0, None, depth + 1);
            }
            if !alone {
                // A wrapper around a program changes the environment of this program only, so the
                // next program starts with the script's own variables.
                self.variables.clone_from(&variables);
            }
        }
        if self.runtimes.is_empty() {
            self.because.push("whose children are not known".into());
        }
        self.runtimes.push(Runtime::Shell);
    }
}

/// Finds the program that a wrapper starts.
fn wrapped(wrapper: &Path, program: &OsStr) -> Option<PathBuf> {
    let has_applets = ["busybox", "toybox"].contains(&name(wrapper).as_str());
    match find(program) {
        Ok(found) => Some(found),
        // In a small container, the applet is only inside of its wrapper.
        Err(_) => has_applets.then(|| PathBuf::from(program)),
    }
}

/// Returns the script of `sh -c SCRIPT`. Other options may precede `-c` or share its word.
fn script_argument(command: &[OsString]) -> Option<String> {
    let mut words = command[1..].iter();
    let is_c = |word: &OsStr| {
        let bytes = word.as_bytes();
        bytes.starts_with(b"-") && !bytes.starts_with(b"--") && bytes.contains(&b'c')
    };
    let dash = words.find(|word| is_c(word) || !word.as_bytes().starts_with(b"-"))?;
    let script = is_c(dash).then(|| words.next()).flatten()?;
    Some(script.to_string_lossy().into_owned())
}

/// Finds a command in `PATH`.
///
/// The exit codes of an error are those of a shell: 127 if the program does not exist, and 126 if
/// it cannot be executed.
pub fn find(command: &OsStr) -> Result<PathBuf> {
    let fail = |code, reason: &str| {
        let text = match command.is_empty() {
            true => reason.to_owned(),
            false => format!("cannot run {}: {reason}", command.display()),
        };
        Err(anyhow::Error::from(Failure::new(code, text)))
    };
    if command.is_empty() {
        return fail(Exit::NotFound, "cannot run a program with an empty name");
    }
    if command.as_bytes().contains(&b'/') {
        let path = PathBuf::from(command);
        return match is_executable(&path) {
            Some(true) => Ok(path),
            Some(false) => fail(Exit::NotExecutable, "it is not an executable file"),
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

/// Returns the interpreter that a program needs and that does not exist: the program in the `#!`
/// line of a script, or the loader that an ELF file names.
///
/// The kernel returns the error of the interpreter as if it were that of the program.
pub fn missing_interpreter(path: &Path) -> Option<PathBuf> {
    let head = head(path);
    let interpreter = match head.strip_prefix(b"#!") {
        Some(line) => {
            let line = line.split(|&b| b == b'\n').next()?;
            let mut words = line.split(|b| b.is_ascii_whitespace());
            PathBuf::from(OsStr::from_bytes(words.find(|word| !word.is_empty())?))
        }
        None => facts::loader(path)?,
    };
    (!interpreter.exists()).then_some(interpreter)
}

/// Returns whether the file is executable, or `None` if it does not exist.
fn is_executable(path: &Path) -> Option<bool> {
    let data = path.metadata().ok()?;
    Some(data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Returns the start of the file. It is empty if the file is executable but not readable.
fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    if let Ok(file) = File::open(path) {
        // After an error, we use the bytes that we have.
        let _ = file.take(256).read_to_end(&mut head);
    }
    head
}

fn text(script: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(script) {
        let _ = file.take(SCRIPT_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the program in a `#!` line, or the program that `env` starts if the line names `env`.
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

/// Identifies the runtime from the facts, the most reliable sign first. A file may have several
/// names.
fn from_facts(facts: &Facts, names: &[String]) -> (Runtime, String) {
    if let Some(version) = facts.go {
        return (
            Runtime::Go(version),
            "it contains Go's build information".into(),
        );
    }
    if let Some(ghc) = facts.ghc {
        let kind = if ghc.threaded { "" } else { "non-" };
        let evidence = format!("GHC linked it with the {kind}threaded runtime");
        return (Runtime::Ghc(ghc), evidence);
    }
    let by_library = [
        ("libjli.", Runtime::Java),
        ("libnode.", Runtime::Node),
        ("libpython", Runtime::Python),
        ("libruby", Runtime::Ruby),
        ("libmonosgen", Runtime::Mono),
        ("libjulia", Runtime::Julia),
        ("libR.", Runtime::R),
    ];
    let by_mark = [
        ("CRYSTAL_WORKERS", Runtime::Crystal),
        ("RAYON_NUM_THREADS", Runtime::Rayon),
        ("TOKIO_WORKER_THREADS", Runtime::Tokio),
        ("DOTNET_PROCESSOR_COUNT", Runtime::DotNet),
        // This is a .NET host, in its own file or in one file with the program.
        ("DOTNET_ROOT", Runtime::DotNet),
        ("OCAMLRUNPARAM", Runtime::Ocaml),
    ];
    let links = |library: &str| facts.needed.iter().any(|n| n.starts_with(library));
    if links("libjli.") && !is_java(names) {
        return (Runtime::Jdk, "it links libjli but is not java".into());
    }
    if facts.marks.len() > 3 {
        // A program that knows the variables of several runtimes, as creel does, has none of them.
        return (
            Runtime::Unknown,
            "it reads the variables of several runtimes".into(),
        );
    }
    if let Some((library, runtime)) = by_library.into_iter().find(|(l, _)| links(l)) {
        let library = library.trim_end_matches('.');
        return (runtime, format!("it links {library}"));
    }
    if let Some((name, runtime)) = names.iter().find_map(|n| Some((n, by_name(n)?))) {
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
    (Runtime::Unknown, "it contains no known runtime".into())
}

/// Returns whether the program accepts options of the Java virtual machine. The name of the file
/// after resolving all links decides, because the tools of the JDK differ only in their code.
fn is_java(names: &[String]) -> bool {
    let real = names.last().map(String::as_str).unwrap_or_default();
    ["java", "javaw"]
        .iter()
        .any(|name| is_versioned(real, name))
}

/// Splits a command into the program and its arguments.
pub fn split(command: &[OsString]) -> Result<(&OsString, &[OsString])> {
    let missing = || Failure::new(Exit::Usage, "no program given: use creel run -- PROGRAM").into();
    command.split_first().ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shebang_lines_are_parsed() {
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
    fn the_script_of_sh_c_is_found() {
        let script = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            script_argument(&words)
        };
        assert_eq!(script(&["sh", "-c", "exec x"]), Some("exec x".into()));
        assert_eq!(script(&["bash", "-e", "-uc", "x"]), Some("x".into()));
        assert_eq!(script(&["sh", "file", "-c"]), None);
        assert_eq!(script(&["bash", "--login"]), None);
    }
}
