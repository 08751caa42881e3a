//! The loops that give a vector: a result for each item, for each chunk, or many for each.

use super::{
    collect,
    find::First,
    items::{ItemOf, Items, PartOf, Slices},
    visit::{chunk_len, count},
};
use crate::{
    pool::Pool,
    sync::{Mutex, lock},
};
use std::convert::Infallible;

impl Pool {
    /// The results of `f(index, item)` for all items, in their order. Blocks until all is done.
    ///
    /// # Panics
    /// If slices side by side differ in length. Re-throws the first panic of `f`; results made so
    /// far are dropped.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let words = pool.map(&["so", "far"], |index, word| format!("{index}: {word}"));
    /// assert_eq!(words, ["0: so", "1: far"]);
    /// // Items may be changed on the way, and a range has indices only.
    /// let mut bits = [1, 2];
    /// let before = pool.map(&mut bits, |_, x| std::mem::replace(x, 0));
    /// assert_eq!(before, pool.map(0..2, |_, index| 1 << index));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn map<I: Items, R: Send>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> R + Sync,
    ) -> Vec<R> {
        let len = count(&items);
        let made: Result<_, Infallible> = collect::collect(len, |results| {
            self.walk(items, move |hand, range, _| {
                // SAFETY: `walk` gives each index out once.
                let make = |index| Some(f(index, unsafe { I::item(hand, index) }));
                // SAFETY: and so each range.
                unsafe { results.fill(range, make) };
            });
            Ok(())
        });
        let Ok(made) = made;
        made
    }

    /// The same, unless `f` gives an error: then that one, of several the one with the least
    /// index; results made so far are dropped. Items behind an error may be left out.
    ///
    /// # Errors
    /// The first of `f`.
    ///
    /// # Panics
    /// As [`map`](Self::map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let read = |texts: &[&str]| pool.try_map(texts, |_, text| text.parse::<i32>());
    /// assert_eq!(read(&["1", "2", "3"]), Ok(vec![1, 2, 3]));
    /// assert!(read(&["1", "two", "3"]).is_err());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn try_map<I: Items, R: Send, E: Send>(
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
                    // SAFETY: `walk` gives each index out once.
                    let made = f(index, unsafe { I::item(hand, index) });
                    made.map_err(|e| error.put(index, e)).ok()
                };
                // SAFETY: and so each range.
                unsafe { results.fill(range, make) };
            });
            error.take().map_or(Ok(()), Err)
        })
    }

    /// The results of `f(start, part)` for each chunk of `len` items (the last may be shorter), in
    /// their order, as [`chunks`](Self::chunks) gives them. Blocks until all is done.
    ///
    /// # Panics
    /// If `len` is 0, or slices side by side differ in length. Re-throws the first panic of `f`;
    /// results made so far are dropped.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let sums = pool.map_chunks(&[1, 2, 3, 4, 5], 2, |_, part| part.iter().sum::<i32>());
    /// assert_eq!(sums, [3, 7, 5]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn map_chunks<I: Slices, R: Send>(
        &self,
        items: I,
        len: usize,
        f: impl Fn(usize, PartOf<'_, I>) -> R + Sync,
    ) -> Vec<R> {
        let len = chunk_len(len);
        let chunks = count(&items).div_ceil(len.get());
        let made: Result<_, Infallible> = collect::collect(chunks, |results| {
            self.walk_chunks(items, len, |hand, chunk, range, _| {
                let mut range = Some(range);
                let make = |_| {
                    let range = range.take()?;
                    // SAFETY: `walk_chunks` gives each chunk out once.
                    Some(f(range.start, unsafe { I::part(hand, range) }))
                };
                // SAFETY: as above.
                unsafe { results.fill(chunk..chunk + 1, make) };
            });
            Ok(())
        });
        let Ok(made) = made;
        made
    }

    /// What `f(index, item)` gives for all items, one after the other in their order. Blocks until
    /// all is done.
    ///
    /// # Panics
    /// If slices side by side differ in length. Re-throws the first panic of `f`, or of what it
    /// gives to iterate.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let words = pool.flat_map(&["a b", "", "c"], |_, line| line.split_whitespace());
    /// assert_eq!(words, ["a", "b", "c"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn flat_map<I: Items, M>(
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
                // SAFETY: `walk` gives each index out once.
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
