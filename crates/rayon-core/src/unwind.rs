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

/// Aborts the process when it is dropped. Forget it once the dangerous part is over.
pub(crate) struct AbortOnDrop(pub(crate) &'static str);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        eprintln!("rayon-core on creel: {}; ending the process", self.0);
        std::process::abort();
    }
}
