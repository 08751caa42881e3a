//! Replaces this process by another program, with the inherited signal dispositions and signal
//! mask.

use super::executable;
use crate::inherited;
use creel_console::{Exit, Failure};
use nix::errno::Errno;
use std::{
    ffi::{CString, OsStr, OsString},
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

/// The program that runs an executable file whose format the kernel does not know. execvp(3) and
/// shells do the same.
pub const SHELL: &str = "/bin/sh";

/// Executes `path` with these words, and with these variables in addition to the inherited ones.
/// Returns only if that fails.
pub fn replace(
    path: &Path,
    words: &[OsString],
    variables: impl Iterator<Item = (&'static str, OsString)>,
) -> Errno {
    let own: Vec<(&str, OsString)> = variables.collect();
    let inherited = std::env::vars_os().filter(|(name, _)| !own.iter().any(|(n, _)| name == n));
    let pairs = inherited.chain(own.iter().map(|(n, v)| (OsString::from(n), v.clone())));
    let environment: Vec<CString> = pairs.filter_map(pair).collect();
    let execute = |path: &Path, words: &[OsString]| {
        let words: Vec<CString> = words
            .iter()
            .filter_map(|word| CString::new(word.as_bytes()).ok())
            .collect();
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
            return Errno::ENOENT;
        };
        let Err(error) = nix::unistd::execve(&path, &words, &environment);
        error
    };
    inherited::restore();
    match execute(path, words) {
        Errno::ENOEXEC if !executable::is_binary(path) => {
            execute(Path::new(SHELL), &for_shell(path, words))
        }
        error => error,
    }
}

/// Explains why a program could not be executed. The exit codes are those of a shell: 127 if
/// something does not exist, and 126 otherwise.
pub fn failure(path: &Path, error: Errno) -> Failure {
    let program = path.display();
    // The kernel returns the error of an interpreter as if it were that of the program.
    let fault = executable::interpreter_fault(path)
        .filter(|_| matches!(error, Errno::ENOENT | Errno::EACCES | Errno::ELOOP));
    let code = match (&fault, error) {
        (Some(fault), _) if fault.is_missing => Exit::NotFound,
        (None, Errno::ENOENT) => Exit::NotFound,
        _ => Exit::NotExecutable,
    };
    let why = match (fault, error) {
        (Some(fault), _) => format!("the file exists, but {}", fault.why),
        (None, Errno::ENOEXEC) => {
            "this system cannot execute the file: it is for another kind of processor or damaged"
                .into()
        }
        (None, error) => error.to_string(),
    };
    Failure::new(code, format!("cannot run {program}: {why}"))
}

/// Explains why starting a command failed, with the exit codes of [`failure`]. `program` is its
/// first word.
pub fn start_failure(program: &OsStr, error: &io::Error) -> anyhow::Error {
    match executable::find(program) {
        Ok(path) => {
            let code = error.raw_os_error().unwrap_or(0);
            failure(&path, Errno::from_raw(code)).into()
        }
        Err(error) => error,
    }
}

/// Returns the words with which the shell runs a file without a format.
pub fn for_shell(path: &Path, words: &[OsString]) -> Vec<OsString> {
    let first = [SHELL.into(), path.as_os_str().to_owned()];
    let rest = words.iter().skip(1).cloned();
    first.into_iter().chain(rest).collect()
}

/// Formats a variable as `NAME=value`. Returns `None` if it contains a NUL, because the environment
/// cannot hold it.
fn pair((name, value): (OsString, OsString)) -> Option<CString> {
    let mut bytes = name.into_vec();
    bytes.push(b'=');
    bytes.extend(value.into_vec());
    CString::new(bytes).ok()
}
