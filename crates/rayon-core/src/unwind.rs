//! Handles panics that no caller can receive.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

pub(crate) type Payload = Box<dyn Any + Send>;

/// Calls `f` and catches its panic.
pub(crate) fn catch<R>(f: impl FnOnce() -> R) -> thread::Result<R> {
    catch_unwind(AssertUnwindSafe(f))
}

/// A guard that aborts the process with a message when it is dropped. Code that must not unwind
/// creates it first, and forgets it after the last step that could panic.
pub(crate) struct AbortOnDrop(pub(crate) &'static str);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        eprintln!("rayon-core on creel: {}; ending the process", self.0);
        std::process::abort();
    }
}
