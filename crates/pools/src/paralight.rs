//! The pool that paralight asks for: two ways to run a pipeline over the indices of a source.
//!
//! The indices are cut into pieces by their number alone, which are the items of a loop of Creel's;
//! the pieces' outputs are put together in their order, so the outcome does not depend on who ran
//! what.
//!
//! The invariant, which paralight demands: each index is given out once, either to be processed or
//! to be cleaned up. A [`Piece`] owns its indices from the beginning to the end: it is an iterator,
//! and what is left of it when it is dropped, for whatever reason, is cleaned up.

use creel::Pool;
use paralight::iter::{Accumulator, ExactSizeAccumulator, GenericThreadPool, SourceCleanup};
use std::mem;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many pieces the indices are cut into, where there are that many.
const PIECES: usize = 64;

/// A Creel pool for paralight.
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
/// A panic of an iterator's closures is re-thrown at the caller after all that was begun has ended,
/// and the pool stays usable. Inside a loop of the same pool it runs as a nested loop.
#[derive(Clone, Copy, Debug)]
pub struct Paralight<'p>(pub &'p Pool);

/// Some neighbouring indices of a source. Nobody else has them.
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
            // SAFETY: the pieces are made of `0..len` without overlap (`Pieces::run`), and what
            // `next` has given out is no longer in `indices`.
            unsafe { self.cleanup.cleanup_item_range(self.indices.clone()) };
        }
    }
}

enum Step<P, T> {
    Ahead(P),
    /// Its closure runs, or has panicked.
    Begun,
    Done(T),
}

impl Paralight<'_> {
    /// What `run` makes of each piece of `0..len`, in their order; at least one.
    ///
    /// When `run` panics, pieces not yet begun are dropped, and so cleaned up.
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
        let mut steps: Vec<_> = (0..pieces).map(cut).map(Step::Ahead).collect();
        self.0.for_each(&mut steps, |step| {
            if let Step::Ahead(piece) = mem::replace(step, Step::Begun) {
                *step = Step::Done(run(piece));
            }
        });
        steps.into_iter().map(|step| match step {
            Step::Done(made) => made,
            _ => unreachable!("a loop that returns has visited each piece"),
        })
    }
}

// SAFETY: indices are given out by `Piece` only, whose invariant is what is asked for: inside
// `0..input_len`, each once, to be processed or to be cleaned up, also when something panics.
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
        // The lowest index that has ended the search. Relaxed: a hint that spares work.
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
        outputs.reduce(reduce).expect("at least one piece")
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
