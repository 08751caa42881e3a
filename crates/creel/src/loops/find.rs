//! The loops that end early: what is looked for was found, or something went wrong.
//!
//! The invariant: of several finds the one with the least index counts, and all before it were
//! looked at. So the outcome is that of a loop on one thread, whoever finds what first; but for
//! `find_any`, which is content with any.

use super::items::{ItemOf, Items};
use crate::{
    pool::Pool,
    sync::{AtomicUsize, Mutex, Ordering, lock},
};

/// The find with the least index so far.
pub(super) struct First<R> {
    /// Its index, or the largest number. Relaxed: a hint where one may stop; what was found is
    /// under the lock, and the loop's end is ordered after all of it.
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
    /// Whether there is a find before this index.
    #[inline]
    pub(super) fn is_before(&self, index: usize) -> bool {
        self.index.load(Ordering::Relaxed) < index
    }

    /// Something was found there.
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

    /// What was found first.
    pub(super) fn take(&self) -> Option<R> {
        lock(&self.found).take().map(|(_, found)| found)
    }
}

impl Pool {
    /// What `f(index, item)` gives, if anything, at the least index at which it gives something.
    /// Items behind that may be left out. Blocks until it is known.
    ///
    /// # Panics
    /// If slices side by side differ in length. Re-throws the first panic of `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let texts = ["a", "7", "b", "8"];
    /// let number = pool.find_map(&texts, |_, text| text.parse::<i32>().ok());
    /// assert_eq!(number, Some(7));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn find_map<I: Items, R: Send>(
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
                // SAFETY: `walk` gives each index out once.
                if let Some(found) = f(index, unsafe { I::item(hand, index) }) {
                    return first.put(index, found);
                }
            }
        });
        first.take()
    }

    /// Calls `f(index, item)` for each item until one gives an error. Items behind that may be left
    /// out, those before it are not. Blocks until all is done.
    ///
    /// # Errors
    /// That of `f` with the least index.
    ///
    /// # Panics
    /// As [`find_map`](Self::find_map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut ages = [3, -1, 5, -2];
    /// let checked = pool.try_each(&mut ages, |index, age| match *age {
    ///     0.. => Ok(*age += 1),
    ///     _ => Err(format!("age {index} is negative")),
    /// });
    /// assert_eq!(checked.unwrap_err(), "age 1 is negative");
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn try_each<I: Items, E: Send>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let error = self.find_map(items, |index, item| f(index, item).err());
        error.map_or(Ok(()), Err)
    }

    /// The least index at which `f(index, item)` is true. Items behind that may be left out. Blocks
    /// until it is known.
    ///
    /// # Panics
    /// As [`find_map`](Self::find_map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert_eq!(pool.position(&[3, 5, 8, 9], |_, x| x % 2 == 0), Some(2));
    /// assert_eq!(pool.position(&[3, 5], |_, x| x % 2 == 0), None);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn position<I: Items>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> bool + Sync,
    ) -> Option<usize> {
        self.find_map(items, |index, item| f(index, item).then_some(index))
    }

    /// An index at which `f(index, item)` is true: of several the one that is found soonest, which
    /// may be another one each time. All look no further then. Blocks until it is known.
    ///
    /// # Panics
    /// As [`find_map`](Self::find_map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let numbers = [3, 8, 5, 6];
    /// let even = pool.find_any(&numbers, |_, x| x % 2 == 0).unwrap();
    /// assert_eq!(numbers[even] % 2, 0);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn find_any<I: Items>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> bool + Sync,
    ) -> Option<usize> {
        // Relaxed: the loop's end is ordered after all that was done in it.
        let found = AtomicUsize::new(usize::MAX);
        self.walk(items, |hand, range, _| {
            for index in range {
                if found.load(Ordering::Relaxed) != usize::MAX {
                    return;
                }
                // SAFETY: `walk` gives each index out once.
                if f(index, unsafe { I::item(hand, index) }) {
                    return found.store(index, Ordering::Relaxed);
                }
            }
        });
        // The largest number is no item's index.
        let found = found.load(Ordering::Relaxed);
        (found != usize::MAX).then_some(found)
    }

    /// Whether `f(index, item)` is true for one item at least. Once one is found, all look no
    /// further. Blocks until it is known.
    ///
    /// # Panics
    /// As [`find_map`](Self::find_map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert!(pool.any(&[1, 2, 3], |_, x| *x > 2));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn any<I: Items>(&self, items: I, f: impl Fn(usize, ItemOf<'_, I>) -> bool + Sync) -> bool {
        self.find_any(items, f).is_some()
    }

    /// Whether `f(index, item)` is true for all items. Once one is found for which it is not, all
    /// look no further. Blocks until it is known.
    ///
    /// # Panics
    /// As [`find_map`](Self::find_map).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (a, b) = ([1, 2, 3], [1, 2, 4]);
    /// assert!(!pool.all((&a, &b), |_, (a, b)| a == b));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn all<I: Items>(&self, items: I, f: impl Fn(usize, ItemOf<'_, I>) -> bool + Sync) -> bool {
        !self.any(items, |index, item| !f(index, item))
    }
}
