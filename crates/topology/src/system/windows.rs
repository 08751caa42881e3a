//! Affinity masks, the machine and the limits of the process on Windows.
//!
//! Source: Microsoft's documentation of processor groups, of the functions that are called here,
//! and of nested jobs.

use std::io;
use std::ptr;

use windows_sys::Win32::Foundation::{CloseHandle, ERROR_INSUFFICIENT_BUFFER, HANDLE};
use windows_sys::Win32::System::JobObjects::{
    JOBOBJECT_CPU_RATE_CONTROL_INFORMATION, JobObjectCpuRateControlInformation,
    QueryInformationJobObject,
};
use windows_sys::Win32::System::Kernel::PROCESSOR_NUMBER;
use windows_sys::Win32::System::SystemInformation::{
    GROUP_AFFINITY, GetLogicalProcessorInformationEx, RelationAll,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentProcessorNumberEx, GetCurrentThread, GetCurrentThreadId,
    GetProcessGroupAffinity, GetThreadGroupAffinity, OpenThread, SetThreadGroupAffinity,
    THREAD_QUERY_INFORMATION, THREAD_SET_INFORMATION,
};

use crate::read::windows::{self, GROUP_PUS};
use crate::types::{CpuSet, Error, Parts};

fn failed() -> Error {
    Error::Affinity(io::Error::last_os_error())
}

fn mask_of(thread: HANDLE) -> Result<GROUP_AFFINITY, Error> {
    let mut mask = GROUP_AFFINITY::default();
    // SAFETY: validity: `thread` is a handle or pseudo handle of a thread, and `mask` lives through
    // the call. Aliasing: the pointer comes from a `&mut` of a local variable, and the system does
    // not keep it.
    match unsafe { GetThreadGroupAffinity(thread, &raw mut mask) } {
        0 => Err(failed()),
        _ => Ok(mask),
    }
}

pub(crate) fn current() -> Result<CpuSet, Error> {
    // SAFETY: The call takes no memory and cannot fail.
    let mask = mask_of(unsafe { GetCurrentThread() })?;
    let mut pus = CpuSet::new();
    windows::insert(&mut pus, usize::from(mask.Group), mask.Mask as u64);
    Ok(pus)
}

pub(crate) fn thread() -> Option<i32> {
    // SAFETY: The call takes no memory and cannot fail.
    Some(unsafe { GetCurrentThreadId() }.cast_signed())
}

pub(crate) fn pu() -> Option<usize> {
    let mut number = PROCESSOR_NUMBER::default();
    // SAFETY: validity: `number` lives through the call. Aliasing: the pointer comes from a `&mut`
    // of a local variable, and the system does not keep it.
    unsafe { GetCurrentProcessorNumberEx(&raw mut number) };
    Some(usize::from(number.Group) * GROUP_PUS + usize::from(number.Number))
}

/// The handle of a thread. It is closed on drop.
struct Opened(HANDLE);

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: The handle is open, and nothing else closes it.
        unsafe { CloseHandle(self.0) };
    }
}

pub(crate) fn set(thread: i32, pus: &CpuSet) -> Result<(), Error> {
    let opened;
    let handle = match thread {
        // SAFETY: The call takes no memory and cannot fail.
        0 => unsafe { GetCurrentThread() },
        id => {
            let access = THREAD_QUERY_INFORMATION | THREAD_SET_INFORMATION;
            // SAFETY: The call takes no memory. It returns null if there is no such thread.
            let handle = unsafe { OpenThread(access, 0, id.cast_unsigned()) };
            if handle.is_null() {
                return Err(failed());
            }
            opened = Opened(handle);
            opened.0
        }
    };
    let own = usize::from(mask_of(handle)?.Group);
    let first = pus.first().map_or(0, |pu| pu / GROUP_PUS);
    let here = pus.iter().any(|pu| pu / GROUP_PUS == own);
    let group = if here { own } else { first };
    let mask = pus
        .iter()
        .filter(|pu| pu / GROUP_PUS == group)
        .fold(0u64, |mask, pu| mask | 1 << (pu % GROUP_PUS));
    let affinity = GROUP_AFFINITY {
        // On 32-bit systems, a group has at most 32 PUs.
        Mask: usize::try_from(mask)
            .map_err(|_| Error::Affinity(io::ErrorKind::InvalidInput.into()))?,
        Group: u16::try_from(group)
            .map_err(|_| Error::Affinity(io::ErrorKind::InvalidInput.into()))?,
        Reserved: [0; 3],
    };
    // SAFETY: validity: `handle` is a handle or pseudo handle of a thread, and `affinity` lives
    // through the call. The previous mask may be null. Aliasing: nothing writes to `affinity`, and
    // the system does not keep the pointer.
    match unsafe { SetThreadGroupAffinity(handle, &raw const affinity, ptr::null_mut()) } {
        0 => Err(failed()),
        _ => Ok(()),
    }
}

