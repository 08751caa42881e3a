//! Runs rayon's parallel iterators on a Creel pool.
//!
//! If your loops are chains of rayon's iterators, you can keep them. You only add where they run:
//!
//! ```
//! use creel::Pool;
//! use creel_rayon::On;
//! use rayon::prelude::*;
//!
//! let pool = Pool::builder().workers(2).build()?;
//! let (speed, mut place) = (vec![0.5; 1000], vec![1.0; 1000]);
//!
//! place.par_iter_mut().zip(&speed).on(&pool).for_each(|(x, v)| *x += v);
//! let furthest: f64 = place.par_iter().on(&pool).map(|x| x * 2.0).sum();
//! assert_eq!(furthest, 3000.0);
//! # Ok::<(), creel::BuildError>(())
//! ```
//!
//! # Where to put `on`
//!
//! Put `on` after the last step that needs the order of the items, and before the first step that
//! makes the number of items unknown. The compiler checks this: `on` exists only for
//! [`IndexedParallelIterator`], and it returns a plain [`ParallelIterator`].
//!
//! | before `on` | after it | before or after |
//! |---|---|---|
//! | sources: slices, vectors, ranges, arrays, `VecDeque`, `par_chunks`, `par_windows` | `filter`, `filter_map`, `flat_map_iter`, `flat_map` | `map`, `map_with`, `map_init`, `inspect`, `update` |
//! | `zip`, `enumerate`, `rev`, `chain`, `take`, `step_by`, `chunks`, `interleave`, `multizip` of tuples | `fold`, `fold_with`, `try_fold`, `while_some`, `take_any` | `copied`, `cloned` |
//! | `with_min_len`, `with_max_len` (honoured) | every final method: `for_each`, `try_for_each`, `collect`, `sum`, `product`, `reduce`, `try_reduce`, `min`, `max`, `count`, `find_any`, `find_first`, `any`, `all`, `partition`, `unzip` | `panic_fuse` |
//!
//! To collect into a vector that already has memory, call `vector.clear()` and then
//! `vector.par_extend(items.on(&pool))`.
//!
//! # Deterministic results
//!
//! We cut the items into pieces by their number only, and not by the number of idle workers. We
//! then reduce the results of the pieces along a fixed tree. A sum of floats therefore has the same
//! bits on 1 and on 64 workers, which rayon does not guarantee. You can set the number of pieces
//! with [`OnPool::pieces`].
//!
//! # Limits
//!
//! - You cannot use sources without an index: hash maps, hash sets, B-trees, linked lists,
//!   `par_lines` and similar methods of strings, ranges of `u64`, and `par_bridge`. rayon does not
//!   publish how it splits them. Collect them into a vector first, as rayon itself does for maps
//!   and sets.
//! - `par_sort`, `rayon::join` and `rayon::scope` are functions of rayon's own pool. Use
//!   [`creel::Pool::join`] and [`creel::Pool::scope`] instead of the last two.
//! - Three things run on rayon's global pool: `chain` after `on`, an inner iterator of `flat_map`
//!   without its own `on`, and the items that `skip` leaves out. Nothing else starts that pool.
//! - `position_any`, `cmp`, `eq` and other methods that need an index do not exist after `on`. Use
//!   `enumerate()` before it and `find_any` after it.

#![forbid(unsafe_code)]

mod drive;

use creel::{Balance, Pool};
use rayon::iter::plumbing::UnindexedConsumer;
use rayon::iter::{IndexedParallelIterator, ParallelIterator};

/// The maximum number of pieces, unless [`OnPool::pieces`] sets another one.
const PIECES: usize = 64;

/// Adds [`on`](On::on) to rayon's parallel iterators.
pub trait On: IndexedParallelIterator {
    /// Returns the same iterator, which runs on the workers of `pool` and on the calling thread.
    ///
    /// The iterator starts when you call its last method (`for_each`, `collect`, …). That call
    /// blocks until all items are done. If a closure panics, the call waits for the running
    /// closures and then resumes the panic. Inside a loop of the same pool, the iterator runs as a
    /// nested loop.
    ///
    /// ```
    /// use creel_rayon::On;
    /// use rayon::prelude::*;
    ///
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let squares: Vec<usize> = (0..5_usize).into_par_iter().on(&pool).map(|i| i * i).collect();
    /// assert_eq!(squares, [0, 1, 4, 9, 16]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    fn on(self, pool: &Pool) -> OnPool<'_, Self> {
        OnPool {
            iterator: self,
            pool,
            balance: None,
            pieces: PIECES,
        }
    }
}

impl<I: IndexedParallelIterator> On for I {}

/// A parallel iterator on a pool. [`On::on`] creates it.
#[derive(Clone, Debug)]
#[must_use = "a parallel iterator does nothing until you call a method that consumes it"]
pub struct OnPool<'p, I> {
    iterator: I,
    pool: &'p Pool,
    balance: Option<Balance>,
    pieces: usize,
}

impl<I> OnPool<'_, I> {
    /// Sets the number of pieces into which the items are cut, if there are that many items. The
    /// default is 64.
    ///
    /// More pieces balance items of different cost better on many workers. Fewer pieces are better
    /// if results are expensive to combine, for example maps, because a `fold` creates one result
    /// per piece. If the order of reductions matters, as it does for floats, the result depends on
    /// this number.
    ///
    /// # Panics
    ///
    /// Panics if `pieces` is 0.
    ///
    /// ```
    /// use creel_rayon::On;
    /// use rayon::prelude::*;
    /// use std::collections::HashMap;
    ///
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let words = ["to", "be", "or", "not", "to", "be"];
    /// let counts = words
    ///     .par_iter()
    ///     .on(&pool)
    ///     .pieces(2 * pool.workers())
    ///     .fold(HashMap::new, |mut counts, word| {
    ///         *counts.entry(*word).or_insert(0) += 1;
    ///         counts
    ///     })
    ///     .reduce(HashMap::new, |mut counts, more| {
    ///         more.into_iter().for_each(|(word, n)| *counts.entry(word).or_insert(0) += n);
    ///         counts
    ///     });
    /// assert_eq!((counts["to"], counts["or"]), (2, 1));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn pieces(self, pieces: usize) -> Self {
        assert!(pieces > 0, "the number of pieces must be at least 1");
        Self { pieces, ..self }
    }

    /// Runs the iterator with this balance instead of the pool's own.
    ///
    /// ```
    /// use creel::Balance;
    /// use creel_rayon::On;
    /// use rayon::prelude::*;
    ///
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let songs = ["a long one", "short"];
    /// let lengths = songs.par_iter().on(&pool).balance(Balance::Shared).map(|song| song.len());
    /// assert_eq!(lengths.max(), Some(10));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn balance(self, balance: Balance) -> Self {
        Self {
            balance: Some(balance),
            ..self
        }
    }
}

impl<I: IndexedParallelIterator> ParallelIterator for OnPool<'_, I> {
    type Item = I::Item;

    fn drive_unindexed<C: UnindexedConsumer<I::Item>>(self, consumer: C) -> C::Result {
        drive::drive(self, consumer)
    }

    /// Returns the number of items. rayon uses it to collect into a vector in place, because each
    /// item goes to the consumer with its own index.
    fn opt_len(&self) -> Option<usize> {
        Some(self.iterator.len())
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
