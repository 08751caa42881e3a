//! Finds executable files, and explains why a file cannot be executed.

use super::facts;
use anyhow::Result;
use creel_console::{Exit, Failure};
use nix::{errno::Errno, unistd::AccessFlags};
use std::{
    ffi::OsStr,
    fs::File,
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Finds a command in `PATH`. A command that contains a slash is a path itself.
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
        return match check_executable(&path) {
            Ok(()) => Ok(path),
            Err(Errno::ENOENT) => fail(Exit::NotFound, "there is no such program"),
            Err(Errno::EACCES) if path.is_file() => {
                fail(Exit::NotExecutable, "it is not an executable file")
            }
            Err(Errno::EISDIR) => fail(Exit::NotExecutable, "it is a folder or a device"),
            Err(error) => fail(Exit::NotExecutable, error.desc()),
        };
    }
    let mut forbidden = None;
    for path in folders().into_iter().map(|folder| folder.join(command)) {
        match check_executable(&path) {
            Ok(()) => return Ok(path),
            Err(Errno::EACCES) if path.is_file() => forbidden = forbidden.or(Some(path)),
            Err(_) => {}
        }
    }
    match forbidden {
        Some(path) => fail(
            Exit::NotExecutable,
            &format!("{} is not an executable file", path.display()),
        ),
        None => fail(Exit::NotFound, "there is no such program in PATH"),
    }
}

fn folders() -> Vec<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&folders).collect()
}

/// Finds a command like [`find`], but below another root folder. An absolute link there names a
/// file below that folder, but we resolve it from our own root. In this case, the result can be
/// wrong or missing.
pub fn find_below(root: &Path, command: &OsStr) -> Option<PathBuf> {
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let is_path = command.as_bytes().contains(&b'/');
    let folders = if is_path {
        vec![PathBuf::new()]
    } else {
        folders()
    };
    let mut paths = folders.iter().map(|folder| below(&folder.join(command)));
    paths.find(|path| check_executable(path).is_ok())
}

/// The reason why an interpreter keeps a program from starting.
pub struct InterpreterFault {
    pub why: String,
    /// Whether a file does not exist. Otherwise it exists and cannot be executed.
    pub is_missing: bool,
}

/// The largest number of interpreters that the kernel follows, if the interpreter of a script is a
/// script itself.
const INTERPRETERS_MAX: usize = 5;

/// Returns why the interpreter of a program cannot be executed, or `None` if it can. The
/// interpreter is the program in the `#!` line of a script, or the loader that an ELF file names.
/// It may need an interpreter itself.
pub fn interpreter_fault(path: &Path) -> Option<InterpreterFault> {
    let mut program = path.to_owned();
    for _ in 0..INTERPRETERS_MAX {
        let head = head(&program);
        let interpreter = match head.strip_prefix(b"#!") {
            // The kernel splits at blanks and tabs only.
            Some(line) => {
                let mut words = line.split(|b| matches!(b, b' ' | b'\t' | b'\n' | 0));
                PathBuf::from(OsStr::from_bytes(words.find(|word| !word.is_empty())?))
            }
            None => facts::loader(&program)?,
        };
        let is_own = program == path;
        let named = match is_own {
            true => format!("its interpreter {}", shown(&interpreter)),
            false => format!(
                "the interpreter {} of its interpreter {}",
                shown(&interpreter),
                program.display()
            ),
        };
        let fault = |what: &str, is_missing| InterpreterFault {
            why: format!("{named} {what}"),
            is_missing,
        };
        match check_executable(&interpreter) {
            Ok(()) => program = interpreter,
            Err(Errno::ENOENT) if interpreter.as_os_str().as_bytes().ends_with(b"\r") => {
                let what = "does not: the line ends with a carriage return, as on Windows, which is \
                            part of the name. Remove it from the file";
                return Some(fault(what, true));
            }
            Err(Errno::ENOENT) => return Some(fault("does not", true)),
            Err(_) => return Some(fault("is not executable", false)),
        }
    }
    Some(InterpreterFault {
        why: "its interpreters are scripts that need too many other interpreters: the system \
              allows five"
            .into(),
        is_missing: false,
    })
}

/// Returns a path for a message. Everything except for printable ASCII is in a visible form.
fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.chars().flat_map(char::escape_default).collect()
}

/// Returns whether a file that the kernel does not execute is not a text, so that a shell cannot
/// run it either.
pub fn is_binary(path: &Path) -> bool {
    head(path).contains(&0)
}

/// Returns an error unless this user may execute the file.
pub fn check_executable(path: &Path) -> nix::Result<()> {
    let data = path.metadata().map_err(|error| {
        let code = error.raw_os_error();
        code.map_or(Errno::EIO, Errno::from_raw)
    })?;
    if !data.is_file() {
        return Err(Errno::EISDIR);
    }
    nix::unistd::eaccess(path, AccessFlags::X_OK)
}

/// Returns the start of the file. It is empty if the file is executable but not readable.
pub fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    if let Ok(file) = File::open(path) {
        // After an error, we use the bytes that we have.
        let _ = file.take(256).read_to_end(&mut head);
    }
    head
}
