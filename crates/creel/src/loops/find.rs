//! The loops that can stop early, because the result is known or an error occurred.
//!
//! The invariant: if several items qualify, the one with the lowest index is the result, and every
//! item before it has been visited. So the result is that of a loop on one thread, regardless of
//! which worker first finds a qualifying item. The exceptions are [`Pool::find_any`], [`Pool::any`]
//! and [`Pool::all`], where any qualifying item is as good as another. [`First`] keeps the invariant,
//! so a search for another item, for example the last one, needs a record of its own.

use super::items::{ItemOf, ParItems};
use crate::{
    pool::Pool,
    sync::{AtomicUsize, Mutex, Ordering, lock},
};

/// The result with the lowest index that was found so far.
pub(super) struct First<R> {
    /// The index of this result, or `usize::MAX`. Relaxed is enough, because it is only a hint that
    /// a worker may stop. The result itself is under the lock, and all of the loop's work happens
    /// before the loop returns.
    index: AtomicUsize,
    found: Mutex<Option<(usize, R)>>,
}

impl<R> Default for First<R> {
    fn default() -> Self {
        Self {
            index: AtomicUsize::new(usize::MAX),
            found: Mutex::new(None),
        }
    }
}

impl<R> First<R> {
    /// Returns whether a result was found before this index.
    #[inline]
    pub(super) fn is_before(&self, index: usize) -> bool {
        self.index.load(Ordering::Relaxed) < index
    }

    /// Records a result that was found at this index.
    pub(super) fn put(&self, index: usize, found: R) {
        let mut place = lock(&self.found);
        let further = match &*place {
            Some((first, _)) if *first < index => Some((index, found)),
            _ => {
                self.index.store(index, Ordering::Relaxed);
                place.replace((index, found))
            }
        };
        drop(place);
        drop(further);
    }

    /// Takes the result with the lowest index.
    pub(super) fn take(&self) -> Option<R> {
        lock(&self.found).take().map(|(_, found)| found)
    }
}

impl Pool {
    /// Returns the result of `f(item)` for the first item for which it is `Some`, in the order of
    /// the items. Items behind that one may be skipped. Blocks until no worker visits an item any
    /// more.
    ///
    /// # Panics
    /// Panics if slices in a tuple differ in length. Resumes the first panic of `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let texts = ["a", "7", "b", "8"];
    /// let number = pool.find_map(&texts, |text| text.parse::<i32>().ok());
    /// assert_eq!(number, Some(7));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn find_map<I: ParItems, R: Send>(
        &self,
        items: I,
        f: impl Fn(ItemOf<'_, I>) -> Option<R> + Sync,
    ) -> Option<R> {
        self.find_map_indexed(items, move |_, item| f(item))
    }

