//! Calls to the operating system: affinity masks on each system, and the machine on systems that do
//! not describe it in files. This is the only unsafe code of the crate.
//!
//! Every system has a file with the same functions. The parsers of what these calls return are in
//! `read/`, so that they run in tests on every system.
//!
//! | function | result or effect |
//! |---|---|
//! | `current` | the mask of the calling thread |
//! | `process_mask` | that mask, or all of OpenMP's places if OpenMP has narrowed it |
//! | `set` | sets the mask of a thread, where 0 is the calling thread |
//! | `thread` | the id of the calling thread |
//! | `pu` | the PU on which the calling thread runs |
//! | `parts` | the machine and the limits of the process, except on Linux and Android |

#[cfg(any(target_os = "linux", target_os = "android"))]
#[cfg_attr(
    target_os = "android",
    expect(dead_code, reason = "only the mask is read there")
)]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{current, pu, set, thread};
#[cfg(target_os = "linux")]
mod openmp;
#[cfg(target_os = "linux")]
pub(crate) use openmp::process_mask;
#[cfg(target_os = "linux")]
pub(crate) use openmp::process_mask as mask_of_files;
// Android moves threads between cpusets as it likes, so we report no support of masks there. We
// only read the present mask.
#[cfg(target_os = "android")]
pub(crate) use linux::current as mask_of_files;

#[cfg(not(target_os = "linux"))]
pub(crate) use self::current as process_mask;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub(crate) use windows::{current, parts, pu, set, thread};

#[cfg(target_os = "freebsd")]
mod freebsd;
#[cfg(target_os = "freebsd")]
pub(crate) use freebsd::{current, parts, pu, set, thread};

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(target_vendor = "apple")]
pub(crate) use apple::parts;

#[cfg(not(any(target_os = "linux", windows, target_os = "freebsd")))]
mod no_masks;
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_vendor = "apple",
    windows
)))]
pub(crate) use no_masks::parts;
#[cfg(not(any(target_os = "linux", windows, target_os = "freebsd")))]
pub(crate) use no_masks::{current, pu, set, thread};

/// Returns a machine of which only the number of PUs is known. Returns `None` if the system does
/// not report that number either.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn only_pus() -> Option<crate::types::Parts> {
    let pus = std::thread::available_parallelism().ok()?.get();
    Some(crate::types::Parts {
        online: crate::types::CpuSet::range(0..=pus - 1),
        ..crate::types::Parts::default()
    })
}
