//! Loops with a single result. They fold their items along a tree that does not depend on the
//! number of workers. If the order does not matter, each worker folds the items that it visits.

use super::{
    items::{Base, ItemOf, ParItems},
    visit::count,
};
use crate::pool::Pool;
use std::{iter::Sum, mem::needs_drop, num::NonZeroUsize, ops::Range};

/// The default number of leaves of a fold's tree. On a pool of 64 workers, each worker then has two
/// leaves.
const LEAVES: usize = 128;
/// The default number of leaves for values that own memory, such as maps. Each such value has to be
/// allocated, grown, and merged entry by entry. Therefore 128 of these values would cost three
/// times as much as the fold itself.
const LEAVES_OWNING: usize = 16;

/// Returns the default number of leaves. It depends on the type of the values only, because it
/// must not depend on the machine.
const fn leaves_of<A>() -> usize {
    if needs_drop::<A>() {
        LEAVES_OWNING
    } else {
        LEAVES
    }
}

/// # Folds
///
/// A fold reduces all items to one value. The result must not depend on the number of workers, even
/// for floating-point sums. Therefore we cut the items into a fixed number of leaves, fold each
/// leaf in order, and combine neighbours pairwise. The result has the same bits at any number of
/// workers.
impl Pool {
    /// Folds all items into one value. The pool cuts the items into the leaves of a fixed tree.
    /// Each leaf starts with a fresh `init()` and calls `f(&mut value, item)` for its items in
    /// order. Then `combine` merges neighbouring values.
    ///
    /// The tree has 128 leaves, or 16 if the values own memory (for example maps and vectors),
    /// because merging many of those is expensive. [`fold_with_leaves`](Self::fold_with_leaves)
    /// lets you choose the number, for example to use more than 16 workers with maps. If the order
    /// does not matter, [`fold_by_worker`](Self::fold_by_worker) is cheaper.
    ///
    /// The result has the same bits at any number of workers, and `combine` does not have to be
    /// commutative. Values that own memory are combined on all workers, other values on the
    /// caller. Blocks until all items are done. Allocates memory for about two values per leaf.
    ///
    /// # Panics
    /// Panics if slices in a tuple differ in length. Resumes the first panic of a closure.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let count = |map: &mut BTreeMap<_, _>, word| *map.entry(word).or_insert(0) += 1;
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
    pub fn fold<I: ParItems, A: Send>(
        &self,
        items: I,
        init: impl Fn() -> A + Sync,
        f: impl Fn(&mut A, ItemOf<'_, I>) + Sync,
        combine: impl Fn(A, A) -> A + Sync,
    ) -> A {
        self.fold_with_leaves(leaves_of::<A>(), items, init, f, combine)
    }

    /// Does the same as [`fold`](Self::fold), but calls `f(&mut value, index, item)`.
    ///
    /// # Panics
    /// Panics in the same cases as [`fold`](Self::fold).
    #[track_caller]
    pub fn fold_indexed<I: ParItems, A: Send>(
        &self,
        items: I,
        init: impl Fn() -> A + Sync,
        f: impl Fn(&mut A, usize, ItemOf<'_, I>) + Sync,
        combine: impl Fn(A, A) -> A + Sync,
    ) -> A {
        self.fold_tree(leaves_of::<A>(), items, init, f, combine)
    }

    /// Does the same as [`fold`](Self::fold), along a tree of `leaves` leaves, or fewer if there
    /// are fewer items. Choose few leaves if combining two values is expensive, and many if the
    /// items differ in cost. The result depends on the number of leaves, so do not derive it from
    /// the machine.
    ///
    /// # Panics
    /// Panics if `leaves` is 0, and in the same cases as [`fold`](Self::fold).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let noise: Vec<f64> = (0..10_000).map(|i| f64::from(i).sin()).collect();
    /// let sum = || pool.fold_with_leaves(16, &noise, || 0.0, |sum, x| *sum += x, |a, b| a + b);
    /// assert_eq!(sum(), sum());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn fold_with_leaves<I: ParItems, A: Send>(
        &self,
        leaves: usize,
        items: I,
        init: impl Fn() -> A + Sync,
        f: impl Fn(&mut A, ItemOf<'_, I>) + Sync,
        combine: impl Fn(A, A) -> A + Sync,
    ) -> A {
        self.fold_tree(
            leaves,
            items,
            init,
            |value, _, item| f(value, item),
            combine,
        )
    }

    #[track_caller]
    fn fold_tree<I: ParItems, A: Send>(
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
                // SAFETY: `leaves` passes each index once, so no item is passed twice.
                f(&mut value, index, unsafe { I::item(hand, index) });
            }
            value
        };
        let value = self.leaves(leaves, items, leaf, combine);
        value.unwrap_or_else(&init)
    }

