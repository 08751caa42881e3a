//! The signal settings that this process has inherited, and how to pass them on to a program.
//!
//! The start-up code of Rust ignores SIGPIPE. Its `Command` resets that signal and clears the
//! signal mask of a child. In addition, exec resets signals for which we have handlers. If a caller
//! ignores a signal on purpose, as `nohup` does, the signal would therefore end the program. For
//! this reason, we record the inherited settings before the start-up code of Rust runs, and restore
//! them before exec.
#![allow(unsafe_code)]

use std::{
    mem::MaybeUninit,
    os::unix::process::CommandExt,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
};

/// The ignored and the blocked signals, with bit `n` for signal `n`. Relaxed is enough, because we
/// write them before `main`, when there is only one thread.
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// The signals of POSIX. The numbers above are for the threads of libc and for real-time signals.
const SIGNALS: std::ops::Range<i32> = 1..32;

/// The entry of the section `.init_array`. The loader calls its functions before the start-up code
/// of Rust.
// SAFETY: `.init_array` holds pointers to functions that return nothing. Our function takes fewer
// arguments than the loader passes, which the C ABI allows.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD_AT_STARTUP: extern "C" fn() = record;

extern "C" fn record() {
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a null new mask changes nothing, and the call writes the old mask to memory of its
    // type.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, std::ptr::null(), mask.as_mut_ptr()) };
    // SAFETY: the memory is zeroed or written by the call, and a set of numbers is valid for both.
    let mask = unsafe { mask.assume_init() };
    let (mut ignored, mut blocked) = (0, 0);
    for signal in SIGNALS {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a null new action changes nothing, and the call writes the old action to memory
        // of its type.
        let done = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
        // SAFETY: the memory is zeroed or written by the call, and every field is a number or a set
        // of numbers.
        let action = unsafe { action.assume_init() };
        ignored |= u64::from(done == 0 && action.sa_sigaction == libc::SIG_IGN) << signal;
        // SAFETY: the set was initialised above.
        blocked |= u64::from(unsafe { libc::sigismember(&raw const mask, signal) } == 1) << signal;
    }
    IGNORED.store(ignored, Ordering::Relaxed);
    BLOCKED.store(blocked, Ordering::Relaxed);
}

/// Returns whether this process was started with this signal ignored.
pub fn ignored(signal: i32) -> bool {
    IGNORED.load(Ordering::Relaxed) & 1 << signal != 0
}

/// Restores the inherited dispositions of signals and the inherited signal mask. The function makes
/// system calls only, so it may run between fork and exec. The caller must call exec afterwards.
pub fn restore() {
    for signal in SIGNALS {
        if ignored(signal) {
            // SAFETY: ignoring runs no code of ours.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        } else if signal == libc::SIGPIPE {
            // SAFETY: the default disposition runs no code of ours, and an exec follows.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the call initialises the set that we pass.
    unsafe { libc::sigemptyset(mask.as_mut_ptr()) };
    // SAFETY: initialised by the call above.
    let mut mask = unsafe { mask.assume_init() };
    for signal in SIGNALS.filter(|signal| BLOCKED.load(Ordering::Relaxed) & 1 << signal != 0) {
        // SAFETY: the set is initialised, and the signal exists.
        unsafe { libc::sigaddset(&raw mut mask, signal) };
    }
    // SAFETY: the set is initialised, and a null pointer means that we do not want the old one.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) };
}

/// Makes the child of this command start with the settings that we have inherited.
pub fn restore_in_child(command: &mut Command) -> &mut Command {
    let hook = || {
        restore();
        Ok(())
    };
    // SAFETY: the hook makes system calls only, allocates no memory and takes no lock.
    unsafe { command.pre_exec(hook) }
}
