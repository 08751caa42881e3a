//! Data for each worker of a loop, such as a buffer, a random generator or a sum.

use super::items::{Base, Count, HasChunk, HasItem, Sections, Walk, WalkChunks};
use crate::pool::Pool;
use crossbeam_utils::CachePadded;
use std::{fmt, iter::FusedIterator, ops::Range, slice, vec};

/// One value of type `S` per worker, which the worker uses while it visits items. Pass it to a loop
/// next to the items, as `(&mut items, &mut scratch)`. [`Pool::scratch`] creates it. Each value has
/// its own cache lines.
///
/// A loop uses at most as many workers as the scratch has values. Which items share a value depends
/// on the workers. If the result of your program must not depend on the workers, only keep
/// temporary data in the scratch. Alternatively, combine the values with an operation for which the
/// order does not matter.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let mut longest = pool.scratch(|_| 0);
/// pool.for_each((&["a", "abc", "ab"], &mut longest), |(word, longest)| {
///     *longest = word.len().max(*longest);
/// });
/// assert_eq!(longest.into_iter().max(), Some(3));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Scratch<S>(Box<[CachePadded<S>]>);

impl<S> Scratch<S> {
    /// Creates scratch for `workers` workers (at least one), with the values `make(worker)`. Use
    /// this if the number differs from the pool's. Otherwise use [`Pool::scratch`].
    ///
    /// ```
    /// let made = creel::Scratch::new(3, |worker| worker * 10);
    /// assert!(made.iter().eq(&[0, 10, 20]));
    /// ```
    #[must_use]
    pub fn new(workers: usize, make: impl FnMut(usize) -> S) -> Self {
        Self(
            (0..workers.max(1))
                .map(make)
                .map(CachePadded::new)
                .collect(),
        )
    }

    /// Returns an iterator over the values, in the order of the workers.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut visits = pool.scratch(|_| 0);
    /// pool.for_each((0..100, &mut visits), |(_, visits)| *visits += 1);
    /// assert_eq!(visits.iter().sum::<usize>(), 100);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn iter(&self) -> ScratchIter<'_, S> {
        ScratchIter(self.0.iter())
    }

    /// Returns a mutable iterator over the values, in the order of the workers.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut visits = pool.scratch(|_| 0);
    /// for _frame in 0..2 {
    ///     visits.iter_mut().for_each(|visits| *visits = 0);
    ///     pool.for_each((0..100, &mut visits), |(_, visits)| *visits += 1);
    /// }
    /// assert_eq!(visits.iter().sum::<usize>(), 100);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn iter_mut(&mut self) -> ScratchIterMut<'_, S> {
        ScratchIterMut(self.0.iter_mut())
    }
}

impl<'a, S> IntoIterator for &'a Scratch<S> {
    type Item = &'a S;
    type IntoIter = ScratchIter<'a, S>;

    /// Returns the iterator of [`Scratch::iter`].
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, S> IntoIterator for &'a mut Scratch<S> {
    type Item = &'a mut S;
    type IntoIter = ScratchIterMut<'a, S>;

    /// Returns the iterator of [`Scratch::iter_mut`].
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

/// An iterator over references to the values of a [`Scratch`], in the order of the workers.
/// [`Scratch::iter`] creates it.
///
/// ```
/// let scratch = creel::Scratch::new(3, |worker| worker * 10);
/// let mut sum = 0;
/// for value in &scratch {
///     sum += value;
/// }
/// assert_eq!(sum, 30);
/// ```
#[derive(Debug)]
pub struct ScratchIter<'a, S>(slice::Iter<'a, CachePadded<S>>);

impl<'a, S> Iterator for ScratchIter<'a, S> {
    type Item = &'a S;

    fn next(&mut self) -> Option<&'a S> {
        self.0.next().map(|padded| &**padded)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<S> ExactSizeIterator for ScratchIter<'_, S> {}

impl<S> FusedIterator for ScratchIter<'_, S> {}

/// An iterator over mutable references to the values of a [`Scratch`], in the order of the workers.
/// [`Scratch::iter_mut`] creates it.
///
/// ```
/// let mut scratch = creel::Scratch::new(3, |worker| worker * 10);
/// for value in &mut scratch {
///     *value += 1;
/// }
/// assert!(scratch.iter().eq(&[1, 11, 21]));
/// ```
#[derive(Debug)]
pub struct ScratchIterMut<'a, S>(slice::IterMut<'a, CachePadded<S>>);

