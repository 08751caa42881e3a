//! A preload library for programs with no knob: it stands before libc's answers to the question
//! how many CPUs there are.
//!
//! `creel run --shim` sets `LD_PRELOAD` to it and `CREEL_CPUS` to the number. Answered are
//! `sysconf` (processors online and configured), `get_nprocs`, `get_nprocs_conf` and, for the
//! calling process, `sched_getaffinity`, of whose answer only the first so many CPUs are left.
//!
//! Limits: a static program never asks libc; a program that reads `/proc` or `/sys` itself sees
//! the truth; one that sets its mask from what `sched_getaffinity` said narrows itself to those
//! CPUs. Without a valid `CREEL_CPUS` every call goes through unchanged.
#![cfg(target_os = "linux")]

use libc::{RTLD_NEXT, c_char, c_int, c_long, c_void, cpu_set_t, pid_t, size_t};
use std::{
    ffi::CStr,
    sync::atomic::{AtomicI64, AtomicPtr, Ordering},
};

/// The number from the environment, 0 if there is none, −1 before it was looked up.
static CPUS: AtomicI64 = AtomicI64::new(-1);

/// The number to answer; `None` to let the call through.
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

fn from_environment() -> i64 {
    // SAFETY: a NUL-terminated name; as every reader of the environment, this relies on nobody
    // changing it at the same moment, which before threads start nobody does.
    let value = unsafe { libc::getenv(c"CREEL_CPUS".as_ptr()) };
    if value.is_null() {
        return 0;
    }
    // SAFETY: not null, so a NUL-terminated text of the environment.
    let text = unsafe { CStr::from_ptr(value) };
    let number = text.to_str().ok().and_then(|t| t.parse().ok());
    number.filter(|n| (1..=65_535).contains(n)).unwrap_or(0)
}

/// libc's own function of a name, looked up once.
fn next(cache: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = cache.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: a NUL-terminated name and the pseudo-handle for "after this library".
    let found = unsafe { libc::dlsym(RTLD_NEXT, name.as_ptr().cast::<c_char>()) };
    cache.store(found, Ordering::Relaxed);
    found
}

/// Stands before libc's `sysconf`.
///
/// # Safety
/// As for libc's.
// SAFETY: defining this name is the purpose; its signature is libc's.
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
    // SAFETY: libc's `sysconf`, whose type this is.
    let real: unsafe extern "C" fn(c_int) -> c_long = unsafe { std::mem::transmute(next) };
    // SAFETY: the caller's own call, passed on.
    unsafe { real(name) }
}

/// Stands before libc's `get_nprocs`.
// SAFETY: defining this name is the purpose; its signature is libc's.
#[unsafe(no_mangle)]
pub extern "C" fn get_nprocs() -> c_int {
    // SAFETY: any name is valid.
    unsafe { sysconf(libc::_SC_NPROCESSORS_ONLN) as c_int }
}

/// Stands before libc's `get_nprocs_conf`.
// SAFETY: defining this name is the purpose; its signature is libc's.
#[unsafe(no_mangle)]
pub extern "C" fn get_nprocs_conf() -> c_int {
    // SAFETY: any name is valid.
    unsafe { sysconf(libc::_SC_NPROCESSORS_CONF) as c_int }
}

/// Stands before libc's `sched_getaffinity`.
///
/// # Safety
/// As for libc's: `mask` points to `size` writable bytes.
// SAFETY: defining this name is the purpose; its signature is libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_getaffinity(
    pid: pid_t,
    size: size_t,
    mask: *mut cpu_set_t,
) -> c_int {
    type Real = unsafe extern "C" fn(pid_t, size_t, *mut cpu_set_t) -> c_int;
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let next = next(&NEXT, c"sched_getaffinity");
    if next.is_null() {
        return -1;
    }
    // SAFETY: libc's `sched_getaffinity`, whose type this is.
    let real: Real = unsafe { std::mem::transmute(next) };
    // SAFETY: the caller's own call, passed on.
    let result = unsafe { real(pid, size, mask) };
    // SAFETY: always succeeds.
    let is_own = pid == 0 || pid == unsafe { libc::getpid() };
    if let (0, true, Some(n)) = (result, is_own, cpus()) {
        // SAFETY: the call has succeeded, so `mask` points to `size` bytes, now initialised,
        // and by the caller's contract nobody else uses them meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts_mut(mask.cast::<u8>(), size) };
        keep_first(bytes, n);
    }
    result
}

/// Clears every set bit but the first `count`. The kernel's masks are words of the machine's
/// byte order; on little-endian machines their bits are in the order of the bytes.
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

/// The byte that holds this bit.
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
