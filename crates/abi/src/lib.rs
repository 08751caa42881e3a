//! The C ABI of the budget: `include/creel.h` documents each function.
//!
//! Every function may be called from any thread, at any time after libc's start, and never
//! unwinds into its caller: what goes wrong becomes a value.

use creel_topology::{Budget, CpuSet, Error, Machine, Rounding, affinity};
use std::{
    ffi::{CStr, c_char, c_int, c_uint},
    panic::catch_unwind,
};

/// Linux's number for an argument that is no good.
const EINVAL: c_int = 22;
/// What stands for an error without a number of its own.
const EIO: c_int = 5;

/// The budget's workers; where the machine cannot be read, what the system call tells of the
/// affinity mask, as the runtimes themselves count that would else be asked. Never more than
/// `creel run --jobs` was given, which leaves its number in `CREEL_JOBS`.
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

/// The usable cores, fractions of a quota cut off; at least 1.
// SAFETY: the name carries the project's prefix and is defined nowhere else.
#[unsafe(no_mangle)]
pub extern "C" fn creel_workers() -> c_uint {
    workers(Rounding::Floor)
}

/// The usable cores, a fraction of a quota counted as one; at least 1.
// SAFETY: the name carries the project's prefix and is defined nowhere else.
#[unsafe(no_mangle)]
pub extern "C" fn creel_workers_ceil() -> c_uint {
    workers(Rounding::Ceil)
}

/// What GHC's runtime calls in the place of its own count when linked with
/// `--wrap=getNumberOfProcessors`.
// SAFETY: the linker's `--wrap` reserves this name for us.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_getNumberOfProcessors() -> c_uint {
    workers(Rounding::Floor)
}

/// Narrows the calling thread's mask. 0, or an error number.
///
/// # Safety
/// `list` is null or points to a text that ends with NUL.
// SAFETY: the name carries the project's prefix and is defined nowhere else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_set_mask(list: *const c_char) -> c_int {
    if list.is_null() {
        return EINVAL;
    }
    // SAFETY: not null, and by this function's contract it ends with NUL.
    let list = unsafe { CStr::from_ptr(list) };
    catch_unwind(|| set_mask(list)).unwrap_or(EIO)
}

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

/// Narrows the calling thread's mask, or says on stderr why it cannot.
///
/// # Safety
/// `list` is null or points to a text that ends with NUL.
// SAFETY: the name carries the project's prefix and is defined nowhere else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_mask_or_warn(list: *const c_char) {
    // SAFETY: the same contract.
    let error = unsafe { creel_set_mask(list) };
    if error != 0 {
        let reason = std::io::Error::from_raw_os_error(error);
        eprintln!("creel: the affinity mask stays as it is: {reason}");
    }
}