pub(crate) fn parts() -> Option<Parts> {
    let records = records().unwrap_or_default();
    let mut parts = windows::machine(&records, size_of::<usize>());
    if parts.online.is_empty() {
        return super::only_pus();
    }
    parts.constraints.extend(job_quota(parts.online.len()));
    // The thread's own mask is within one group. A process that may use several groups is not
    // limited by it, since Windows 11 lets the process's other threads run in all of them.
    if groups_of_process() < 2 {
        parts.mask = current().ok();
    }
    Some(parts)
}

/// Returns the records of `GetLogicalProcessorInformationEx`.
fn records() -> Option<Vec<u8>> {
    // The system aligns the records to 8 bytes, so the buffer is made of words of this size.
    let mut words: Vec<u64> = Vec::new();
    // The number of PUs may grow between two calls.
    for _ in 0..4 {
        let mut len = u32::try_from(words.len() * 8).ok()?;
        // SAFETY: validity: `words` has `len` bytes, which is the most that the system writes, and
        // every bit pattern is a valid `u64`. `len` lives through the call. Aliasing: both pointers
        // come from `&mut` of local variables, and the system keeps neither.
        let done = unsafe {
            let buffer = words.as_mut_ptr().cast();
            GetLogicalProcessorInformationEx(RelationAll, buffer, &raw mut len)
        };
        if done != 0 {
            let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
            return Some(bytes.take(len as usize).collect());
        }
        let error = io::Error::last_os_error().raw_os_error()?;
        if error.cast_unsigned() != ERROR_INSUFFICIENT_BUFFER {
            return None;
        }
        words.resize((len as usize).div_ceil(8), 0);
    }
    None
}

/// Returns the number of processor groups that the process may use.
fn groups_of_process() -> u16 {
    let mut groups = [0u16; 64];
    let mut count = 64;
    // SAFETY: validity: the array has `count` elements, and both live through the call. Aliasing:
    // both pointers come from `&mut` of local variables, and the system keeps neither.
    let done = unsafe {
        GetProcessGroupAffinity(GetCurrentProcess(), &raw mut count, groups.as_mut_ptr())
    };
    if done == 0 { 1 } else { count }
}

/// Returns the CPU quota of the job object that the process belongs to, if it belongs to one.
fn job_quota(pus: usize) -> Option<crate::types::Constraint> {
    let mut rate = JOBOBJECT_CPU_RATE_CONTROL_INFORMATION::default();
    // SAFETY: validity: `rate` lives through the call and has the size that we pass. A null handle
    // means the job of the calling process, and the returned length may be null. Aliasing: the
    // pointer comes from a `&mut` of a local variable, and the system does not keep it.
    let done = unsafe {
        QueryInformationJobObject(
            ptr::null_mut(),
            JobObjectCpuRateControlInformation,
            (&raw mut rate).cast(),
            size_of_val(&rate) as u32,
            ptr::null_mut(),
        )
    };
    if done == 0 {
        return None;
    }
    // SAFETY: Every member of the union is an integer, and the call has initialized all bytes.
    let value = unsafe { rate.Anonymous.CpuRate };
    windows::job_quota(rate.ControlFlags, value, pus)
}
