//! What this process was given for its signals, and how a program that it starts gets the same.
//!
//! Rust's start-up ignores SIGPIPE, and its `Command` resets that signal and clears the mask for
//! what it starts; signals that we listen to would be reset by exec. A program whose caller
//! ignored one of them on purpose (`nohup` is that) would so be ended by it. What was inherited
//! is therefore looked at before Rust's start-up, and put back before exec.
#![allow(unsafe_code)]

use std::{
    mem::MaybeUninit,
    os::unix::process::CommandExt,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
};

/// The signals that were ignored, and those that were blocked, a bit each from signal 1 on.
/// Relaxed: written before `main`, when there is one thread.
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// The signals of POSIX; what lies above is for libc's threads and real time.
const SIGNALS: std::ops::Range<i32> = 1..32;

/// The loader calls what stands in this section before Rust's start-up.
// SAFETY: `.init_array` holds pointers to functions without arguments that return nothing; a
// function that takes fewer arguments than the loader passes is fine in the C ABI.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD_AT_STARTUP: extern "C" fn() = record;

extern "C" fn record() {
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a null new mask changes nothing; the old one is written to memory of its type.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, std::ptr::null(), mask.as_mut_ptr()) };
    // SAFETY: zeroed, or written by the call: a set of numbers.
    let mask = unsafe { mask.assume_init() };
    let (mut ignored, mut blocked) = (0, 0);
    for signal in SIGNALS {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: as above, of an action.
        let done = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
        // SAFETY: zeroed, or written by the call: every field is a number or a set of numbers.
        let action = unsafe { action.assume_init() };
        ignored |= u64::from(done == 0 && action.sa_sigaction == libc::SIG_IGN) << signal;
        // SAFETY: the set was written above.
        blocked |= u64::from(unsafe { libc::sigismember(&raw const mask, signal) } == 1) << signal;
    }
    IGNORED.store(ignored, Ordering::Relaxed);
    BLOCKED.store(blocked, Ordering::Relaxed);
}

/// Whether this process was started with that signal ignored.
pub fn ignored(signal: i32) -> bool {
    IGNORED.load(Ordering::Relaxed) & 1 << signal != 0
}

/// Puts back what was inherited. Only system calls, so it may run between fork and exec; what
/// follows must be an exec.
pub fn restore() {
    for signal in SIGNALS {
        if ignored(signal) {
            // SAFETY: ignoring runs no code of ours.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        } else if signal == libc::SIGPIPE {
            // SAFETY: the default disposition runs no code of ours; what follows is an exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: it initialises the set that it is given.
    unsafe { libc::sigemptyset(mask.as_mut_ptr()) };
    // SAFETY: initialised by the call above.
    let mut mask = unsafe { mask.assume_init() };
    for signal in SIGNALS.filter(|signal| BLOCKED.load(Ordering::Relaxed) & 1 << signal != 0) {
        // SAFETY: an initialised set and a signal that exists.
        unsafe { libc::sigaddset(&raw mut mask, signal) };
    }
    // SAFETY: an initialised set; the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) };
}

/// Has what this command starts begin with what we were given.
pub fn restore_in_child(command: &mut Command) -> &mut Command {
    let hook = || {
        restore();
        Ok(())
    };
    // SAFETY: the hook makes system calls only, allocates nothing and takes no lock.
    unsafe { command.pre_exec(hook) }
}