impl<'a, S> Iterator for ScratchIterMut<'a, S> {
    type Item = &'a mut S;

    fn next(&mut self) -> Option<&'a mut S> {
        self.0.next().map(|padded| &mut **padded)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<S> ExactSizeIterator for ScratchIterMut<'_, S> {}

impl<S> FusedIterator for ScratchIterMut<'_, S> {}

impl<S> IntoIterator for Scratch<S> {
    type Item = S;
    type IntoIter = ScratchIntoIter<S>;

    /// Returns an iterator that yields the values themselves, in the order of the workers. Use it
    /// to combine what they have collected.
    fn into_iter(self) -> Self::IntoIter {
        ScratchIntoIter(self.0.into_vec().into_iter())
    }
}

/// An iterator over the values of a [`Scratch`], in the order of the workers.
/// [`Scratch::into_iter`] creates it.
///
/// ```
/// let mut made = creel::Scratch::new(3, |worker| worker * 10).into_iter();
/// assert_eq!((made.len(), made.next(), made.next_back()), (3, Some(0), Some(20)));
/// ```
pub struct ScratchIntoIter<S>(vec::IntoIter<CachePadded<S>>);

impl<S> Iterator for ScratchIntoIter<S> {
    type Item = S;

    fn next(&mut self) -> Option<S> {
        self.0.next().map(CachePadded::into_inner)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<S> DoubleEndedIterator for ScratchIntoIter<S> {
    fn next_back(&mut self) -> Option<S> {
        self.0.next_back().map(CachePadded::into_inner)
    }
}

impl<S> ExactSizeIterator for ScratchIntoIter<S> {}

impl<S> FusedIterator for ScratchIntoIter<S> {}

impl<S: fmt::Debug> fmt::Debug for ScratchIntoIter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.0.as_slice().iter().map(|padded| &**padded);
        f.debug_list().entries(values).finish()
    }
}

impl Pool {
    /// Creates scratch for this pool's loops. It has a value `make(worker)` for each worker that a
    /// loop can use now. If the pool grows later, loops with this scratch do not use the additional
    /// workers.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut words = ["ab", "cde", "f"].map(String::from);
    /// let mut buffers = pool.scratch(|_| String::new());
    /// pool.for_each((&mut words, &mut buffers), |(word, buffer)| {
    ///     buffer.clear();
    ///     buffer.extend(word.chars().rev());
    ///     word.clone_from(buffer);
    /// });
    /// assert_eq!(words, ["ba", "edc", "f"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn scratch<S>(&self, make: impl FnMut(usize) -> S) -> Scratch<S> {
        Scratch::new(self.workers().min(self.most), make)
    }
}

impl<'x, S> HasItem<'x> for &mut Scratch<S> {
    type Item = &'x mut S;
}

impl<'x, S> HasChunk<'x> for &mut Scratch<S> {
    type Chunk = &'x mut S;
}

/// A worker's value of a [`Scratch`] while the worker visits some items.
pub struct Own<'a, S>(&'a mut S);

impl<S> Own<'_, S> {
    pub(super) fn get(&mut self) -> &mut S {
        self.0
    }
}

// SAFETY: Each worker receives only its own value, and only for the duration of a visit.
unsafe impl<'a, S: Send> Walk for &'a mut Scratch<S> {
    type Base = Base<'a, CachePadded<S>>;
    type Hand = Own<'a, S>;
    const COUNTED: bool = false;

    #[inline]
    fn count(&self, count: &mut Count) {
        count.pass();
    }

    #[inline]
    fn most(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn open(self, _: Sections) -> Self::Base {
        Base::new(&mut self.0)
    }

    #[inline]
    unsafe fn take(base: &Self::Base, who: usize, _: usize) -> Own<'a, S> {
        // SAFETY: The caller promises that `who` is below the number of values, and that no other
        // thread uses the same `who` while the hand is in use. The value is not passed on for
        // longer than that.
        Own(unsafe { base.item(who) })
    }

    #[inline]
    unsafe fn item<'x>(hand: &'x mut Own<'a, S>, _: usize) -> &'x mut S
    where
        Self: 'x,
    {
        hand.0
    }
}

// SAFETY: The reasons are the same as for `Walk`, which is implemented above.
unsafe impl<'a, S: Send> WalkChunks for &'a mut Scratch<S> {
    #[inline]
    unsafe fn chunk<'x>(hand: &'x mut Own<'a, S>, _: Range<usize>) -> &'x mut S
    where
        Self: 'x,
    {
        hand.0
    }
}
