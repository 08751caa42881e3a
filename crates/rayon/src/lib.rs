//! rayon's parallel iterators on a Creel pool.
//!
//! A program that has its loops as chains of rayon's keeps them, and says where they run:
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
//! After the last step that needs the items' order, before the first that makes their number
//! unknown. The compiler tells: `on` is there for [`IndexedParallelIterator`] only, and what it
//! gives is a plain [`ParallelIterator`].
//!
//! | before `on` | after it | before or after |
//! |---|---|---|
//! | sources: slices, vectors, ranges, arrays, `VecDeque`, `par_chunks`, `par_windows` | `filter`, `filter_map`, `flat_map_iter`, `flat_map` | `map`, `map_with`, `map_init`, `inspect`, `update` |
//! | `zip`, `enumerate`, `rev`, `chain`, `take`, `step_by`, `chunks`, `interleave`, `multizip` of tuples | `fold`, `fold_with`, `try_fold`, `while_some`, `take_any` | `copied`, `cloned` |
//! | `with_min_len`, `with_max_len` (obeyed) | every end: `for_each`, `try_for_each`, `collect`, `sum`, `product`, `reduce`, `try_reduce`, `min`, `max`, `count`, `find_any`, `find_first`, `any`, `all`, `partition`, `unzip` | `panic_fuse` |
//!
//! To collect into memory that is there already: `vector.clear()`, then
//! `vector.par_extend(items.on(&pool))`.
//!
//! # The same bits
//!
//! The items are cut into pieces by their number alone, not by who is idle, and the pieces' results
//! are put together along a fixed tree. So a sum of floats has the same bits on 1 and on 64 workers,
//! which rayon does not promise. [`OnPool::pieces`] sets how many there are.
//!
//! # What is not there
//!
//! - Sources without an index: hash maps, hash sets, B-trees, linked lists, `par_lines` and the
//!   like of strings, ranges of `u64`, `par_bridge`. rayon keeps to itself how they are cut. Collect
//!   them into a vector first, as rayon does itself for maps and sets.
//! - `par_sort` and its like, `rayon::join`, `rayon::scope`: these are functions of rayon's own pool.
//!   [`creel::Pool::join`] and [`creel::Pool::scope`] are Creel's.
//! - `chain` after `on`, and an inner iterator of `flat_map` without an `on` of its own, run on rayon's
//!   global pool, as does what `skip` leaves out. All else never starts it.
//! - `position_any`, `cmp`, `eq` and other ends that need an index: `enumerate()` before, `find_any`
//!   after.

#![forbid(unsafe_code)]

mod drive;

use creel::{Balance, Pool};
use rayon::iter::plumbing::UnindexedConsumer;
use rayon::iter::{IndexedParallelIterator, ParallelIterator};

/// How many pieces the items are cut into at most, unless [`OnPool::pieces`] says otherwise.
const PIECES: usize = 64;

/// Puts a parallel iterator on a pool.
pub trait On: IndexedParallelIterator {
    /// The same iterator, driven by `pool`'s workers and the calling thread.
    ///
    /// It begins when an end (`for_each`, `collect`, …) is called, which blocks until all is done.
    /// What the iterator's closures panic with is re-thrown there, after all that was begun has
    /// ended. Inside a loop of the same pool it runs as a nested loop.
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

/// A parallel iterator on a pool. Made by [`On::on`].
#[derive(Clone, Debug)]
#[must_use = "an iterator does nothing until one of its ends is called"]
pub struct OnPool<'p, I> {
    iterator: I,
    pool: &'p Pool,
    balance: Option<Balance>,
    pieces: usize,
}

impl<I> OnPool<'_, I> {
    /// Cuts the items into so many pieces (64 if this is not called), where there are that many.
    ///
    /// More pieces even out items of unlike cost on many workers. Fewer are better where the
    /// results are dear to put together, such as maps: a `fold` makes one a piece. The outcome
    /// depends on this number if the order of putting together matters, as for floats.
    ///
    /// # Panics
    /// If `pieces` is 0.
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
        assert!(pieces > 0, "items are cut into at least one piece, not 0");
        Self { pieces, ..self }
    }

    /// Runs under this balance, not the pool's own.
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

    /// The number of items: each of them is given to the consumer at its own index.
    fn opt_len(&self) -> Option<usize> {
        Some(self.iterator.len())
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
