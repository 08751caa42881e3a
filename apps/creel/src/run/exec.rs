//! Becoming another program, with all that this process was given: its dispositions of signals
//! and its signal mask too.
//!
//! Rust's start-up ignores SIGPIPE, and its `Command` resets that signal and clears the mask for
//! what it starts. A program whose caller ignored SIGPIPE on purpose would so be killed by one.
//! What was inherited is therefore looked at before Rust's start-up, and put back before exec.
#![allow(unsafe_code)]

use nix::errno::Errno;
use std::{
    ffi::{CString, OsString},
    mem::MaybeUninit,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether this process was started with SIGPIPE ignored. Relaxed: written before `main`, when
/// there is one thread.
static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// The loader calls what stands in this section before Rust's start-up.
// SAFETY: `.init_array` holds pointers to functions without arguments that return nothing; a
// function that takes fewer arguments than the loader passes is fine in the C ABI.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_FIRST: extern "C" fn() = look;

extern "C" fn look() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action changes nothing; the old one is written to memory of its type.
    let done = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroed, or written by the call: every field is a number or a set of numbers.
    let action = unsafe { action.assume_init() };
    SIGPIPE_IGNORED.store(
        done == 0 && action.sa_sigaction == libc::SIG_IGN,
        Ordering::Relaxed,
    );
}

/// Executes `path` with these words and this environment beside the inherited one. Returns only
/// if that fails.
pub fn replace(
    path: &Path,
    words: &[OsString],
    variables: impl Iterator<Item = (&'static str, OsString)>,
) -> Errno {
    let own: Vec<(&str, OsString)> = variables.collect();
    let inherited = std::env::vars_os().filter(|(name, _)| !own.iter().any(|(n, _)| name == n));
    let pairs = inherited.chain(own.iter().map(|(n, v)| (OsString::from(n), v.clone())));
    let environment: Vec<CString> = pairs.filter_map(pair).collect();
    let words: Vec<CString> = words
        .iter()
        .filter_map(|word| CString::new(word.as_bytes()).ok())
        .collect();
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return Errno::ENOENT;
    };
    if !SIGPIPE_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: the default disposition runs no code of ours; what follows is an exec.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    let Err(error) = nix::unistd::execve(&path, &words, &environment);
    error
}

/// `NAME=value`; nothing for one that holds a NUL, which no environment can.
fn pair((name, value): (OsString, OsString)) -> Option<CString> {
    let mut bytes = name.into_vec();
    bytes.push(b'=');
    bytes.extend(value.into_vec());
    CString::new(bytes).ok()
}
