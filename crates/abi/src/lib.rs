//! The C ABI: the CPU budget (`budget.rs`), the pool (`pool.rs`) and gangs (`gang.rs`). The headers
//! `include/creel.h` and `include/creel.hpp` document each function.
//!
//! You can call every function from any thread, at any time after libc has started. No function
//! unwinds into its caller. Failures are values, and errors are the numbers of `errno.h`. An
//! exception that leaves a body of a loop ends the process (see `pool.rs`).

mod budget;
mod gang;
mod pool;

use std::ffi::{CStr, c_char, c_int, c_uint};

/// The numbers of the system's `errno.h` that we return.
mod errno {
    #[cfg(not(windows))]
    pub(crate) use libc::{EAGAIN, EBUSY, ECANCELED, EDEADLK, EINVAL, EIO, ENOMEM};

    /// The numbers of Microsoft's C library.
    #[cfg(windows)]
    mod windows {
        use std::ffi::c_int;

        pub(crate) const EIO: c_int = 5;
        pub(crate) const EAGAIN: c_int = 11;
        pub(crate) const ENOMEM: c_int = 12;
        pub(crate) const EBUSY: c_int = 16;
        pub(crate) const EINVAL: c_int = 22;
        pub(crate) const EDEADLK: c_int = 36;
        pub(crate) const ECANCELED: c_int = 105;
    }
    #[cfg(windows)]
    pub(crate) use windows::*;
}

/// The version of the ABI. It changes if programs must be compiled again.
const ABI_VERSION: c_uint = 1;

/// The version of the library, as a C string.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version contains no NUL"),
    };

/// Returns the version of the ABI.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub extern "C" fn creel_abi_version() -> c_uint {
    ABI_VERSION
}

/// Returns the version of the library, for example `0.1.0`. The text lives for ever.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub extern "C" fn creel_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Writes a text and a NUL to a buffer, cut to its size. Returns the length of the whole text, like
/// `snprintf`.
///
/// # Safety
///
/// `buffer` must point to `size` writable bytes that nothing else uses, or be null.
unsafe fn write_text(text: &str, buffer: *mut c_char, size: usize) -> usize {
    if !buffer.is_null() && size > 0 {
        let length = text.len().min(size - 1);
        let bytes = buffer.cast::<u8>();
        // SAFETY: The text has at least `length` bytes, and the caller guarantees that the buffer
        // has more. They do not overlap, because nothing else uses the buffer.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), bytes, length) };
        // SAFETY: `length` is below the size of the buffer.
        let end = unsafe { bytes.add(length) };
        // SAFETY: This byte is inside of the buffer.
        unsafe { end.write(0) };
    }
    text.len()
}

/// Returns the text of a C string, or `None` if it is null or not UTF-8.
///
/// # Safety
///
/// `text` must be null or point to a string that ends with NUL and lives for `'a`.
unsafe fn text_of<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: The pointer is not null, and the caller guarantees the rest.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// Runs `f`, or returns `otherwise` if it panics. With `panic = "abort"`, the process ends instead.
fn guarded<R>(otherwise: R, f: impl FnOnce() -> R) -> R {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(otherwise)
}

/// Converts an outcome to 0 or an error number.
fn code(outcome: Result<(), c_int>) -> c_int {
    outcome.err().unwrap_or(0)
}
