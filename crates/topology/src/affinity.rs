//! Affinity masks of threads, and the PU of the calling thread.
//!
//! These functions work on Linux, Windows and FreeBSD. On other systems [`current`] and [`set`]
//! return [`Error::Unsupported`], for example on macOS, which has no masks. You can then run
//! unpinned.
//!
//! On Windows, PU number 64 × g + n is the processor n of the processor group g. A thread has a
//! mask within one group. If you pass PUs of several groups to [`set`], it uses the PUs of the
//! thread's own group. If none of them is in that group, it uses those of the first group in the
//! set.

use crate::system;
use crate::types::{CpuSet, Error};

/// Returns the PUs on which the calling thread may run, by OS index. It does not block.
///
/// # Errors
///
/// Returns [`Error::Unsupported`] if the system has no masks, or [`Error::Affinity`] if it reports
/// an error.
///
/// Source: sched_setaffinity(2); GetThreadGroupAffinity; cpuset_getaffinity(2).
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
/// If `OMP_PROC_BIND`, `OMP_PLACES`, `GOMP_CPU_AFFINITY` or `KMP_AFFINITY` is set, an OpenMP
/// runtime pins the main thread to one place when it is loaded. It does that to divide its PUs
/// among its own threads, so the rest of the process may still use all places. If the mask of the
/// calling thread is inside of OpenMP's places, this function therefore returns all of them. It
/// finds libgomp, libomp and libiomp5, if they are visible to the whole process or were loaded
/// under their usual names.
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
    system::process_mask()
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
/// # if affinity::current().is_err() { return Ok(()) } // no masks here
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
    // 0 means the calling thread.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// Restricts a thread to `pus`. A running thread moves at once. A sleeping thread moves when it
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
