//! The loops over slices and ranges.

use super::{collect, split::Split};
use crate::pool::{Balance, Loops};
use std::{cmp::Reverse, num::NonZeroUsize, ops::Range, sync::Arc};

impl Loops {
    /// Calls `f(index, item)` once for each item, on all workers. Blocks until all is done.
    ///
    /// # Panics
    /// Re-throws the first panic of `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut squares = [0; 5];
    /// pool.for_each_mut(&mut squares, |index, square| *square = index * index);
    /// assert_eq!(squares, [0, 1, 4, 9, 16]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn for_each_mut<T: Send>(&self, items: &mut [T], f: impl Fn(usize, &mut T) + Sync) {
        let split = Split::new(items);
        self.run(split.len(), move |range: Range<usize>, _| {
            // SAFETY: `run` gives each unit out once.
            let piece = unsafe { split.piece(range.clone()) };
            for (index, item) in range.zip(piece) {
                f(index, item);
            }
        });
    }

    /// Calls `f(index, item)` once for each item, those with the largest `length(item)` first,
    /// whatever the pool's balance: for few jobs of known, unlike length. Who is free takes the
    /// next, so that all end at about the same time. Blocks until all is done.
    ///
    /// # Panics
    /// Re-throws the first panic of `length` or `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut songs = ["intro".to_string(), "a very long song".into(), "outro".into()];
    /// pool.for_each_longest_first(&mut songs, |song| song.len() as u64, |index, song| {
    ///     song.insert_str(0, &format!("{index}: "));
    /// });
    /// assert_eq!(songs[1], "1: a very long song");
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn for_each_longest_first<T: Send>(
        &self,
        items: &mut [T],
        length: impl Fn(&T) -> u64,
        f: impl Fn(usize, &mut T) + Sync,
    ) {
        let mut order: Vec<(u64, usize)> = items.iter().map(length).zip(0..).collect();
        order.sort_by_key(|&(length, index)| (Reverse(length), index));
        let split = Split::new(items);
        let queue = Loops {
            shared: Arc::clone(&self.shared),
            balance: Balance::Shared,
        };
        queue.run(order.len(), move |range: Range<usize>, _| {
            for &(_, index) in &order[range] {
                // SAFETY: `order` has each index once, and `run` gives each unit out once.
                let piece = unsafe { split.piece(index..index + 1) };
                piece.iter_mut().for_each(|item| f(index, item));
            }
        });
    }

    /// Calls `f(chunk_index, chunk)` once for each chunk of `len` items (the last may be
    /// shorter), on all workers. Blocks until all is done.
    ///
    /// # Panics
    /// If `len` is 0. Re-throws the first panic of `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut rows = [1, 2, 3, 4, 5];
    /// pool.for_each_chunk_mut(&mut rows, 2, |index, row| row.fill(index));
    /// assert_eq!(rows, [0, 0, 1, 1, 2]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn for_each_chunk_mut<T: Send>(
        &self,
        items: &mut [T],
        len: usize,
        f: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let len = NonZeroUsize::new(len)
            .expect("a chunk has at least one item")
            .get();
        let total = items.len();
        let split = Split::new(items);
        self.run(total.div_ceil(len), move |chunks: Range<usize>, _| {
            for chunk in chunks {
                let begin = chunk * len;
                // SAFETY: `run` gives each chunk out once, and chunks do not overlap.
                let piece = unsafe { split.piece(begin..total.min(begin.saturating_add(len))) };
                f(chunk, piece);
            }
        });
    }

    /// Calls `f(index, item)` once for each item, on all workers. Blocks until all is done.
    ///
    /// # Panics
    /// Re-throws the first panic of `f`.
    #[track_caller]
    pub fn for_each<T: Sync>(&self, items: &[T], f: impl Fn(usize, &T) + Sync) {
        self.run(items.len(), move |range, _| {
            for (index, item) in range.clone().zip(&items[range]) {
                f(index, item);
            }
        });
    }

    /// Calls `f(index)` once for each index of the range, on all workers. Blocks until all is
    /// done.
    ///
    /// # Panics
    /// Re-throws the first panic of `f`.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let sum = AtomicUsize::new(0);
    /// pool.for_each_index(10..20, |index| {
    ///     sum.fetch_add(index, Ordering::Relaxed);
    /// });
    /// assert_eq!(sum.into_inner(), 145);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn for_each_index(&self, range: Range<usize>, f: impl Fn(usize) + Sync) {
        let first = range.start;
        self.run(range.len(), move |part, _| part.for_each(|i| f(first + i)));
    }

    /// Calls `f(index, a, b)` once for each pair of items with the same index, on all workers.
    /// Blocks until all is done.
    ///
    /// # Panics
    /// If the slices differ in length. Re-throws the first panic of `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut speed, mut place) = ([1.0, 2.0], [10.0, 20.0]);
    /// pool.zip(&mut speed, &mut place, |_, v, x| {
    ///     *v *= 0.5;
    ///     *x += *v;
    /// });
    /// assert_eq!(place, [10.5, 21.0]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn zip<A: Send, B: Send>(
        &self,
        a: &mut [A],
        b: &mut [B],
        f: impl Fn(usize, &mut A, &mut B) + Sync,
    ) {
        assert_eq!(a.len(), b.len(), "zipped slices have the same length");
        let (a, b) = (Split::new(a), Split::new(b));
        self.run(a.len(), move |range: Range<usize>, _| {
            // SAFETY: `run` gives each unit out once.
            let a = unsafe { a.piece(range.clone()) };
            // SAFETY: validity: `b` has as many items as there are units. Aliasing: `run` gives
            // each unit out once, and the two slices are different mutable borrows.
            let b = unsafe { b.piece(range.clone()) };
            for ((index, a), b) in range.zip(a).zip(b) {
                f(index, a, b);
            }
        });
    }

    /// The results of `f(index, item)` for all items, in their order. Blocks until all is done.
    ///
    /// # Panics
    /// Re-throws the first panic of `f`; results made so far are dropped.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let words = pool.map(&["so", "far"], |index, word| format!("{index}: {word}"));
    /// assert_eq!(words, ["0: so", "1: far"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn map<T: Sync, R: Send>(&self, items: &[T], f: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
        collect::collect(items.len(), |results| {
            self.run(items.len(), move |range, _| {
                let made = range.clone().zip(&items[range.clone()]);
                // SAFETY: `run` gives each unit out once.
                unsafe { results.fill(range, made.map(|(index, item)| f(index, item))) };
            });
        })
    }
}
