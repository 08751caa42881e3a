//! The machine on macOS and its relatives, from sysctl(3).

use std::ffi::CString;

use crate::read::apple;
use crate::types::Parts;

pub(crate) fn parts() -> Option<Parts> {
    apple::machine(&value).or_else(super::only_pus)
}

/// Returns the value of an integer of sysctl, or `None` if no integer has this name.
fn value(name: &str) -> Option<u64> {
    let name = CString::new(name).ok()?;
    let mut bytes = [0u8; 8];
    let mut len = bytes.len();
    // SAFETY: validity: `name` ends with a NUL byte and outlives the call. The call writes at most
    // `len` bytes to `bytes`, which has that length, and stores the number of bytes in `len`.
    // Aliasing: both pointers come from `&mut` of local variables, and the system keeps neither.
    let rc = unsafe {
        let (at, no_new) = (bytes.as_mut_ptr().cast(), std::ptr::null_mut());
        libc::sysctlbyname(name.as_ptr(), at, &raw mut len, no_new, 0)
    };
    match (rc, len) {
        (0, 4) => Some(u64::from(u32::from_ne_bytes(bytes[..4].try_into().ok()?))),
        (0, 8) => Some(u64::from_ne_bytes(bytes)),
        _ => None,
    }
}
