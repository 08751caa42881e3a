//! Code of the program that must not unwind into the runtime.
//!
//! A thread that waits lends parts of its stack to other threads, for example the second closure of
//! a join. While it waits, it may run code of the program. If this code unwound, the thread would
//! free that part of its stack while other threads still use it.

/// Calls `f`. If it panics, this aborts the process.
pub(crate) fn no_unwind<R>(f: impl FnOnce() -> R) -> R {
    struct AbortOnUnwind;

    impl Drop for AbortOnUnwind {
        fn drop(&mut self) {
            eprintln!("creel: code that must not panic has panicked; ending the process");
            std::process::abort();
        }
    }

    let guard = AbortOnUnwind;
    let result = f();
    std::mem::forget(guard);
    result
}
