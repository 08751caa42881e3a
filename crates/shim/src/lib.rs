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
//!
//! # The library must never keep a program from starting
//!
//! The loader ends a program if a preloaded library needs a symbol or a library that does not
//! exist. Children inherit `LD_PRELOAD`, so we do not know which libc a program has. Therefore:
//!
//! - The library needs no other library, not even libc. One file works with glibc and musl.
//! - It uses only the names of `libc` below, and each is a weak symbol. If one does not exist, its
//!   address is 0 and the library does without it.
//! - It is built without Rust's standard library, because that needs `_Unwind_*`, which programs
//!   for musl do not have.
//!
//! `compile.rs` in the folder above builds it. `tests/preload.rs` checks the symbols.
#![cfg(target_os = "linux")]
#![cfg_attr(not(test), no_std)]
// `compile.rs` sets `creel_shim_library`. Cargo does not set it, because its tests have a libc.
#![allow(unexpected_cfgs)]

use core::{
    ffi::{c_char, c_int, c_long, c_void},
    hint::black_box,
    mem::transmute,
    ptr,
    sync::atomic::{AtomicI64, AtomicPtr, Ordering},
};

/// The names of libc that we use. The numbers are those of glibc and musl.
mod libc {
    use super::{c_char, c_int, c_void};

    pub(crate) const _SC_NPROCESSORS_CONF: c_int = 83;
    pub(crate) const _SC_NPROCESSORS_ONLN: c_int = 84;

    pub(crate) type Getenv = unsafe extern "C" fn(*const c_char) -> *mut c_char;
    pub(crate) type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    pub(crate) type Getpid = unsafe extern "C" fn() -> c_int;

    // The loader accepts a weak symbol that does not exist.
    core::arch::global_asm!(".weak getenv", ".weak dlsym", ".weak getpid");

    // SAFETY: These are the declarations of libc's headers.
    unsafe extern "C" {
        pub(crate) fn getenv(name: *const c_char) -> *mut c_char;
        pub(crate) fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
        pub(crate) fn getpid() -> c_int;
    }
}

/// Never returns. The library has no code that panics, but a library without Rust's standard
/// library must define this function.
#[cfg(creel_shim_library)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// The pseudo-handle `RTLD_NEXT`, which selects the libraries after this one.
const NEXT_LIBRARIES: *mut c_void = ptr::without_provenance_mut(usize::MAX);

/// The largest number of CPUs that we report.
const CPUS_MAX: i64 = 65_535;

/// The number from the environment. It is 0 if the variable is missing or invalid, and -1 before
/// the first lookup.
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
    if cpus > 0 { Some(cpus) } else { None }
}

/// Reads the number from the environment, or returns 0 if it is missing or invalid.
fn from_environment() -> i64 {
    // The compiler must not assume that the address of a function is not 0.
    let address = black_box(libc::getenv as *const c_void);
    if address.is_null() {
        return 0;
    }
    // SAFETY: The address is that of libc's `getenv`, which has this type.
    let getenv: libc::Getenv = unsafe { transmute(address) };
    // SAFETY: The name ends with NUL. Like every reader of the environment, we rely on no other
    // thread changing it at the same time. The first call of one of our functions reads it, and
    // later calls use the stored number.
    let value = unsafe { getenv(c"CREEL_CPUS".as_ptr()) };
    if value.is_null() {
        return 0;
    }
    let mut text = value.cast::<u8>().cast_const();
    let mut number = 0;
    loop {
        // SAFETY: `text` points into a string of the environment that ends with NUL, at or before
        // the NUL, because we stop there.
        let byte = unsafe { *text };
        if byte == 0 {
            return number;
        }
        let digit = i64::from(byte.wrapping_sub(b'0'));
        number = number * 10 + digit;
        if digit > 9 || number > CPUS_MAX {
            return 0;
        }
        // SAFETY: The byte at `text` is not the NUL, so the next byte belongs to the string too.
        text = unsafe { text.add(1) };
    }
}

