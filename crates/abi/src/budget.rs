//! The budget, the masks, and the list of cores.
//!
//! Reading the machine takes about 200 µs and opens about forty files. Therefore we keep the last
//! result. We read again if the process's affinity mask has changed, or if the result is older than
//! a second, because a quota may have changed. Each call reads the mask, which takes less than a
//! microsecond.

use crate::{
    code,
    errno::{EINVAL, EIO},
    guarded, text_of, write_text,
};
use creel_topology::{Budget, CpuSet, Error, Machine, Rounding, affinity};
use std::{
    ffi::{c_char, c_int, c_uint},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The age from which we read the machine again.
const AGE_MAX: Duration = Duration::from_secs(1);

/// The machine as we have read it, with the time and the mask of that reading.
struct Reading {
    taken: Instant,
    mask: Option<CpuSet>,
    /// `None` if the machine cannot be read.
    machine: Option<Machine>,
}

static LAST: Mutex<Option<Arc<Reading>>> = Mutex::new(None);

/// Returns the last reading, or a new one if the last one may be out of date.
fn reading() -> Arc<Reading> {
    let mask = affinity::process().ok();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reading) = &*last
        && reading.mask == mask
        && reading.taken.elapsed() < AGE_MAX
    {
        return Arc::clone(reading);
    }
    let reading = Arc::new(Reading {
        taken: Instant::now(),
        mask,
        machine: Machine::detect_cores().ok(),
    });
    *last = Some(Arc::clone(&reading));
    reading
}

/// Makes the next call read the machine again.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub extern "C" fn creel_refresh() {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Returns the upper bound that `creel run --jobs` has stored, if it is a number above 0.
fn given() -> Option<usize> {
    let text = std::env::var("CREEL_JOBS").ok()?;
    text.trim().parse().ok().filter(|&jobs| jobs > 0)
}

/// Returns the budget, with the upper bound of `creel run --jobs`.
fn budget(machine: &Machine, rounding: Rounding) -> Budget {
    let budget = Budget::rounded(machine, rounding);
    match given() {
        Some(jobs) if jobs < budget.workers() => budget.explicit(jobs),
        _ => budget,
    }
}

/// Returns the number of workers of the budget.
///
/// If the machine cannot be read, this is the number that Rust's standard library reports
/// (`available_parallelism`). The number never exceeds that of `creel run --jobs`, which `creel
/// run` stores in `CREEL_JOBS`.
fn workers(rounding: Rounding) -> c_uint {
    let count = guarded(1, || match &reading().machine {
        Some(machine) => budget(machine, rounding).workers(),
        None => {
            let count = std::thread::available_parallelism().map_or(1, usize::from);
            count.min(given().unwrap_or(usize::MAX))
        }
    });
    c_uint::try_from(count).unwrap_or(c_uint::MAX)
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

/// Returns the number of workers for a machine whose `/proc` and `/sys` are below the folder
/// `root`, or 0 if an argument is invalid. Tests use it for captured machines.
///
/// The kernel ignores CPUs in a mask that do not exist, and rejects a mask without any other CPU.
/// We do the same. `Machine::detect_cores_in` believes its mask, because a running thread has no
/// CPUs in its mask that do not exist.
///
/// # Safety
///
/// `root` and `mask` must be null or point to strings that end with NUL.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_workers_in(root: *const c_char, mask: *const c_char) -> c_uint {
    // SAFETY: This function has the same contract.
    let Some(root) = (unsafe { text_of(root) }) else {
        return 0;
    };
    let root = Path::new(root);
    if !["proc", "sys"].iter().any(|name| root.join(name).is_dir()) {
        return 0;
    }
    let asked = if mask.is_null() {
        None
    } else {
        // SAFETY: This function has the same contract.
        let mask = unsafe { text_of(mask) };
        match mask.and_then(|text| text.parse::<CpuSet>().ok()) {
            Some(mask) => Some(mask),
            None => return 0,
        }
    };
    let count = guarded(0, || {
        let mask = asked.map(|asked| match Machine::read_cores_from(root) {
            Ok(machine) => &asked & machine.online(),
            // No file lists a CPU, so we know only those of the mask.
            Err(_) => asked,
        });
        if mask.as_ref().is_some_and(CpuSet::is_empty) {
            return 0;
        }
        Budget::of(&Machine::detect_cores_in(root, mask.as_ref())).workers()
    });
    c_uint::try_from(count).unwrap_or(c_uint::MAX)
}

