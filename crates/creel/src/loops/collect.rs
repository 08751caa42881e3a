//! A vector that several threads fill piece by piece. Each place is filled once.
//!
//! Invariant: the list `filled` contains exactly the pieces whose results are all present. If a
//! closure panics, each result is therefore dropped once, and none leaks.

use super::split::Split;
use crate::sync::{Mutex, lock};
use crate::worker::panics::quietly;
use std::{
    mem::{MaybeUninit, needs_drop},
    ops::Range,
};

/// The places for the results of one loop.
pub(super) struct Results<'a, R> {
    places: Split<'a, MaybeUninit<R>>,
    /// The pieces that are done. We keep them only for results that need to be dropped.
    filled: Mutex<Vec<Range<usize>>>,
}

/// Runs `fill`, and returns the vector of the results. `fill` must fill all `len` places unless it
/// returns an error.
pub(super) fn collect<R: Send, E>(
    len: usize,
    fill: impl FnOnce(&Results<'_, R>) -> Result<(), E>,
) -> Result<Vec<R>, E> {
    let mut vector = Vec::with_capacity(len);
    let results = Results {
        places: Split::new(&mut vector.spare_capacity_mut()[..len]),
        filled: Mutex::new(Vec::new()),
    };
    fill(&results)?;
    // All results are complete, so from here on the vector owns them.
    lock(&results.filled).clear();
    drop(results);
    // SAFETY: The capacity is at least `len`. `fill` has returned without a panic or an error, so
    // each place is filled.
    unsafe { vector.set_len(len) };
    Ok(vector)
}

impl<R> Results<'_, R> {
    /// Fills the places of `range` with the results of `make`, from the front, until `make` returns
    /// `None`. Returns whether all places are filled.
    ///
    /// # Safety
    /// The ranges of two calls do not overlap.
    #[inline]
    pub(super) unsafe fn fill(
        &self,
        range: Range<usize>,
        mut make: impl FnMut(usize) -> Option<R>,
    ) -> bool {
        // SAFETY: Validity: `piece` checks that the range is inside the slice. Aliasing: the caller
        // promises that the ranges of two calls do not overlap.
        let places = unsafe { self.places.piece(range.clone()) };
        let mut piece = Piece { places, filled: 0 };
        for index in range.clone() {
            let Some(result) = make(index) else {
                break;
            };
            piece.places[piece.filled].write(result);
            piece.filled += 1;
        }
        let filled = range.start..range.start + piece.filled;
        std::mem::forget(piece);
        let all = filled.end == range.end;
        if needs_drop::<R>() {
            lock(&self.filled).push(filled);
        }
        all
    }
}

/// Drops the results of a piece if `make` panics.
struct Piece<'a, R> {
    places: &'a mut [MaybeUninit<R>],
    filled: usize,
}

impl<R> Drop for Piece<'_, R> {
    fn drop(&mut self) {
        for place in &mut self.places[..self.filled] {
            // We ignore further panics, because the thread is already unwinding.
            quietly(|| {
                // SAFETY: The first `filled` places were written, and nobody reads them afterwards.
                unsafe { place.assume_init_drop() };
            });
        }
    }
}

/// Drops the results of the pieces that are done. The list is empty unless there was a panic or an
/// error.
impl<R> Drop for Results<'_, R> {
    fn drop(&mut self) {
        let filled = std::mem::take(&mut *lock(&self.filled));
        for range in filled {
            // SAFETY: All threads have ended their work, and the listed ranges do not overlap.
            let places = unsafe { self.places.piece(range) };
            let filled = places.len();
            drop(Piece { places, filled });
        }
    }
}