/// Returns libc's own function with this name, or null if there is none. Looks the function up only
/// once. `name` must end with NUL.
fn next(cache: &AtomicPtr<c_void>, name: &'static core::ffi::CStr) -> *mut c_void {
    let known = cache.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // The compiler must not assume that the address of a function is not 0.
    let address = black_box(libc::dlsym as *const c_void);
    if address.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: The address is that of libc's `dlsym`, which has this type.
    let dlsym: libc::Dlsym = unsafe { transmute(address) };
    // SAFETY: The name ends with NUL, and the pseudo-handle selects the libraries after this one.
    let found = unsafe { dlsym(NEXT_LIBRARIES, name.as_ptr()) };
    cache.store(found, Ordering::Relaxed);
    found
}

/// Returns the number of this process, or `None` if libc has no such function.
fn own_pid() -> Option<c_int> {
    // The compiler must not assume that the address of a function is not 0.
    let address = black_box(libc::getpid as *const c_void);
    if address.is_null() {
        return None;
    }
    // SAFETY: The address is that of libc's `getpid`, which has this type.
    let getpid: libc::Getpid = unsafe { transmute(address) };
    // SAFETY: `getpid` always succeeds.
    Some(unsafe { getpid() })
}

/// Replaces libc's `sysconf`.
///
/// # Safety
///
/// The contract is that of libc's function.
// SAFETY: We define this name on purpose, and the signature is that of libc.
#[cfg_attr(creel_shim_library, unsafe(no_mangle))]
pub unsafe extern "C" fn sysconf(name: c_int) -> c_long {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    if let (libc::_SC_NPROCESSORS_ONLN | libc::_SC_NPROCESSORS_CONF, Some(n)) = (name, cpus()) {
        return n as c_long;
    }
    let next = next(&NEXT, c"sysconf");
    if next.is_null() {
        return -1;
    }
    // SAFETY: The pointer is that of libc's `sysconf`, which has this type.
    let real: unsafe extern "C" fn(c_int) -> c_long = unsafe { transmute(next) };
    // SAFETY: The caller fulfils the contract of libc's function.
    unsafe { real(name) }
}

/// Replaces libc's `get_nprocs`.
// SAFETY: We define this name on purpose, and the signature is that of libc.
#[cfg_attr(creel_shim_library, unsafe(no_mangle))]
pub extern "C" fn get_nprocs() -> c_int {
    // SAFETY: `sysconf` accepts any name.
    unsafe { sysconf(libc::_SC_NPROCESSORS_ONLN) as c_int }
}

/// Replaces libc's `get_nprocs_conf`.
// SAFETY: We define this name on purpose, and the signature is that of libc.
#[cfg_attr(creel_shim_library, unsafe(no_mangle))]
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
#[cfg_attr(creel_shim_library, unsafe(no_mangle))]
pub unsafe extern "C" fn sched_getaffinity(pid: c_int, size: usize, mask: *mut c_void) -> c_int {
    type Real = unsafe extern "C" fn(c_int, usize, *mut c_void) -> c_int;
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let next = next(&NEXT, c"sched_getaffinity");
    if next.is_null() {
        return -1;
    }
    // SAFETY: The pointer is that of libc's `sched_getaffinity`, which has this type.
    let real: Real = unsafe { transmute(next) };
    // SAFETY: The caller fulfils the contract of libc's function.
    let result = unsafe { real(pid, size, mask) };
    let is_own = pid == 0 || own_pid() == Some(pid);
    if let (0, true, Some(n)) = (result, is_own, cpus()) {
        // SAFETY: The call has succeeded, so `mask` points to `size` bytes, which are initialised
        // now. The caller guarantees that nothing else uses them during this call.
        let bytes = unsafe { core::slice::from_raw_parts_mut(mask.cast::<u8>(), size) };
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
        let flag = 1_u8 << (bit % 8);
        // An index with brackets could panic, and the library has no code that panics.
        let Some(byte) = mask.get_mut(position(bit)) else {
            return;
        };
        if *byte & flag != 0 {
            if left > 0 {
                left -= 1;
            } else {
                *byte &= !flag;
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
