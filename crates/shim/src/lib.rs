//! A preload library for programs that have no option for their number of threads. It replaces the
//! functions of libc that report the number of CPUs.
//!
//! `creel run --shim` sets `LD_PRELOAD` to this library and `CREEL_CPUS` to the number. The library
//! replaces these functions:
//!
//! - `sysconf` for online and configured processors
//! - `get_nprocs` and `get_nprocs_conf`
//! - `sched_getaffinity` for the calling process, whose result keeps only the first `CREEL_CPUS`
//!   CPUs
//!
//! It has these limits:
//!
//! - A static program does not call libc's shared library.
//! - A program that reads `/proc` or `/sys` itself sees the real number.
//! - A program that sets its mask from the result of `sched_getaffinity` narrows itself to those
//!   CPUs.
//!
//! Without a valid `CREEL_CPUS`, every call returns libc's own result.
#![cfg(target_os = "linux")]

use std::{
    ffi::{CStr, c_char, c_int, c_long, c_void},
    ptr,
    sync::atomic::{AtomicI64, AtomicPtr, Ordering},
};

/// The names of libc that we use. The build script of `creel-cli` compiles this file alone, so it
/// must not depend on other crates. The numbers are those of glibc and musl.
mod libc {
    use super::{c_char, c_int, c_void};

    pub(crate) const _SC_NPROCESSORS_CONF: c_int = 83;
    pub(crate) const _SC_NPROCESSORS_ONLN: c_int = 84;

    // SAFETY: These are the declarations of libc's headers.
    unsafe extern "C" {
        pub(crate) fn getenv(name: *const c_char) -> *mut c_char;
        pub(crate) fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
        pub(crate) fn getpid() -> c_int;
    }
}

/// The pseudo-handle `RTLD_NEXT`, which selects the libraries after this one.
const NEXT_LIBRARIES: *mut c_void = ptr::without_provenance_mut(usize::MAX);

/// The number from the environment. It is 0 if there is none, and -1 before the first lookup.
static CPUS: AtomicI64 = AtomicI64::new(-1);

/// Returns the number to report, or `None` to call libc.
fn cpus() -> Option<i64> {
    let known = CPUS.load(Ordering::Relaxed);
    let cpus = if known >= 0 {
        known
    } else {
        from_environment()
    };
    CPUS.store(cpus, Ordering::Relaxed);
    (cpus > 0).then_some(cpus)
}

/// Reads the number from the environment, or returns 0 if it is missing or invalid.
fn from_environment() -> i64 {
    // SAFETY: The name ends with NUL. Like every reader of the environment, we rely on no other
    // thread changing it at the same time. We read it before the program starts threads.
    let value = unsafe { libc::getenv(c"CREEL_CPUS".as_ptr()) };
    if value.is_null() {
        return 0;
    }
    // SAFETY: The pointer is not null, so it points to a string of the environment that ends with
    // NUL.
    let text = unsafe { CStr::from_ptr(value) };
    let number = text.to_str().ok().and_then(|t| t.parse().ok());
    number.filter(|n| (1..=65_535).contains(n)).unwrap_or(0)
}

/// Returns libc's own function of a name. Looks it up once.
fn next(cache: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = cache.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: The name ends with NUL, and the pseudo-handle selects the libraries after this one.
    let found = unsafe { libc::dlsym(NEXT_LIBRARIES, name.as_ptr()) };
    cache.store(found, Ordering::Relaxed);
    found
}

/// Replaces libc's `sysconf`.
///
/// # Safety
///
/// The contract is that of libc's function.
// SAFETY: We define this name on purpose, and the signature is that of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysconf(name: c_int) -> c_long {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if let (libc::_SC_NPROCESSORS_ONLN | libc::_SC_NPROCESSORS_CONF, Some(n)) = (name, cpus()) {
        return n as c_long;
    }
    let next = next(&NEXT, c"sysconf");
    if next.is_null() {
        return -1;
    }
    // SAFETY: The pointer is that of libc's `sysconf`, which has this type.
    let real: unsafe extern "C" fn(c_int) -> c_long = unsafe { std::mem::transmute(next) };
    // SAFETY: The caller fulfils the contract of libc's function.
    unsafe { real(name) }
}

/// Replaces libc's `get_nprocs`.
// SAFETY: We define this name on purpose, and the signature is that of libc.
#[unsafe(no_mangle)]
pub extern "C" fn get_nprocs() -> c_int {
    // SAFETY: `sysconf` accepts any name.
    unsafe { sysconf(libc::_SC_NPROCESSORS_ONLN) as c_int }
}

/// Replaces libc's `get_nprocs_conf`.
// SAFETY: We define this name on purpose, and the signature is that of libc.
#[unsafe(no_mangle)]
pub extern "C" fn get_nprocs_conf() -> c_int {
    // SAFETY: `sysconf` accepts any name.
    unsafe { sysconf(libc::_SC_NPROCESSORS_CONF) as c_int }
}

/// Replaces libc's `sched_getaffinity`.
///
/// # Safety
///
/// The contract is that of libc's function: `mask` must point to `size` writable bytes.
// SAFETY: We define this name on purpose, and the signature is that of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_getaffinity(pid: c_int, size: usize, mask: *mut c_void) -> c_int {
    type Real = unsafe extern "C" fn(c_int, usize, *mut c_void) -> c_int;
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let next = next(&NEXT, c"sched_getaffinity");
    if next.is_null() {
        return -1;
    }
    // SAFETY: The pointer is that of libc's `sched_getaffinity`, which has this type.
    let real: Real = unsafe { std::mem::transmute(next) };
    // SAFETY: The caller fulfils the contract of libc's function.
    let result = unsafe { real(pid, size, mask) };
    // SAFETY: `getpid` always succeeds.
    let is_own = pid == 0 || pid == unsafe { libc::getpid() };
    if let (0, true, Some(n)) = (result, is_own, cpus()) {
        // SAFETY: The call has succeeded, so `mask` points to `size` bytes, which are initialised
        // now. The caller guarantees that nothing else uses them during this call.
        let bytes = unsafe { std::slice::from_raw_parts_mut(mask.cast::<u8>(), size) };
        keep_first(bytes, n);
    }
    result
}

/// Clears every set bit except the first `count`.
///
/// The masks of the kernel are words in the byte order of the machine. On little-endian machines,
/// their bits are in the order of the bytes.
fn keep_first(mask: &mut [u8], count: i64) {
    let mut left = count;
    for bit in 0..mask.len() * 8 {
        let (byte, flag) = (position(bit), 1_u8 << (bit % 8));
        if mask[byte] & flag != 0 {
            if left > 0 {
                left -= 1;
            } else {
                mask[byte] &= !flag;
            }
        }
    }
}

/// Returns the index of the byte that contains a bit.
fn position(bit: usize) -> usize {
    const WORD: usize = size_of::<usize>();
    let byte = bit / 8;
    if cfg!(target_endian = "little") {
        byte
    } else {
        byte / WORD * WORD + (WORD - 1 - byte % WORD)
    }
}

#[cfg(test)]
mod tests {
    use super::keep_first;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_mask_keeps_the_first_cpus() {
        let mut mask = [0b1011_0000_u8, 0b0000_0111, 0, 0, 0, 0, 0, 0];
        keep_first(&mut mask, 4);
        assert_eq!(mask[..2], [0b1011_0000, 0b0000_0001]);
        keep_first(&mut mask, 9);
        assert_eq!(mask[..2], [0b1011_0000, 0b0000_0001]);
    }
}
