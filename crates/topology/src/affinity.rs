//! Threads' affinity masks, and where the calling thread runs: the crate's only unsafe code.
//!
//! Linux only. Elsewhere [`current`] and [`set`] answer [`Error::Unsupported`]: macOS has no
//! masks at all, and Windows' processor groups are not a mask. The caller then runs unpinned.

use crate::types::{CpuSet, Error};

/// The PUs that the calling thread may run on, by OS index. It does not block.
///
/// # Errors
///
/// [`Error::Unsupported`] where the system has no masks, [`Error::Affinity`] when it refuses.
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

/// Confines the calling thread to `pus`; it may move before the call returns.
///
/// # Errors
///
/// [`Error::NotAllowed`] for an empty set, [`Error::Unsupported`] where the system has no masks,
/// [`Error::Affinity`] when it refuses (none of the PUs is online and in the cpuset).
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
    // To the kernel, 0 is whoever calls.
    set_of(Thread(0), pus)
}

/// A thread of this process, to the kernel.
///
/// Good only while the thread lives: its number may become another thread's.
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
    /// The calling thread; none where the system has no masks.
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

/// Confines a thread to `pus`; one that runs elsewhere is moved at once, one that sleeps when
/// it wakes.
///
/// # Errors
///
/// As [`set`]; [`Error::Affinity`] also when there is no such thread.
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
            reason: "an empty affinity mask".into(),
        });
    }
    system::set(thread.0, pus)
}

/// The PU that the calling thread runs on now, by OS index; none where the system does not
/// tell. Costs some nanoseconds. An unpinned thread may be elsewhere when this returns.
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
    use std::io;

    use crate::types::{CpuSet, Error};

    type Word = libc::c_ulong;
    const WORD_BITS: usize = Word::BITS as usize;

    pub(super) fn current() -> Result<CpuSet, Error> {
        // The kernel answers EINVAL while the buffer is shorter than its own mask.
        let mut words = vec![0 as Word; 1024 / WORD_BITS];
        loop {
            let bytes = size_of_val(words.as_slice());
            // SAFETY: valid, as `words` lives through the call and is `bytes` bytes long, the most
            // that is written; every bit pattern is a `Word`, and `cpu_set_t` is an array of such
            // words, so the alignment fits. Unaliased, as the pointer comes from a `&mut` of a
            // local that nobody else has seen, and the kernel keeps it no longer than the call.
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

    pub(super) fn thread() -> Option<i32> {
        // SAFETY: no memory is passed, so nothing need be valid or unaliased; it cannot fail.
        Some(unsafe { libc::gettid() })
    }

    pub(super) fn pu() -> Option<usize> {
        // SAFETY: no memory is passed, so nothing need be valid or unaliased; a failure is -1.
        usize::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    pub(super) fn set(thread: i32, pus: &CpuSet) -> Result<(), Error> {
        // Most masks fit on the stack: a pool changes seats in the midst of a program's loops,
        // which may count on it that nothing is allocated.
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
        // SAFETY: valid, as `words` borrows initialised memory that is `bytes` bytes long, the most
        // that is read, and lives through the call; the words' alignment is `cpu_set_t`'s. Nobody
        // writes meanwhile, as the borrowed local is this call's own, and the kernel keeps no
        // pointer. Any number may stand for a thread: one that names none is an error.
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
        assert_eq!(current().unwrap(), all, "only the other is moved");
    }

    #[test]
    fn invalid_masks_are_rejected() {
        assert!(matches!(set(&CpuSet::new()), Err(Error::NotAllowed { .. })));
        let absent = CpuSet::from_iter([CpuSet::INDEX_MAX]);
        assert!(matches!(set(&absent), Err(Error::Affinity(_))));
    }
}
