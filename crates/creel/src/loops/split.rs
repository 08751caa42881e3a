//! A slice that is handed out in pieces that do not overlap.

use std::{marker::PhantomData, ops::Range};

/// A mutable slice whose pieces may be worked on by different threads at once.
pub(super) struct Split<'a, T> {
    first: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: through a shared `Split`, threads get `&mut T` of different items (`piece` demands
// it), which is what sending those items would give them; so `T: Send` is enough.
unsafe impl<T: Send> Sync for Split<'_, T> {}

impl<'a, T> Split<'a, T> {
    pub(super) fn new(items: &'a mut [T]) -> Self {
        Self {
            first: items.as_mut_ptr(),
            len: items.len(),
            borrow: PhantomData,
        }
    }

    /// One piece.
    ///
    /// # Safety
    /// While the piece is in use, no other piece that overlaps it is asked for.
    pub(super) unsafe fn piece(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: the start is at most the length, so inside the slice or at its end.
        let first = unsafe { self.first.add(range.start) };
        // SAFETY: the range is inside the slice, which is borrowed mutably for `'a`; nobody
        // else uses these items meanwhile, says the caller.
        unsafe { std::slice::from_raw_parts_mut(first, range.len()) }
    }
}
