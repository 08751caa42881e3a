//! The places of OpenMP runtimes, which pin the main thread when they are loaded.
//!
//! Source: OpenMP 5.2, sections 18.3 (places) and 21 (environment variables); dlopen(3).

use std::ffi::{CStr, c_int, c_void};

use super::linux;
use crate::types::{CpuSet, Error};

/// Returns the mask of the calling thread, or all of OpenMP's places if the mask is inside of them.
pub(crate) fn process_mask() -> Result<CpuSet, Error> {
    let own = linux::current()?;
    let places = openmp_places().unwrap_or_default();
    Ok(if own.is_subset(&places) { places } else { own })
}

/// The variables that make an OpenMP runtime bind threads.
const OPENMP_VARIABLES: [&str; 4] = [
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
];
/// The usual names of OpenMP runtimes.
const OPENMP_LIBRARIES: [&CStr; 3] = [c"libgomp.so.1", c"libomp.so.5", c"libiomp5.so"];
/// The largest number of places, and of PUs in a place, that we read.
const OPENMP_MAX: usize = 1 << 16;

/// Returns the PUs of all places of a loaded OpenMP runtime, if it binds threads.
fn openmp_places() -> Option<CpuSet> {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    if !OPENMP_VARIABLES.into_iter().any(is_set) {
        return None;
    }
    // SAFETY: The name ends with NUL. `RTLD_NOLOAD` only returns a library that is loaded.
    let open =
        |name: &&CStr| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    let opened: Vec<_> = OPENMP_LIBRARIES.iter().map(open).collect();
    let loaded = opened.iter().copied().filter(|handle| !handle.is_null());
    let found = std::iter::once(libc::RTLD_DEFAULT)
        .chain(loaded.clone())
        .find_map(places_of);
    loaded.for_each(|handle| {
        // SAFETY: `dlopen` returned this handle, and we do not use it any more.
        unsafe { libc::dlclose(handle) };
    });
    found
}

/// Returns the PUs of all places of the OpenMP runtime to which this handle of `dlopen` belongs.
fn places_of(handle: *mut c_void) -> Option<CpuSet> {
    type Count = unsafe extern "C" fn() -> c_int;
    type CountOfPlace = unsafe extern "C" fn(c_int) -> c_int;
    type Ids = unsafe extern "C" fn(c_int, *mut c_int);
    let find = |name: &CStr| {
        // SAFETY: The name ends with NUL, and the handle is valid.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    let places = find(c"omp_get_num_places")?;
    let count = find(c"omp_get_place_num_procs")?;
    let ids = find(c"omp_get_place_proc_ids")?;
    // SAFETY: This is the type that OpenMP gives this function.
    let places = unsafe { std::mem::transmute::<*mut c_void, Count>(places) };
    // SAFETY: This is the type that OpenMP gives this function.
    let count = unsafe { std::mem::transmute::<*mut c_void, CountOfPlace>(count) };
    // SAFETY: This is the type that OpenMP gives this function.
    let ids = unsafe { std::mem::transmute::<*mut c_void, Ids>(ids) };
    // SAFETY: The function has no requirements.
    let places = unsafe { places() };
    let mut pus = CpuSet::new();
    for place in 0..places.min(OPENMP_MAX as c_int) {
        // SAFETY: The index is below the number of places that the runtime has returned.
        let count = usize::try_from(unsafe { count(place) }).unwrap_or(0);
        let mut list = vec![-1; count.min(OPENMP_MAX)];
        if list.len() < count {
            return None;
        }
        // SAFETY: The place exists, and the list has room for all of its PUs. Nothing aliases
        // it, because it is a local variable.
        unsafe { ids(place, list.as_mut_ptr()) };
        let valid = list.into_iter().filter_map(|pu| usize::try_from(pu).ok());
        for pu in valid.filter(|pu| *pu <= CpuSet::INDEX_MAX) {
            pus.insert(pu);
        }
    }
    (!pus.is_empty()).then_some(pus)
}