/// Writes a text that names the limit that determined the number of workers. Returns the length of
/// the text.
///
/// # Safety
///
/// `buffer` must point to `size` writable bytes, or be null.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_bound_by(buffer: *mut c_char, size: usize) -> usize {
    let text = guarded(String::new(), || match &reading().machine {
        Some(machine) => budget(machine, Rounding::Floor).bound_by().to_string(),
        None => "the affinity mask, because the machine cannot be read".into(),
    });
    // SAFETY: This function has the same contract.
    unsafe { write_text(&text, buffer, size) }
}

/// Writes the notes on files that are unusable or contradict each other. Each note is one line.
/// Returns the length of the text.
///
/// # Safety
///
/// `buffer` must point to `size` writable bytes, or be null.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_notes(buffer: *mut c_char, size: usize) -> usize {
    let text = guarded(String::new(), || match &reading().machine {
        Some(machine) => machine.notes().join("\n"),
        None => "the machine cannot be read".into(),
    });
    // SAFETY: This function has the same contract.
    unsafe { write_text(&text, buffer, size) }
}

/// Writes the first usable PU of each core, and returns the number of cores.
///
/// # Safety
///
/// `pus` must point to `capacity` writable numbers, or be null.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_cores(pus: *mut c_uint, capacity: usize) -> usize {
    let cores = guarded(Vec::new(), || one_pu_per_core(&reading()));
    if !pus.is_null() {
        for (at, pu) in cores.iter().take(capacity).enumerate() {
            // SAFETY: `at` is below the capacity.
            let place = unsafe { pus.add(at) };
            // SAFETY: The caller guarantees that this number is writable.
            unsafe { place.write(*pu) };
        }
    }
    cores.len()
}

/// Returns the first usable PU of each core, in the order of the PUs. If the machine cannot be
/// read, it returns all PUs of the mask.
fn one_pu_per_core(reading: &Reading) -> Vec<c_uint> {
    let pus: Vec<usize> = match &reading.machine {
        Some(machine) => {
            let allowed = machine.allowed();
            let firsts = machine.cores().iter();
            let firsts = firsts.filter_map(|core| (&core.pus & allowed).first());
            firsts.collect()
        }
        None => reading.mask.iter().flat_map(|mask| mask.iter()).collect(),
    };
    let mut pus: Vec<c_uint> = pus
        .into_iter()
        .filter_map(|pu| pu.try_into().ok())
        .collect();
    pus.sort_unstable();
    pus
}

/// Writes the affinity mask of the calling thread as a list. Returns the length of the text, or 0
/// if the system has no masks.
///
/// # Safety
///
/// `buffer` must point to `size` writable bytes, or be null.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_thread_mask(buffer: *mut c_char, size: usize) -> usize {
    let text = affinity::current().map_or(String::new(), |mask| mask.to_string());
    // SAFETY: This function has the same contract.
    unsafe { write_text(&text, buffer, size) }
}

/// Writes the affinity mask that counts for the process as a list. Returns the length of the text,
/// or 0 if the system has no masks.
///
/// # Safety
///
/// `buffer` must point to `size` writable bytes, or be null.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_process_mask(buffer: *mut c_char, size: usize) -> usize {
    let text = affinity::process().map_or(String::new(), |mask| mask.to_string());
    // SAFETY: This function has the same contract.
    unsafe { write_text(&text, buffer, size) }
}

/// Narrows the affinity mask of the calling thread. Returns 0 or an error number.
///
/// # Safety
///
/// `list` must be null or point to a string that ends with NUL.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_set_mask(list: *const c_char) -> c_int {
    // SAFETY: This function has the same contract.
    let list = unsafe { text_of(list) };
    code(guarded(Err(EIO), || set_mask(list)))
}

/// Narrows the affinity mask of the calling thread to a CPU list, or returns an error number.
fn set_mask(list: Option<&str>) -> Result<(), c_int> {
    let cpus = list.and_then(|text| text.parse::<CpuSet>().ok());
    let cpus = cpus.ok_or(EINVAL)?;
    let current = affinity::current().map_err(|_| EINVAL)?;
    if cpus.is_empty() || !cpus.is_subset(&current) {
        return Err(EINVAL);
    }
    affinity::set(&cpus).map_err(|error| match error {
        Error::Affinity(error) => error.raw_os_error().unwrap_or(EIO),
        _ => EIO,
    })
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
