//! A vector that threads fill piece by piece, each place once.
//!
//! The invariant: `filled` lists exactly the pieces whose results are all there, so a panic
//! half-way drops each result once and leaks none.

use super::split::Split;
use crate::sync::{Mutex, lock};
use crate::worker::panics::quietly;
use std::{
    mem::{MaybeUninit, needs_drop},
    ops::Range,
};

/// The places of the results of one loop.
pub(super) struct Results<'a, R> {
    places: Split<'a, MaybeUninit<R>>,
    /// The pieces that are done. Kept only for results that have something to drop.
    filled: Mutex<Vec<Range<usize>>>,
}

/// Runs `fill`, which must fill all `len` places unless it gives an error, and gives the vector of
/// the results.
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
    // The results are the vector's from here on.
    lock(&results.filled).clear();
    drop(results);
    // SAFETY: the capacity is at least `len`, and `fill` has returned without a panic or an error,
    // so each place was filled.
    unsafe { vector.set_len(len) };
    Ok(vector)
}

impl<R> Results<'_, R> {
    /// Fills the places of `range` with what `make` gives for each, from the front, until it gives
    /// none: says whether it has filled them all.
    ///
    /// # Safety
    /// No two calls have ranges that overlap.
    #[inline]
    pub(super) unsafe fn fill(
        &self,
        range: Range<usize>,
        mut make: impl FnMut(usize) -> Option<R>,
    ) -> bool {
        // SAFETY: validity: `piece` checks that the range is inside. Aliasing: no two calls have
        // ranges that overlap, says the caller.
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

/// Drops what a piece holds so far when its making panics.
struct Piece<'a, R> {
    places: &'a mut [MaybeUninit<R>],
    filled: usize,
}

impl<R> Drop for Piece<'_, R> {
    fn drop(&mut self) {
        for place in &mut self.places[..self.filled] {
            // A panic is on its way already.
            quietly(|| {
                // SAFETY: the first `filled` places were written, and nobody reads them after.
                unsafe { place.assume_init_drop() };
            });
        }
    }
}

/// Dropped on the way of a panic or an error only: drops the pieces that were done.
impl<R> Drop for Results<'_, R> {
    fn drop(&mut self) {
        let filled = std::mem::take(&mut *lock(&self.filled));
        for range in filled {
            // SAFETY: all threads have ended their work; the listed ranges do not overlap.
            let places = unsafe { self.places.piece(range) };
            let filled = places.len();
            drop(Piece { places, filled });
        }
    }
}