    /// Does the same as [`find_map`](Self::find_map), but calls `f(index, item)`.
    ///
    /// # Panics
    /// Panics in the same cases as [`find_map`](Self::find_map).
    #[must_use]
    #[track_caller]
    pub fn find_map_indexed<I: ParItems, R: Send>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> Option<R> + Sync,
    ) -> Option<R> {
        let first = First::default();
        self.walk(items, |hand, range, _| {
            for index in range {
                if first.is_before(index) {
                    return;
                }
                // SAFETY: `walk` passes each index once, so no item is passed twice.
                if let Some(found) = f(index, unsafe { I::item(hand, index) }) {
                    return first.put(index, found);
                }
            }
        });
        first.take()
    }

    /// Calls `f(item)` for each item until one returns an error. Items behind the error may be
    /// skipped. Items before it are not. Blocks until all workers are done.
    ///
    /// # Errors
    /// Returns the error of `f` with the lowest index.
    ///
    /// # Panics
    /// Panics in the same cases as [`find_map`](Self::find_map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut ages = [3, -1, 5, -2];
    /// let checked = pool.try_for_each(&mut ages, |age| match *age {
    ///     0.. => Ok(*age += 1),
    ///     _ => Err(format!("{age} is negative")),
    /// });
    /// assert_eq!(checked.unwrap_err(), "-1 is negative");
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn try_for_each<I: ParItems, E: Send>(
        &self,
        items: I,
        f: impl Fn(ItemOf<'_, I>) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        self.try_for_each_indexed(items, move |_, item| f(item))
    }

    /// Does the same as [`try_for_each`](Self::try_for_each), but calls `f(index, item)`.
    ///
    /// # Errors
    /// Returns the same errors as [`try_for_each`](Self::try_for_each).
    ///
    /// # Panics
    /// Panics in the same cases as [`find_map`](Self::find_map).
    #[track_caller]
    pub fn try_for_each_indexed<I: ParItems, E: Send>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let error = self.find_map_indexed(items, |index, item| f(index, item).err());
        error.map_or(Ok(()), Err)
    }

    /// Returns the lowest index at which `f(item)` is true. Items behind that one may be skipped.
    /// Blocks until no worker visits an item any more.
    ///
    /// # Panics
    /// Panics in the same cases as [`find_map`](Self::find_map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert_eq!(pool.position(&[3, 5, 8, 9], |x| x % 2 == 0), Some(2));
    /// assert_eq!(pool.position(&[3, 5], |x| x % 2 == 0), None);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn position<I: ParItems>(
        &self,
        items: I,
        f: impl Fn(ItemOf<'_, I>) -> bool + Sync,
    ) -> Option<usize> {
        self.find_map_indexed(items, |index, item| f(item).then_some(index))
    }

    /// Returns the index of any item for which `f(item)` is true. If several qualify, the result
    /// may differ from call to call. All workers stop once one is found. Blocks until no worker
    /// visits an item any more.
    ///
    /// # Panics
    /// Panics in the same cases as [`find_map`](Self::find_map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let numbers = [3, 8, 5, 6];
    /// let even = pool.find_any(&numbers, |x| x % 2 == 0).unwrap();
    /// assert_eq!(numbers[even] % 2, 0);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn find_any<I: ParItems>(
        &self,
        items: I,
        f: impl Fn(ItemOf<'_, I>) -> bool + Sync,
    ) -> Option<usize> {
        // Relaxed is enough, because all of the loop's work happens before the loop returns, and we
        // read the result after that.
        let found = AtomicUsize::new(usize::MAX);
        self.walk(items, |hand, range, _| {
            for index in range {
                if found.load(Ordering::Relaxed) != usize::MAX {
                    return;
                }
                // SAFETY: `walk` passes each index once, so no item is passed twice.
                if f(unsafe { I::item(hand, index) }) {
                    return found.store(index, Ordering::Relaxed);
                }
            }
        });
        // `usize::MAX` is never the index of an item.
        let found = found.load(Ordering::Relaxed);
        (found != usize::MAX).then_some(found)
    }

    /// Returns whether `f(item)` is true for at least one item. All workers stop once one is
    /// found. Blocks until no worker visits an item any more.
    ///
    /// # Panics
    /// Panics in the same cases as [`find_map`](Self::find_map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert!(pool.any(&[1, 2, 3], |x| *x > 2));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn any<I: ParItems>(&self, items: I, f: impl Fn(ItemOf<'_, I>) -> bool + Sync) -> bool {
        self.find_any(items, f).is_some()
    }

    /// Returns whether `f(item)` is true for all items. All workers stop once an item is found for
    /// which it is false. Blocks until no worker visits an item any more.
    ///
    /// # Panics
    /// Panics in the same cases as [`find_map`](Self::find_map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (a, b) = ([1, 2, 3], [1, 2, 4]);
    /// assert!(!pool.all((&a, &b), |(a, b)| a == b));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn all<I: ParItems>(&self, items: I, f: impl Fn(ItemOf<'_, I>) -> bool + Sync) -> bool {
        !self.any(items, |item| !f(item))
    }
}
