//! Affinity masks on Linux.
//!
//! Source: sched_setaffinity(2), sched_getcpu(3), gettid(2).

use std::io;

use crate::types::{CpuSet, Error};

type Word = libc::c_ulong;
const WORD_BITS: usize = Word::BITS as usize;

pub(crate) fn current() -> Result<CpuSet, Error> {
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
        if error.raw_os_error() != Some(libc::EINVAL) || longer * WORD_BITS > CpuSet::INDEX_MAX + 1
        {
            return Err(Error::Affinity(error));
        }
        words.resize(longer, 0);
    }
}

pub(crate) fn thread() -> Option<i32> {
    // SAFETY: We pass no memory, so nothing must be valid or unaliased. The call cannot fail.
    Some(unsafe { libc::gettid() })
}

pub(crate) fn pu() -> Option<usize> {
    // SAFETY: We pass no memory, so nothing must be valid or unaliased. A failure is -1.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

pub(crate) fn set(thread: i32, pus: &CpuSet) -> Result<(), Error> {
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