    /// Folds all items into one value if the order does not matter. Each worker calls `init()`
    /// when it visits its first item and then `f(&mut value, item)` for each item that it visits.
    /// At the end, `combine` merges these values. There are at most as many values as workers, so
    /// merging even large maps costs next to nothing.
    ///
    /// Which items are folded together differs from call to call. Use it for counts, sums of
    /// integers, and sets or maps of these, but not for sums of floating-point numbers (see
    /// [`fold`](Self::fold)). Blocks until all items are done. Allocates memory for a few values
    /// per worker.
    ///
    /// # Panics
    /// Panics if slices in a tuple differ in length. Resumes the first panic of a closure.
    ///
    /// ```
    /// use std::collections::HashSet;
    ///
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let ends = pool.fold_by_worker(
    ///     0..1000,
    ///     HashSet::new,
    ///     |ends, n| _ = ends.insert(n * n % 10),
    ///     |a, b| a.into_iter().chain(b).collect(),
    /// );
    /// assert_eq!(ends, HashSet::from([0, 1, 4, 5, 6, 9]));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn fold_by_worker<I: ParItems, A: Send>(
        &self,
        items: I,
        init: impl Fn() -> A + Sync,
        f: impl Fn(&mut A, ItemOf<'_, I>) + Sync,
        combine: impl Fn(A, A) -> A + Sync,
    ) -> A {
        let mut own = self.scratch(|_| None);
        self.walk((items, &mut own), |(hand, own), range, _| {
            let value = own.get().get_or_insert_with(&init);
            for index in range {
                // SAFETY: `walk` passes each index once, so no item is passed twice.
                f(value, unsafe { I::item(hand, index) });
            }
        });
        let made = own.into_iter().filter(Option::is_some).collect();
        self.pairwise(made, combine).unwrap_or_else(init)
    }

    /// Computes `f(item)` for each item and combines the results into one, along a fixed tree as
    /// [`fold`](Self::fold) does. This tree has 128 leaves for every type. Returns `None` if there
    /// are no items. The closure may change the items.
    ///
    /// # Panics
    /// Panics in the same cases as [`fold`](Self::fold).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut speed = [1.0, 4.0, 2.0];
    /// let fastest = pool.map_reduce(
    ///     &mut speed,
    ///     |v| {
    ///         *v *= 0.5;
    ///         *v
    ///     },
    ///     f64::max,
    /// );
    /// assert_eq!(fastest, Some(2.0));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn map_reduce<I: ParItems, R: Send>(
        &self,
        items: I,
        f: impl Fn(ItemOf<'_, I>) -> R + Sync,
        combine: impl Fn(R, R) -> R + Sync,
    ) -> Option<R> {
        self.map_reduce_indexed(items, move |_, item| f(item), combine)
    }

    /// Does the same as [`map_reduce`](Self::map_reduce), but computes `f(index, item)`.
    ///
    /// # Panics
    /// Panics in the same cases as [`fold`](Self::fold).
    #[track_caller]
    pub fn map_reduce_indexed<I: ParItems, R: Send>(
        &self,
        items: I,
        f: impl Fn(usize, ItemOf<'_, I>) -> R + Sync,
        combine: impl Fn(R, R) -> R + Sync,
    ) -> Option<R> {
        let leaf = |hand: &mut I::Hand, mut range: Range<usize>| {
            // SAFETY: `leaves` passes each index once, so no item is passed twice.
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

    /// Returns the sum of `f(item)` over all items, along the same tree as
    /// [`map_reduce`](Self::map_reduce). The result has the same bits at any number of workers,
    /// also for floating-point numbers.
    ///
    /// # Panics
    /// Panics in the same cases as [`fold`](Self::fold).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (a, b) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
    /// assert_eq!(pool.sum((&a, &b), |(a, b)| a * b), 32.0);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn sum<I: ParItems, S: Sum + Send>(
        &self,
        items: I,
        f: impl Fn(ItemOf<'_, I>) -> S + Sync,
    ) -> S {
        let leaf = |hand: &mut I::Hand, range: Range<usize>| {
            // SAFETY: `leaves` passes each index once, so no item is passed twice.
            let of = |index| f(unsafe { I::item(hand, index) });
            range.map(of).sum::<S>()
        };
        let sum = self.leaves(LEAVES, items, leaf, |a, b| [a, b].into_iter().sum());
        sum.unwrap_or_else(|| std::iter::empty::<S>().sum())
    }

    /// Returns the number of items for which `f(item)` is true.
    ///
    /// # Panics
    /// Panics in the same cases as [`fold`](Self::fold).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert_eq!(pool.count(0..1000, |n| n % 7 == 0), 143);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn count<I: ParItems>(&self, items: I, f: impl Fn(ItemOf<'_, I>) -> bool + Sync) -> usize {
        self.sum(items, |item| usize::from(f(item)))
    }

    /// Returns the smallest `f(item)`, or `None` if there are no items. Floating-point numbers are
    /// not totally ordered, so use `map_reduce(…, f64::min)` for them.
    ///
    /// # Panics
    /// Panics in the same cases as [`fold`](Self::fold).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let words = ["three", "two", "four"];
    /// let shortest = pool.min((0..3, &words), |(index, word)| (word.len(), index));
    /// assert_eq!(shortest, Some((3, 1)));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn min<I: ParItems, R: Ord + Send>(
        &self,
        items: I,
        f: impl Fn(ItemOf<'_, I>) -> R + Sync,
    ) -> Option<R> {
        self.map_reduce(items, f, Ord::min)
    }

    /// Returns the largest `f(item)`, or `None` if there are no items. If several are equal, the
    /// last one is returned. Floating-point numbers are not totally ordered, so use
    /// `map_reduce(…, f64::max)` for them.
    ///
    /// # Panics
    /// Panics in the same cases as [`fold`](Self::fold).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert_eq!(pool.max(&["a", "abc", "ab"], |word| word.len()), Some(3));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn max<I: ParItems, R: Ord + Send>(
        &self,
        items: I,
        f: impl Fn(ItemOf<'_, I>) -> R + Sync,
    ) -> Option<R> {
        self.map_reduce(items, f, Ord::max)
    }

    /// Computes `leaf(hand, range)` for each leaf and combines the values. `hand` is the state with
    /// which a thread visits the items of `range`. Returns `None` if there are no items.
    #[track_caller]
    fn leaves<I: ParItems, A: Send>(
        &self,
        leaves: usize,
        items: I,
        leaf: impl Fn(&mut I::Hand, Range<usize>) -> A + Sync,
        combine: impl Fn(A, A) -> A + Sync,
    ) -> Option<A> {
        assert!(leaves > 0, "a fold must have at least one leaf, not 0");
        let total = count(&items);
        let len = NonZeroUsize::new(total.div_ceil(leaves)).unwrap_or(NonZeroUsize::MIN);
        let mut values = Vec::new();
        values.resize_with(total.div_ceil(len.get()), || None);
        let places = Base::new(&mut values);
        self.walk_chunks(items, len, |hand, at, range, _| {
            let value = leaf(hand, range);
            // SAFETY: there is a place for each leaf, and `walk_chunks` passes each leaf once.
            *unsafe { places.item(at) } = Some(value);
        });
        self.pairwise(values, combine)
    }

    /// Combines neighbouring values in pairs, and then the results in pairs, until one value is
    /// left. If the values own memory, all workers take part, because combining is then likely to
    /// be expensive.
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
                self.map_chunks(&mut values, 2, pair)
            } else {
                values.chunks_mut(2).map(pair).collect()
            };
        }
        values.pop().flatten()
    }
}
