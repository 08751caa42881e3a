//! Loops with one outcome: folded along a tree that depends on the number of items only, or by
//! worker where the order does not matter.

use super::{
    items::{Base, ItemOf, Items},
    visit::count,
};
use crate::pool::Pool;
use std::{iter::Sum, mem::needs_drop, num::NonZeroUsize, ops::Range};

/// Leaves of a fold's tree where the program does not say how many: two for each of 64 workers.
const LEAVES: usize = 128;
/// The same for values that own something, such as maps: each is made anew, grows, and is put into
/// another one entry by entry, so that 128 of them cost three times as much as what they are for.
const LEAVES_OWNING: usize = 16;

/// How many, by the type of the values alone: they must not depend on the machine.
const fn leaves_of<A>() -> usize {
    if needs_drop::<A>() {
        LEAVES_OWNING
    } else {
        LEAVES
    }
}

/// # Folds
///
/// They make one value of all items. Where it matters in which order, as with floating-point sums,
/// the items are cut into leaves by their number only, each folded from the front, and neighbours
/// are combined pairwise: so the outcome has the same bits at any number of workers.
impl Pool {
    /// Folds all items into one value: each leaf of a fixed tree from a fresh `init()` by
    /// `f(&mut value, index, item)`, in order, and then neighbours by `combine`. The tree has 128
    /// leaves, or 16 where the values own memory (maps, vectors), for then it is dear to put many
    /// together; [`fold_in`](Self::fold_in) has as many as you say: more for maps on more than 16
    /// workers. Where order does not matter, [`fold_by_worker`](Self::fold_by_worker) is cheaper.
    ///
    /// The same bits at any number of workers; `combine` must be associative in that sense only.
    /// Values that own memory are combined on all workers, others on the caller.
    /// Blocks until all is done; allocates two vectors of so many values at most.
    ///
    /// # Panics
    /// If slices side by side differ in length. Re-throws the first panic of a closure.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let count = |map: &mut BTreeMap<_, _>, _, word| *map.entry(word).or_insert(0) += 1;
    /// let merge = |mut a: BTreeMap<_, _>, b| {
    ///     for (word, n) in b {
    ///         *a.entry(word).or_insert(0) += n;
    ///     }
    ///     a
    /// };
    /// let words = pool.fold(&["to", "be", "or", "not", "to", "be"], BTreeMap::new, count, merge);
    /// assert_eq!(words[&"to"], 2);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn fold<I: Items, A: Send>(
        &self,
        items: I,
        init: impl Fn() -> A + Sync,
        f: impl Fn(&mut A, usize, ItemOf<'_, I>) + Sync,
        combine: impl Fn(A, A) -> A + Sync,
    ) -> A {
        self.fold_in(leaves_of::<A>(), items, init, f, combine)
    }

    /// The same, along a tree of `leaves` leaves (fewer, where there are fewer items). Few, where it
    /// is dear to combine two values; many, where the items are of unlike length. The number is a
    /// part of the outcome, so it must not depend on the machine.
    ///
    /// # Panics
    /// If `leaves` is 0; and as [`fold`](Self::fold).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let noise: Vec<f64> = (0..10_000).map(|i| f64::from(i).sin()).collect();
    /// let sum = || pool.fold_in(16, &noise, || 0.0, |sum, _, x| *sum += x, |a, b| a + b);
    /// assert_eq!(sum(), sum());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn fold_in<I: Items, A: Send>(
        &self,
        leaves: usize,
        items: I,
        init: impl Fn() -> A + Sync,
        f: impl Fn(&mut A, usize, ItemOf<'_, I>) + Sync,
        combine: impl Fn(A, A) -> A + Sync,
    ) -> A {
        let leaf = |hand: &mut I::Hand, range: Range<usize>| {
            let mut value = init();
            for index in range {
                // SAFETY: `leaves` gives each index out once.
                f(&mut value, index, unsafe { I::item(hand, index) });
            }
            value
        };
        let value = self.leaves(leaves, items, leaf, combine);
        value.unwrap_or_else(&init)
    }

    /// Folds all items into one value where order does not matter: each worker has a value, made by
    /// `init()` when it visits its first item, into which it folds what it visits by
    /// `f(&mut value, index, item)`; in the end these are combined. As many values as workers, at
    /// most, so to put maps together costs next to nothing.
    ///
    /// Which items are folded together differs from call to call: for counts, sums of integers, sets
    /// and maps of these, not for sums of floating-point numbers ([`fold`](Self::fold)). Blocks until
    /// all is done; allocates a vector of as many values as workers.
    ///
    /// # Panics
    /// If slices side by side differ in length. Re-throws the first panic of a closure.
    ///
    /// ```
    /// use std::collections::HashSet;
    ///
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let ends = pool.fold_by_worker(
    ///     0..1000,
    ///     HashSet::new,
    ///     |ends, _, n| _ = ends.insert(n * n % 10),
    ///     |a, b| a.into_iter().chain(b).collect(),
    /// );
    /// assert_eq!(ends, HashSet::from([0, 1, 4, 5, 6, 9]));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn fold_by_worker<I: Items, A: Send>(
        &self,
        items: I,
        init: impl Fn() -> A + Sync,
        f: impl Fn(&mut A, usize, ItemOf<'_, I>) + Sync,
        combine: impl Fn(A, A) -> A + Sync,
    ) -> A {
        let mut own = self.scratch(|_| None);
        self.walk((items, &mut own), |(hand, own), range, _| {
            let value = own.get().get_or_insert_with(&init);
            for index in range {
                // SAFETY: `walk` gives each index out once.
                f(value, index, unsafe { I::item(hand, index) });
            }
        });
        let made = own.into_iter().filter(Option::is_some).collect();
        self.pairwise(made, combine).unwrap_or_else(init)
    }

    /// Makes a value of each item by `f(index, item)`, and combines them all into one, along the
    /// same tree as [`fold`](Self::fold). None if there are no items. Items may be changed on the
    /// way.
    ///
    /// # Panics
    /// As [`fold`](Self::fold).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut speed = [1.0, 4.0, 2.0];
    /// let fastest = pool.map_reduce(
    ///     &mut speed,
    ///     |_, v| {
    ///         *v *= 0.5;
    ///         *v
    ///     },
    ///     f64::max,
    /// );
    /// assert_eq!(fastest, Some(2.0));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn map_reduce<I: Items, R: Send>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> R + Sync,
        combine: impl Fn(R, R) -> R + Sync,
    ) -> Option<R> {
        let leaf = |hand: &mut I::Hand, mut range: Range<usize>| {
            // SAFETY: `leaves` gives each index out once.
            let mut of = |index| f(index, unsafe { I::item(hand, index) });
            let first = range.next().map(&mut of);
            first.map(|first| range.fold(first, |value, index| combine(value, of(index))))
        };
        let value = self.leaves(LEAVES, items, leaf, |a, b| match (a, b) {
            (Some(a), Some(b)) => Some(combine(a, b)),
            (a, b) => a.or(b),
        });
        value.flatten()
    }

