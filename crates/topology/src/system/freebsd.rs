//! Affinity masks and the machine on FreeBSD.
//!
//! Source: cpuset_getaffinity(2), smp(4).

use std::io;

use crate::types::{CpuSet, Error, Parts};

type Word = libc::c_ulong;
const WORD_BITS: usize = Word::BITS as usize;
/// The kernel rejects a set that is smaller than its own, which has room for 1,024 PUs.
const WORDS: usize = 1_024 / WORD_BITS;

pub(crate) fn current() -> Result<CpuSet, Error> {
    let mut words = [0 as Word; WORDS];
    // SAFETY: validity: `words` lives through the call and has as many bytes as we pass, and every
    // bit pattern is a valid `Word`. `cpuset_t` is an array of such words. Aliasing: the pointer
    // comes from a `&mut` of a local variable, and the kernel does not keep it.
    let rc = unsafe {
        libc::cpuset_getaffinity(
            libc::CPU_LEVEL_WHICH,
            libc::CPU_WHICH_TID,
            -1,
            size_of_val(&words),
            words.as_mut_ptr().cast(),
        )
    };
    if rc != 0 {
        return Err(Error::Affinity(io::Error::last_os_error()));
    }
    let bit = |pu: &usize| words[pu / WORD_BITS] >> (pu % WORD_BITS) & 1 == 1;
    Ok((0..WORDS * WORD_BITS).filter(bit).collect())
}

pub(crate) fn thread() -> Option<i32> {
    // SAFETY: We pass no memory, so nothing must be valid or unaliased. The call cannot fail.
    Some(unsafe { libc::pthread_getthreadid_np() })
}

pub(crate) fn pu() -> Option<usize> {
    None
}

pub(crate) fn set(thread: i32, pus: &CpuSet) -> Result<(), Error> {
    let mut words = [0 as Word; WORDS];
    for pu in pus.iter() {
        let word = words.get_mut(pu / WORD_BITS);
        let out_of_range = || Error::Affinity(io::ErrorKind::InvalidInput.into());
        *word.ok_or_else(out_of_range)? |= 1 << (pu % WORD_BITS);
    }
    let id = match thread {
        0 => -1,
        id => libc::id_t::from(id),
    };
    // SAFETY: validity: `words` lives through the call and has as many bytes as we pass. Aliasing:
    // nothing writes to it during the call, and the kernel does not keep the pointer. Any id is
    // allowed, because the call returns an error if there is no such thread.
    let rc = unsafe {
        libc::cpuset_setaffinity(
            libc::CPU_LEVEL_WHICH,
            libc::CPU_WHICH_TID,
            id,
            size_of_val(&words),
            words.as_ptr().cast(),
        )
    };
    match rc {
        0 => Ok(()),
        _ => Err(Error::Affinity(io::Error::last_os_error())),
    }
}

/// Returns the PUs and the mask. Which PUs share a core is not known.
pub(crate) fn parts() -> Option<Parts> {
    let mask = current().ok().filter(|mask| !mask.is_empty());
    let counted = super::only_pus()?;
    let online = match &mask {
        // The standard library counts the PUs of the mask.
        Some(mask) => mask.clone(),
        None => counted.online,
    };
    Some(Parts {
        online,
        mask,
        ..Parts::default()
    })
}
