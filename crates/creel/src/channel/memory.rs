//! Where the one-to-one channels lie: a worker that makes one takes the memory from its own heap
//! of blocks, as it does for tasks; any other thread from the program's allocator.
//!
//! The channel's state word remembers which.

use crate::task;
use std::ptr::NonNull;

/// In a channel's state word, from the beginning to the end: it lies in a worker's heap.
pub(super) const IN_HEAP: u64 = 1 << 7;

/// Makes a channel, told what its state word begins with.
#[inline]
pub(super) fn make<C>(channel: impl FnOnce(u64) -> C) -> NonNull<C> {
    match task::block_for_channel::<C>() {
        Some(place) => {
            // SAFETY: large and aligned enough for a `C`, and ours.
            unsafe { place.write(channel(IN_HEAP)) };
            place
        }
        None => NonNull::from(Box::leak(Box::new(channel(0)))),
    }
}

/// Drops and frees a channel.
///
/// # Safety
///
/// It was made by [`make`], `state` is its state word, and it is not used again.
#[inline]
pub(super) unsafe fn free<C>(channel: NonNull<C>, state: u64) {
    if state & IN_HEAP != 0 {
        // SAFETY: the caller's, and not used again.
        unsafe { channel.drop_in_place() };
        // SAFETY: from `block_for_channel`, as the word tells, and not used again.
        unsafe { task::free_channel(channel) };
    } else {
        // SAFETY: made by `Box::leak`, as the word tells, and not used again.
        drop(unsafe { Box::from_raw(channel.as_ptr()) });
    }
}
