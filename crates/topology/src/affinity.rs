//! Affinity masks of threads, and the PU of the calling thread. This is the only unsafe code of the
//! crate.
//!
//! These functions work on Linux only. On other systems [`current`] and [`set`] return
//! [`Error::Unsupported`], because macOS has no masks and the processor groups of Windows are not a
//! mask. You can then run unpinned.

use crate::types::{CpuSet, Error};

/// Returns the PUs on which the calling thread may run, by OS index. It does not block.
///
/// # Errors
///
/// Returns [`Error::Unsupported`] if the system has no masks, or [`Error::Affinity`] if it reports
/// an error.
///
/// Source: sched_setaffinity(2).
///
/// ```
/// use creel_topology::affinity;
///
/// if let Ok(mask) = affinity::current() {
///     assert!(!mask.is_empty());
/// }
/// ```
pub fn current() -> Result<CpuSet, Error> {
    system::current()
}

/// Returns the PUs on which this process may run, by OS index. This is the mask of the calling
/// thread, unless OpenMP has narrowed it.
///
/// If `OMP_PROC_BIND`, `OMP_PLACES`, `GOMP_CPU_AFFINITY` or `KMP_AFFINITY` is set, an OpenMP runtime
/// pins the main thread to one place when it is loaded. It does that to divide its PUs among its own
/// threads, so the rest of the process may still use all places. If the mask of the calling thread is
/// inside of OpenMP's places, this function therefore returns all of them. It finds libgomp, libomp
/// and libiomp5, if they are visible to the whole process or were loaded under their usual names.
///
/// A thread that was narrowed in any other way, for example by the program itself, keeps its mask.
///
/// # Errors
///
/// Returns the errors of [`current`].
///
/// Source: OpenMP 5.2, sections 18.3 (places) and 21 (environment variables).
///
/// ```
/// use creel_topology::affinity;
///
/// if let (Ok(process), Ok(thread)) = (affinity::process(), affinity::current()) {
///     assert!(thread.is_subset(&process));
/// }
/// ```
pub fn process() -> Result<CpuSet, Error> {
    let own = current()?;
    let places = system::openmp_places().unwrap_or_default();
    Ok(if own.is_subset(&places) { places } else { own })
}

/// Restricts the calling thread to `pus`. The thread may move before the call returns.
///
/// # Errors
///
/// - [`Error::NotAllowed`] if the set is empty.
/// - [`Error::Unsupported`] if the system has no masks.
/// - [`Error::Affinity`] if the system reports an error, for example because none of the PUs is
///   online and in the cpuset.
///
/// ```
/// use creel_topology::{CpuSet, affinity};
///
/// # fn main() -> Result<(), creel_topology::Error> {
/// # if cfg!(not(target_os = "linux")) { return Ok(()) }
/// let all = affinity::current()?;
/// let last = CpuSet::from_iter(all.last());
/// affinity::set(&last)?;
/// assert_eq!(affinity::current()?, last);
/// assert_eq!(affinity::pu(), last.first());
/// affinity::set(&all)?;
/// # Ok(())
/// # }
/// ```
pub fn set(pus: &CpuSet) -> Result<(), Error> {
    // The kernel takes 0 for the calling thread.
    set_of(Thread(0), pus)
}

/// The kernel's id of a thread of this process.
///
/// It is valid only while the thread lives. Afterwards the kernel may give the id to another
/// thread.
///
/// ```
/// use creel_topology::affinity::{self, Thread};
///
/// if let (Some(thread), Ok(mask)) = (Thread::current(), affinity::current()) {
///     let moved = std::thread::spawn(move || affinity::set_of(thread, &mask));
///     assert!(moved.join().unwrap().is_ok());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread(i32);

impl Thread {
    /// Returns the calling thread, or `None` if the system has no masks.
    ///
    /// ```
    /// use creel_topology::affinity::Thread;
    ///
    /// assert_eq!(Thread::current(), Thread::current());
    /// ```
    pub fn current() -> Option<Thread> {
        system::thread().map(Thread)
    }
}

/// Restricts a thread to `pus`. A running thread moves at once, and a sleeping thread when it
/// wakes.
///
/// # Errors
///
/// Returns the errors of [`set`], and [`Error::Affinity`] if the thread does not exist.
///
/// ```
/// use creel_topology::{CpuSet, affinity::{self, Thread}};
///
/// if let Some(thread) = Thread::current() {
///     assert!(affinity::set_of(thread, &CpuSet::new()).is_err(), "nowhere to run");
/// }
/// ```
pub fn set_of(thread: Thread, pus: &CpuSet) -> Result<(), Error> {
    if pus.is_empty() {
        return Err(Error::NotAllowed {
            reason: "the affinity mask is empty, so the thread could not run anywhere".into(),
        });
    }
    system::set(thread.0, pus)
}

