//! The loops that return a vector. The vector has one result for each item or chunk, or any number
//! of results for each item (`flat_map`).

use super::{
    collect,
    find::First,
    items::{ChunkOf, ItemOf, ParChunks, ParItems},
    visit::{chunk_len, count},
};
use crate::{
    pool::Pool,
    sync::{Mutex, lock},
};
use std::convert::Infallible;

impl Pool {
    /// Returns the results of `f(item)` for all items, in the order of the items. Blocks until all
    /// items are done.
    ///
    /// # Panics
    /// Panics if slices in a tuple differ in length. Resumes the first panic of `f`, after dropping
    /// the results made so far.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let lengths = pool.map(&["so", "far!"], |word| word.len());
    /// assert_eq!(lengths, [2, 4]);
    /// // The closure may change the items, and the items of a range are its numbers.
    /// let mut bits = [1, 2];
    /// let before = pool.map(&mut bits, |x| std::mem::replace(x, 0));
    /// assert_eq!(before, pool.map(0..2, |index| 1 << index));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn map<I: ParItems, R: Send>(
        &self,
        items: I,
        f: impl Fn(ItemOf<'_, I>) -> R + Sync,
    ) -> Vec<R> {
        self.map_indexed(items, move |_, item| f(item))
    }

    /// Returns the results of `f(index, item)` for all items, in the order of the items. Blocks
    /// until all items are done.
    ///
    /// # Panics
    /// Panics in the same cases as [`map`](Self::map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let words = pool.map_indexed(&["so", "far"], |index, word| format!("{index}: {word}"));
    /// assert_eq!(words, ["0: so", "1: far"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn map_indexed<I: ParItems, R: Send>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> R + Sync,
    ) -> Vec<R> {
        let len = count(&items);
        let made: Result<_, Infallible> = collect::collect(len, |results| {
            self.walk(items, move |hand, range, _| {
                // SAFETY: `walk` passes each index once, so no item is passed twice.
                let make = |index| Some(f(index, unsafe { I::item(hand, index) }));
                // SAFETY: `walk` passes each range once, so no place is filled twice.
                unsafe { results.fill(range, make) };
            });
            Ok(())
        });
        let Ok(made) = made;
        made
    }

    /// Returns the results of `f(item)` for all items, in the order of the items, or the error with
    /// the lowest index. Items behind an error may be skipped. Items before it are not. Blocks
    /// until the result is known.
    ///
    /// # Errors
    /// Returns the error of `f` with the lowest index, after dropping the results made so far.
    ///
    /// # Panics
    /// Panics in the same cases as [`map`](Self::map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let read = |texts: &[&str]| pool.try_map(texts, |text| text.parse::<i32>());
    /// assert_eq!(read(&["1", "2", "3"]), Ok(vec![1, 2, 3]));
    /// assert!(read(&["1", "two", "3"]).is_err());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn try_map<I: ParItems, R: Send, E: Send>(
        &self,
        items: I,
        f: impl Fn(ItemOf<'_, I>) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        self.try_map_indexed(items, move |_, item| f(item))
    }

    /// Does the same as [`try_map`](Self::try_map), but calls `f(index, item)`.
    ///
    /// # Errors
    /// Returns the same errors as [`try_map`](Self::try_map).
    ///
    /// # Panics
    /// Panics in the same cases as [`map`](Self::map).
    #[track_caller]
    pub fn try_map_indexed<I: ParItems, R: Send, E: Send>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        let len = count(&items);
        collect::collect(len, |results| {
            let error = First::default();
            self.walk(items, |hand, range, _| {
                let make = |index| {
                    if error.is_before(index) {
                        return None;
                    }
                    // SAFETY: `walk` passes each index once, so no item is passed twice.
                    let made = f(index, unsafe { I::item(hand, index) });
                    made.map_err(|e| error.put(index, e)).ok()
                };
                // SAFETY: `walk` passes each range once, so no place is filled twice.
                unsafe { results.fill(range, make) };
            });
            error.take().map_or(Ok(()), Err)
        })
    }

    /// Returns the results of `f(chunk)` for each chunk of `len` items, in the order of the chunks.
    /// The last chunk may be shorter. Blocks until all chunks are done.
    ///
    /// # Panics
    /// Panics if `len` is 0 or slices in a tuple differ in length. Resumes the first panic of `f`,
    /// after dropping the results made so far.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let sums = pool.map_chunks(&[1, 2, 3, 4, 5], 2, |chunk| chunk.iter().sum::<i32>());
    /// assert_eq!(sums, [3, 7, 5]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn map_chunks<I: ParChunks, R: Send>(
        &self,
        items: I,
        len: usize,
        f: impl Fn(ChunkOf<'_, I>) -> R + Sync,
    ) -> Vec<R> {
        self.map_chunks_indexed(items, len, move |_, chunk| f(chunk))
    }

    /// Does the same as [`map_chunks`](Self::map_chunks), but calls `f(start, chunk)`, where
    /// `start` is the index of the chunk's first item.
    ///
    /// # Panics
    /// Panics in the same cases as [`map_chunks`](Self::map_chunks).
    #[track_caller]
    pub fn map_chunks_indexed<I: ParChunks, R: Send>(
        &self,
        items: I,
        len: usize,
        f: impl Fn(usize, ChunkOf<'_, I>) -> R + Sync,
    ) -> Vec<R> {
        let len = chunk_len(len);
        let chunks = count(&items).div_ceil(len.get());
        let made: Result<_, Infallible> = collect::collect(chunks, |results| {
            self.walk_chunks(items, len, |hand, chunk, range, _| {
                let mut range = Some(range);
                let make = |_| {
                    let range = range.take()?;
                    // SAFETY: `walk_chunks` passes each chunk once, so no item is passed twice.
                    Some(f(range.start, unsafe { I::chunk(hand, range) }))
                };
                // SAFETY: `walk_chunks` passes each chunk once, so no place is filled twice.
                unsafe { results.fill(chunk..chunk + 1, make) };
            });
            Ok(())
        });
        let Ok(made) = made;
        made
    }

    /// Returns all elements of the iterators that `f(item)` returns, in the order of the items.
    /// Blocks until all items are done.
    ///
    /// # Panics
    /// Panics if slices in a tuple differ in length. Resumes the first panic of `f` or of the
    /// iterators.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let words = pool.flat_map(&["a b", "", "c"], |line| line.split_whitespace());
    /// assert_eq!(words, ["a", "b", "c"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn flat_map<I: ParItems, M>(
        &self,
        items: I,
        f: impl Fn(ItemOf<'_, I>) -> M + Sync,
    ) -> Vec<M::Item>
    where
        M: IntoIterator<Item: Send>,
    {
        self.flat_map_indexed(items, move |_, item| f(item))
    }

    /// Does the same as [`flat_map`](Self::flat_map), but calls `f(index, item)`.
    ///
    /// # Panics
    /// Panics in the same cases as [`flat_map`](Self::flat_map).
    #[track_caller]
    pub fn flat_map_indexed<I: ParItems, M>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> M + Sync,
    ) -> Vec<M::Item>
    where
        M: IntoIterator<Item: Send>,
    {
        let pieces = Mutex::new(Vec::new());
        self.walk(items, |hand, range, _| {
            let mut piece = Vec::new();
            for index in range.clone() {
                // SAFETY: `walk` passes each index once, so no item is passed twice.
                piece.extend(f(index, unsafe { I::item(hand, index) }));
            }
            lock(&pieces).push((range.start, piece));
        });
        let mut pieces = std::mem::take(&mut *lock(&pieces));
        pieces.sort_unstable_by_key(|(start, _)| *start);
        let mut all = Vec::with_capacity(pieces.iter().map(|(_, piece)| piece.len()).sum());
        for (_, mut piece) in pieces {
            all.append(&mut piece);
        }
        all
    }
}
