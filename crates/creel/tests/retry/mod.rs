//! Blocking calls of the standard library that a signal may interrupt.
//!
//! A socket with a time-out fails with `Interrupted` if a signal arrives or if the process was
//! stopped and continues. `read` and `recv` return this error to their caller. Other methods, for
//! example `read_exact` and `write_all`, repeat the call by themselves.

use std::io::{ErrorKind, Result};

/// Calls `operation` again until it is not interrupted by a signal, and returns its result.
pub fn retry<T>(mut operation: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match operation() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
