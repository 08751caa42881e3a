//! Splits a slice into pieces that do not overlap.

use std::{marker::PhantomData, ops::Range};

/// A mutable slice whose pieces different threads may use at the same time.
pub(super) struct Split<'a, T> {
    first: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: Through a shared `Split`, threads get `&mut T` of different items, because `piece`
// requires it. Sending the items would give them the same access, so `T: Send` is enough.
unsafe impl<T: Send> Sync for Split<'_, T> {}

impl<'a, T> Split<'a, T> {
    pub(super) fn new(items: &'a mut [T]) -> Self {
        Self {
            first: items.as_mut_ptr(),
            len: items.len(),
            borrow: PhantomData,
        }
    }

    /// Returns one piece.
    ///
    /// # Safety
    /// While the piece is in use, nobody requests another piece that overlaps it.
    pub(super) unsafe fn piece(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: The start is at most the length, so it is inside the slice or at its end.
        let first = unsafe { self.first.add(range.start) };
        // SAFETY: The range is inside the slice, which is borrowed mutably for `'a`. The caller
        // promises that nobody else uses these items in the meantime.
        unsafe { std::slice::from_raw_parts_mut(first, range.len()) }
    }
}
