//! Finds out which program and which runtime a command will start, before we start it.

use super::{
    executable::{find, find_below, head},
    facts::{self, Facts, Preload},
    runtime::{Runtime, by_name, is_versioned},
    shell::{self, ShellInput},
    variables::Variables,
    wrappers,
};
use anyhow::Result;
use creel_console::{Exit, Failure};
use creel_topology::CpuSet;
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The largest number of scripts and shells that we follow. For interpreters, the limit of the
/// kernel is 5.
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
    /// The CPUs to which a wrapper narrows the mask, if we know them.
    pub cpus: Option<CpuSet>,
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
    if inspection.root.is_some() {
        inspection.preload = Preload::OtherRoot;
    }
    Ok(Program {
        path,
        words: inspection.words,
        runtimes: inspection.runtimes,
        because: inspection.because.join(", "),
        arguments_at: inspection.arguments_at,
        variables: inspection.variables,
        preload: inspection.preload,
        cpus: inspection.cpus,
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
        cpus: None,
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
    cpus: Option<CpuSet>,
    /// The folder that a wrapper makes the root of the program.
    root: Option<PathBuf>,
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
            self.because
                .push("whose scripts are nested too deeply".into());
            return;
        }
        let (mut path, mut at, mut arguments_at) = (path.to_owned(), at, arguments_at);
        // Each wrapper takes at least one word, so this ends.
        while let Some(unwrapped) = wrappers::unwrap_one(&command[at..]) {
            let wrapper = name(&path);
            self.notes.extend(unwrapped.note);
            self.variables.then(unwrapped.variables);
            self.narrow(unwrapped.cpus);
            if let Some(root) = unwrapped.root {
                self.change_root(Path::new(&command[at + root]));
            }
            at += unwrapped.at;
            if let Some(line) = unwrapped.line {
                let rest = command.get(at..).unwrap_or_default();
                let words: Vec<_> = line.iter().chain(rest).cloned().collect();
                if let Some(first) = words.first()
                    && let Some(inner) = self.find(&wrapper, first)
                {
                    self.because.push(format!("{wrapper} starts"));
                    self.words.extend_from_slice(&words[1..]);
                    self.command(&words, &inner, 0, None, depth + 1);
                }
                return;
            }
            let Some(inner) = self.find(&wrapper, &command[at]) else {
                return;
            };
            self.because.push(format!("{wrapper} starts"));
            path = inner;
            arguments_at = arguments_at.map(|first| first + unwrapped.at);
        }
        let own = &command[at..];
        match shell::input(own).filter(|_| is_shell(&path)) {
            Some(ShellInput::Line(at)) => {
                self.because.push(format!("{} -c", name(&path)));
                let line = own[at].to_string_lossy().into_owned();
                self.script(&line, &own[at + 1..], depth + 1);
            }
            Some(ShellInput::File(at)) if Path::new(&own[at]).is_file() => {
                self.because.push(format!("{} runs a script", name(&path)));
                self.shell_script(Path::new(&own[at]), &own[at..], depth + 1);
            }
            _ => self.file(own, &path, arguments_at, depth),
        }
    }

    /// Finds the program that a wrapper starts, or notes that it is not there.
    fn find(&mut self, wrapper: &str, program: &OsStr) -> Option<PathBuf> {
        let found = match &self.root {
            Some(root) => find_below(root, program),
            None => find(program).ok(),
        };
        // An applet of busybox or toybox need not be a file of its own, for example in a small
        // container. We then use its name.
        let applet = || {
            let has_applets = ["busybox", "toybox"].contains(&wrapper);
            has_applets.then(|| PathBuf::from(program))
        };
        let found = found.or_else(applet);
        if found.is_none() {
            let program = program.display();
            self.because.push(format!(
                "{wrapper} starts {program}, which creel cannot find"
            ));
        }
        found
    }

    /// Records the CPUs to which a wrapper narrows the mask. If several wrappers do so, only the
    /// common CPUs are left.
    fn narrow(&mut self, cpus: Option<CpuSet>) {
        self.cpus = match (self.cpus.take(), cpus) {
            (Some(outer), Some(inner)) => Some(&outer & &inner),
            (outer, inner) => outer.or(inner),
        };
    }

    /// Records that a wrapper changes the root folder. We look for the next programs below the new
    /// root folder.
    fn change_root(&mut self, root: &Path) {
        let root = match &self.root {
            Some(outer) => outer.join(root.strip_prefix("/").unwrap_or(root)),
            None => root.to_owned(),
        };
        let is_ours = root.canonicalize().is_ok_and(|root| root == Path::new("/"));
        self.root = (!is_ours).then_some(root);
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
                    // A shell executes a text file without a `#!` line as a script of its own, and
                    // so do we (see `exec`).
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
            match self.find(&name(&inspected), interpreter.as_os_str()) {
                Some(found) => inspected = found,
                None => return,
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
            // The entry point of a container often executes its own arguments (`exec "$@"`), so we
            // replace `$@` by them.
            let words = words.iter().flat_map(|word| match word.as_str() {
                "$@" => own.get(1..).unwrap_or_default().to_vec(),
                word => vec![word.into()],
            });
            let words: Vec<OsString> = words.collect();
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

/// Identifies the runtime from the facts and the names of the file. We check the most reliable sign
/// first. `names` has the name in the command and the name after all links.
fn from_facts(facts: &Facts, names: &[String]) -> (Runtime, String) {
    if let Some(version) = facts.go {
        return (
            Runtime::Go(version),
            "its file contains Go's build information".into(),
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

/// Returns whether the program accepts options of the Java virtual machine. All tools of the JDK
/// link the same library, so we can recognise `java` only by the name of its file. We use the name
/// after all links.
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
}