    /// The sum of `f(index, item)` over all items, along the same tree as [`fold`](Self::fold): the
    /// same bits at any number of workers, in floating point too.
    ///
    /// # Panics
    /// As [`fold`](Self::fold).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (a, b) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
    /// assert_eq!(pool.sum((&a, &b), |_, (a, b)| a * b), 32.0);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn sum<I: Items, S: Sum + Send>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> S + Sync,
    ) -> S {
        let leaf = |hand: &mut I::Hand, range: Range<usize>| {
            // SAFETY: `leaves` gives each index out once.
            let of = |index| f(index, unsafe { I::item(hand, index) });
            range.map(of).sum::<S>()
        };
        let sum = self.leaves(LEAVES, items, leaf, |a, b| [a, b].into_iter().sum());
        sum.unwrap_or_else(|| std::iter::empty::<S>().sum())
    }

    /// At how many items `f(index, item)` is true.
    ///
    /// # Panics
    /// As [`fold`](Self::fold).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert_eq!(pool.count(0..1000, |_, n| n % 7 == 0), 143);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn count<I: Items>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> bool + Sync,
    ) -> usize {
        self.sum(items, |index, item| usize::from(f(index, item)))
    }

    /// The least of `f(index, item)`; none if there are no items. For floating-point numbers, which
    /// have no order of all, `map_reduce(…, f64::min)`.
    ///
    /// # Panics
    /// As [`fold`](Self::fold).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let words = ["three", "two", "four"];
    /// let shortest = pool.min(&words, |index, word| (word.len(), index));
    /// assert_eq!(shortest, Some((3, 1)));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn min<I: Items, R: Ord + Send>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> R + Sync,
    ) -> Option<R> {
        self.map_reduce(items, f, Ord::min)
    }

    /// The greatest of `f(index, item)`, of equal ones the last; none if there are no items. For
    /// floating-point numbers, which have no order of all, `map_reduce(…, f64::max)`.
    ///
    /// # Panics
    /// As [`fold`](Self::fold).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert_eq!(pool.max(&["a", "abc", "ab"], |_, word| word.len()), Some(3));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn max<I: Items, R: Ord + Send>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> R + Sync,
    ) -> Option<R> {
        self.map_reduce(items, f, Ord::max)
    }

    /// Makes a value of each leaf by `leaf(hand, range)`, and combines them; none if there are no
    /// items.
    #[track_caller]
    fn leaves<I: Items, A: Send>(
        &self,
        leaves: usize,
        items: I,
        leaf: impl Fn(&mut I::Hand, Range<usize>) -> A + Sync,
        combine: impl Fn(A, A) -> A + Sync,
    ) -> Option<A> {
        assert!(leaves > 0, "a fold's tree has at least one leaf, not 0");
        let total = count(&items);
        let len = NonZeroUsize::new(total.div_ceil(leaves)).unwrap_or(NonZeroUsize::MIN);
        let mut values = Vec::new();
        values.resize_with(total.div_ceil(len.get()), || None);
        let places = Base::new(&mut values);
        self.walk_chunks(items, len, |hand, at, range, _| {
            let value = leaf(hand, range);
            // SAFETY: there is a place for each leaf, and each leaf is given out once.
            *unsafe { places.item(at) } = Some(value);
        });
        self.pairwise(values, combine)
    }

    /// Combines neighbours, then neighbours of these, until one is left. On all workers where a
    /// value owns something, for then that is likely to be work.
    fn pairwise<A: Send>(
        &self,
        mut values: Vec<Option<A>>,
        combine: impl Fn(A, A) -> A + Sync,
    ) -> Option<A> {
        let pair = |pair: &mut [Option<A>]| match pair {
            [first, second] => match (first.take(), second.take()) {
                (Some(a), Some(b)) => Some(combine(a, b)),
                (a, b) => a.or(b),
            },
            alone => alone.iter_mut().find_map(Option::take),
        };
        while values.len() > 1 {
            values = if needs_drop::<A>() {
                self.map_chunks(&mut values, 2, |_, two| pair(two))
            } else {
                values.chunks_mut(2).map(pair).collect()
            };
        }
        values.pop().flatten()
    }
}
