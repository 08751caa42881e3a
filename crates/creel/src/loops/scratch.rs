//! Something of its own for each worker of a loop: a buffer, a random generator, a sum.

use super::split::Split;
use crate::pool::Loops;
use crossbeam_utils::CachePadded;
use std::ops::Range;

/// One `S` a worker, to be used while it visits items. Each lies in cache lines of its own.
#[derive(Debug)]
pub struct Scratch<S>(Box<[CachePadded<S>]>);

impl<S> Scratch<S> {
    /// Makes one for each of `workers` workers (at least one), by `make(worker)`.
    pub fn new(workers: usize, make: impl FnMut(usize) -> S) -> Self {
        Self(
            (0..workers.max(1))
                .map(make)
                .map(CachePadded::new)
                .collect(),
        )
    }

    /// All of them, by worker.
    pub fn iter(&self) -> impl Iterator<Item = &S> {
        self.0.iter().map(|padded| &**padded)
    }

    /// All of them, by worker.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.0.iter_mut().map(|padded| &mut **padded)
    }
}

impl Loops {
    /// Calls `f(index, item, own)` once for each item, where `own` belongs to the worker that
    /// visits it for as long as it does. Runs on no more workers than there is scratch for.
    /// Blocks until all is done.
    ///
    /// Which items share an `own` depends on the workers: to keep outcomes the same, it must be
    /// no more than scratch, or be put together by something whose order does not matter.
    ///
    /// # Panics
    /// Re-throws the first panic of `f`.
    ///
    /// ```
    /// use creel::{Pool, Scratch};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let mut words = ["ab", "cde", "f"].map(String::from);
    /// let mut buffers = Scratch::new(pool.workers(), |_| String::new());
    /// pool.for_each_mut_with(&mut words, &mut buffers, |_, word, buffer| {
    ///     buffer.clear();
    ///     buffer.extend(word.chars().rev());
    ///     word.clone_from(buffer);
    /// });
    /// assert_eq!(words, ["ba", "edc", "f"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn for_each_mut_with<T: Send, S: Send>(
        &self,
        items: &mut [T],
        scratch: &mut Scratch<S>,
        f: impl Fn(usize, &mut T, &mut S) + Sync,
    ) {
        let (items, own) = (Split::new(items), Split::new(&mut scratch.0));
        self.run_on_at_most(own.len(), items.len(), move |range: Range<usize>, who| {
            // SAFETY: `run_on_at_most` gives each unit out once.
            let piece = unsafe { items.piece(range.clone()) };
            // SAFETY: no two threads have the same index at the same time, it is below the
            // number given, and a thread does not begin a range inside another.
            let own = unsafe { own.piece(who..who + 1) };
            for (index, item) in range.zip(piece) {
                f(index, item, &mut own[0]);
            }
        });
    }
}
