//! The thread pool that paralight needs: two functions that run a pipeline over the indices of a
//! source.
//!
//! We cut the indices into pieces by their number only, and run the pieces as the items of a loop
//! of Creel. We combine their outputs in order, so the result does not depend on which worker ran
//! which piece.
//!
//! Invariant, which paralight demands: each index is used exactly once, either processed or cleaned
//! up. A [`Piece`] owns its indices from beginning to end. It is an iterator, and when it is
//! dropped for any reason, it cleans up its remaining indices.

use creel::Pool;
use paralight::iter::{Accumulator, ExactSizeAccumulator, GenericThreadPool, SourceCleanup};
use std::mem;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of pieces.
const PIECES: usize = 64;

/// A Creel pool in the form that paralight accepts.
///
/// ```
/// use creel_pools::Paralight;
/// use paralight::prelude::*;
///
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let (left, right) = ([1, 2, 3], [10, 20, 30]);
/// let sum = (left.par_iter(), right.par_iter())
///     .zip_eq()
///     .with_thread_pool(Paralight(&pool))
///     .map(|(a, b)| a * b)
///     .sum::<i32>();
/// assert_eq!(sum, 140);
/// # Ok::<(), creel::BuildError>(())
/// ```
///
/// If a closure panics, the call waits for the running closures and then resumes the panic. The
/// pool remains usable. Inside a loop of the same pool, the iterator runs as a nested loop.
#[derive(Clone, Copy, Debug)]
pub struct Paralight<'p>(pub &'p Pool);

/// A range of indices of a source. No other piece has these indices.
struct Piece<'a, C: SourceCleanup> {
    indices: Range<usize>,
    cleanup: &'a C,
}

impl<C: SourceCleanup> Iterator for Piece<'_, C> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.indices.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.indices.size_hint()
    }
}

impl<C: SourceCleanup> Drop for Piece<'_, C> {
    fn drop(&mut self) {
        if C::NEEDS_CLEANUP && !self.indices.is_empty() {
            // SAFETY: The pieces divide `0..len` without overlap (see `Paralight::run`), and
            // indices that `next` has returned are no longer in `indices`.
            unsafe { self.cleanup.cleanup_item_range(self.indices.clone()) };
        }
    }
}

/// The state of a piece.
enum Step<P, T> {
    /// The piece has not started.
    Ready(P),
    /// The closure of the piece is running, or has panicked.
    Running,
    /// The piece is done.
    Done(T),
}

impl Paralight<'_> {
    /// Runs `run` for each piece of `0..len` and returns the results in order. There is at least
    /// one piece.
    ///
    /// If `run` panics, pieces that have not started are dropped, which cleans them up.
    fn run<'a, T: Send, C: SourceCleanup + Sync>(
        &self,
        len: usize,
        cleanup: &'a C,
        run: impl Fn(Piece<'a, C>) -> T + Sync,
    ) -> impl ExactSizeIterator<Item = T> {
        let pieces = len.clamp(1, PIECES);
        let at = |piece: usize| (len as u128 * piece as u128 / pieces as u128) as usize;
        let cut = |piece| Piece {
            indices: at(piece)..at(piece + 1),
            cleanup,
        };
        let mut steps: Vec<_> = (0..pieces).map(cut).map(Step::Ready).collect();
        self.0.for_each(&mut steps, |step| {
            if let Step::Ready(piece) = mem::replace(step, Step::Running) {
                *step = Step::Done(run(piece));
            }
        });
        steps.into_iter().map(|step| match step {
            Step::Done(made) => made,
            _ => unreachable!("the loop returned without running a piece"),
        })
    }
}

// SAFETY: Only `Piece` hands out indices, and its invariant is what the trait demands. All indices
// are inside `0..input_len`, and each is processed or cleaned up exactly once, even if a closure
// panics.
unsafe impl GenericThreadPool for Paralight<'_> {
    fn upper_bounded_pipeline<Output: Send, Accum>(
        self,
        input_len: usize,
        init: impl Fn() -> Accum + Sync,
        process_item: impl Fn(Accum, usize) -> ControlFlow<Accum, Accum> + Sync,
        finalize: impl Fn(Accum) -> Output + Sync,
        reduce: impl Fn(Output, Output) -> Output,
        cleanup: &(impl SourceCleanup + Sync),
    ) -> Output {
        // The lowest index that has ended the search. Relaxed is enough, because it is only a hint
        // that avoids work.
        let bound = AtomicUsize::new(usize::MAX);
        let outputs = self.run(input_len, cleanup, |mut piece| {
            let mut accum = init();
            while piece.indices.start < bound.load(Ordering::Relaxed) {
                let Some(index) = piece.next() else { break };
                accum = match process_item(accum, index) {
                    ControlFlow::Continue(accum) => accum,
                    ControlFlow::Break(accum) => {
                        bound.fetch_min(index, Ordering::Relaxed);
                        accum
                    }
                };
            }
            finalize(accum)
        });
        outputs.reduce(reduce).expect("there is at least one piece")
    }

    fn iter_pipeline<Output, Accum: Send>(
        self,
        input_len: usize,
        accum: impl Accumulator<usize, Accum> + Sync,
        reduce: impl ExactSizeAccumulator<Accum, Output>,
        cleanup: &(impl SourceCleanup + Sync),
    ) -> Output {
        let made = self.run(input_len, cleanup, |piece| accum.accumulate(piece));
        reduce.accumulate_exact(made)
    }
}
