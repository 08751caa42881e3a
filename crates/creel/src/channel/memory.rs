//! The memory of the channels with one sender and one receiver. A thread that runs a pool's tasks
//! allocates a channel of up to 256 bytes in the heap of its local scheduler, which also contains
//! tasks. Any other channel comes from the allocator of the program.
//!
//! The state word of the channel records which of these two allocators was used.

use crate::task;
use std::ptr::NonNull;

/// A bit in the state word of a channel that never changes. If it is set, the channel is in the
/// heap of a local scheduler.
pub(super) const IN_HEAP: u64 = 1 << 7;

/// Creates a channel. `channel` receives the initial value of the state word.
#[inline]
pub(super) fn make<C>(channel: impl FnOnce(u64) -> C) -> NonNull<C> {
    match task::block_for_channel::<C>() {
        Some(place) => {
            // SAFETY: the block is large enough and aligned for a `C`, and belongs to us.
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
/// The channel was created by [`make`], `state` is its state word, and it is not used again.
#[inline]
pub(super) unsafe fn free<C>(channel: NonNull<C>, state: u64) {
    if state & IN_HEAP != 0 {
        // SAFETY: the channel belongs to the caller and is not used again.
        unsafe { channel.drop_in_place() };
        // SAFETY: according to the state word, the block comes from `block_for_channel`, and it is
        // not used again.
        unsafe { task::free_channel(channel) };
    } else {
        // SAFETY: according to the state word, `Box::leak` made this pointer, and it is not used
        // again.
        drop(unsafe { Box::from_raw(channel.as_ptr()) });
    }
}
