//! The C ABI of the CPU budget. The header `include/creel.h` documents each function.
//!
//! You can call every function from any thread, at any time after libc has started. No function
//! unwinds into its caller, because we convert every failure to a value.

use creel_topology::{Budget, CpuSet, Error, Machine, Rounding, affinity};
use std::{
    ffi::{CStr, c_char, c_int, c_uint},
    panic::catch_unwind,
};

/// The errno value of an invalid argument on Linux.
const EINVAL: c_int = 22;
/// The errno value that we return for an error without a number of its own.
const EIO: c_int = 5;

/// Returns the number of workers of the budget.
///
/// If the machine cannot be read, this is the size of the affinity mask, which is also what the
/// language runtimes count. The number never exceeds that of `creel run --jobs`, which `creel run`
/// stores in `CREEL_JOBS`.
fn workers(rounding: Rounding) -> c_uint {
    let count = catch_unwind(|| {
        let count = match Machine::detect_cores() {
            Ok(machine) => Budget::rounded(&machine, rounding).workers(),
            Err(_) => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let given = std::env::var("CREEL_JOBS").ok();
        let given: Option<usize> = given.and_then(|text| text.trim().parse().ok());
        given.filter(|&n| n > 0).map_or(count, |n| count.min(n))
    });
    c_uint::try_from(count.unwrap_or(1)).unwrap_or(c_uint::MAX)
}

/// Returns the number of usable cores, with quotas rounded down. It is at least 1.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub extern "C" fn creel_workers() -> c_uint {
    workers(Rounding::Floor)
}

/// Returns the number of usable cores, with quotas rounded up. It is at least 1.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub extern "C" fn creel_workers_ceil() -> c_uint {
    workers(Rounding::Ceil)
}

/// Replaces the function with which GHC's runtime counts processors, if the program is linked with
/// `--wrap=getNumberOfProcessors`.
// SAFETY: The linker option `--wrap` reserves this name for a replacement.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_getNumberOfProcessors() -> c_uint {
    workers(Rounding::Floor)
}

/// Narrows the affinity mask of the calling thread. Returns 0 or an error number.
///
/// # Safety
///
/// `list` must be null or point to a string that ends with NUL.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_set_mask(list: *const c_char) -> c_int {
    if list.is_null() {
        return EINVAL;
    }
    // SAFETY: The pointer is not null, and the caller guarantees that the string ends with NUL.
    let list = unsafe { CStr::from_ptr(list) };
    catch_unwind(|| set_mask(list)).unwrap_or(EIO)
}

/// Narrows the mask to a list. Returns 0 or an error number.
fn set_mask(list: &CStr) -> c_int {
    let cpus = list
        .to_str()
        .ok()
        .and_then(|text| text.parse::<CpuSet>().ok());
    let (Some(cpus), Ok(current)) = (cpus, affinity::current()) else {
        return EINVAL;
    };
    if cpus.is_empty() || !cpus.is_subset(&current) {
        return EINVAL;
    }
    match affinity::set(&cpus) {
        Ok(()) => 0,
        Err(Error::Affinity(error)) => error.raw_os_error().unwrap_or(EIO),
        Err(_) => EIO,
    }
}

/// Narrows the affinity mask of the calling thread, or prints to stderr why it cannot.
///
/// # Safety
///
/// `list` must be null or point to a string that ends with NUL.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_mask_or_warn(list: *const c_char) {
    // SAFETY: This function has the same contract.
    let error = unsafe { creel_set_mask(list) };
    if error != 0 {
        let reason = std::io::Error::from_raw_os_error(error);
        eprintln!("creel: cannot set the affinity mask, so it stays unchanged: {reason}");
    }
}