/// Returns the PU on which the calling thread runs now, by OS index.
///
/// Returns `None` if the system does not report it. The call takes some nanoseconds. Note that an
/// unpinned thread may be on another PU when this returns.
///
/// ```
/// use creel_topology::affinity;
///
/// if let (Some(pu), Ok(mask)) = (affinity::pu(), affinity::current()) {
///     assert!(mask.contains(pu));
/// }
/// ```
pub fn pu() -> Option<usize> {
    system::pu()
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::{CStr, c_int, c_void};
    use std::io;

    use crate::types::{CpuSet, Error};

    type Word = libc::c_ulong;
    const WORD_BITS: usize = Word::BITS as usize;

    pub(super) fn current() -> Result<CpuSet, Error> {
        // The kernel returns EINVAL if the buffer is shorter than its own mask.
        let mut words = vec![0 as Word; 1024 / WORD_BITS];
        loop {
            let bytes = size_of_val(words.as_slice());
            // SAFETY: The pointer is valid because `words` lives through the call and is `bytes`
            // bytes long, which is the most that the kernel writes. Every bit pattern is a valid
            // `Word`. `cpu_set_t` is an array of such words, so the alignment fits. Nothing aliases
            // the memory, because the pointer comes from a `&mut` of a local variable, and the
            // kernel does not keep it after the call.
            let rc = unsafe { libc::sched_getaffinity(0, bytes, words.as_mut_ptr().cast()) };
            if rc == 0 {
                let mut pus = CpuSet::new();
                for (at, mut word) in words.into_iter().enumerate() {
                    while word != 0 {
                        pus.insert(at * WORD_BITS + word.trailing_zeros() as usize);
                        word &= word - 1;
                    }
                }
                return Ok(pus);
            }
            let error = io::Error::last_os_error();
            let longer = words.len() * 2;
            if error.raw_os_error() != Some(libc::EINVAL)
                || longer * WORD_BITS > CpuSet::INDEX_MAX + 1
            {
                return Err(Error::Affinity(error));
            }
            words.resize(longer, 0);
        }
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
    pub(super) fn openmp_places() -> Option<CpuSet> {
        let is_set = |name: &str| std::env::var_os(name).is_some();
        if !OPENMP_VARIABLES.into_iter().any(is_set) {
            return None;
        }
        // SAFETY: The name ends with NUL. `RTLD_NOLOAD` only returns a library that is loaded.
        let open = |name: &&CStr| unsafe {
            libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY)
        };
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

    /// Returns the PUs of all places of the OpenMP runtime that a handle shows.
    fn places_of(handle: *mut c_void) -> Option<CpuSet> {
        type Count = unsafe extern "C" fn() -> c_int;
        type CountIn = unsafe extern "C" fn(c_int) -> c_int;
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
        let count = unsafe { std::mem::transmute::<*mut c_void, CountIn>(count) };
        // SAFETY: This is the type that OpenMP gives this function.
        let ids = unsafe { std::mem::transmute::<*mut c_void, Ids>(ids) };
        // SAFETY: The function has no requirements.
        let places = unsafe { places() };
        let mut pus = CpuSet::new();
        for place in 0..places.min(OPENMP_MAX as c_int) {
            // SAFETY: The place exists.
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

    pub(super) fn thread() -> Option<i32> {
        // SAFETY: We pass no memory, so nothing must be valid or unaliased. The call cannot fail.
        Some(unsafe { libc::gettid() })
    }

    pub(super) fn pu() -> Option<usize> {
        // SAFETY: We pass no memory, so nothing must be valid or unaliased. A failure is -1.
        usize::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    pub(super) fn set(thread: i32, pus: &CpuSet) -> Result<(), Error> {
        // Most masks fit on the stack. We avoid an allocation because a pool moves its workers in
        // the middle of a program's loops, and the program may rely on loops without allocations.
        let (mut few, mut many) = ([0 as Word; 1024 / WORD_BITS], Vec::new());
        let words_len = pus.last().unwrap_or(0) / WORD_BITS + 1;
        let words = if words_len <= few.len() {
            &mut few[..]
        } else {
            many.resize(words_len, 0);
            &mut many[..]
        };
        for pu in pus.iter() {
            words[pu / WORD_BITS] |= 1 << (pu % WORD_BITS);
        }
        let bytes = size_of_val(words);
        // SAFETY: The pointer is valid because `words` borrows initialised memory that lives
        // through the call and is `bytes` bytes long, which is the most that the kernel reads. The
        // alignment of the words is that of `cpu_set_t`. Nothing writes to the memory during the
        // call, because it belongs to this call, and the kernel does not keep the pointer. Any
        // number is allowed for the thread. The call returns an error if no thread has that number.
        let rc = unsafe { libc::sched_setaffinity(thread, bytes, words.as_ptr().cast()) };
        if rc == 0 {
            Ok(())
        } else {
            Err(Error::Affinity(io::Error::last_os_error()))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use crate::types::{CpuSet, Error};

    pub(super) fn current() -> Result<CpuSet, Error> {
        Err(Error::Unsupported("affinity masks"))
    }

    pub(super) fn openmp_places() -> Option<CpuSet> {
        None
    }

    pub(super) fn thread() -> Option<i32> {
        None
    }

    pub(super) fn pu() -> Option<usize> {
        None
    }

    pub(super) fn set(_: i32, _: &CpuSet) -> Result<(), Error> {
        Err(Error::Unsupported("affinity masks"))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_narrows_and_restores_its_mask() {
        std::thread::spawn(|| {
            let all = current().unwrap();
            let one = CpuSet::from_iter([all.first().unwrap()]);
            set(&one).unwrap();
            assert_eq!(current().unwrap(), one);
            set(&all).unwrap();
            assert_eq!(current().unwrap(), all);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_is_moved_by_another() {
        let all = current().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            sender.send(Thread::current().unwrap()).unwrap();
            ended.recv().unwrap();
            (current().unwrap(), pu().unwrap())
        });
        let last = CpuSet::from_iter([all.last().unwrap()]);
        set_of(receiver.recv().unwrap(), &last).unwrap();
        end.send(()).unwrap();
        assert_eq!(other.join().unwrap(), (last.clone(), last.last().unwrap()));
        assert_eq!(current().unwrap(), all, "only the other thread may move");
    }

    #[test]
    fn invalid_masks_are_rejected() {
        assert!(matches!(set(&CpuSet::new()), Err(Error::NotAllowed { .. })));
        let absent = CpuSet::from_iter([CpuSet::INDEX_MAX]);
        assert!(matches!(set(&absent), Err(Error::Affinity(_))));
    }
}
