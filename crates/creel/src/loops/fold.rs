//! Loops with one outcome: folded along a tree that depends on the number of items only.

use crate::pool::Loops;

/// The most leaves of a fold's tree. Enough that 64 workers have some to share out unevenly.
const LEAVES_MAX: usize = 1024;

impl Loops {
    /// Folds all items into one value.
    ///
    /// The items are cut into leaves, each folded from a fresh `init()` in order, and neighbours
    /// are combined pairwise. Where the cuts lie depends on the number of items only, so that
    /// floating-point sums too have the same bits at any number of workers. `combine` must be
    /// associative in that sense only. Blocks until all is done; allocates one vector of at most
    /// 1,024 values.
    ///
    /// # Panics
    /// Re-throws the first panic of a closure.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let noise: Vec<f64> = (0..10_000).map(|i| f64::from(i).sin()).collect();
    /// let sum = pool.fold(&noise, || 0.0, |_, x, sum| *sum += x, |a, b| a + b);
    /// assert_eq!(sum, pool.fold(&noise, || 0.0, |_, x, sum| *sum += x, |a, b| a + b));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn fold<T: Sync, A: Send>(
        &self,
        items: &[T],
        init: impl Fn() -> A + Sync,
        fold: impl Fn(usize, &T, &mut A) + Sync,
        combine: impl Fn(A, A) -> A,
    ) -> A {
        let leaf_len = items.len().div_ceil(LEAVES_MAX).max(1);
        let leaves: Vec<&[T]> = items.chunks(leaf_len).collect();
        let folded = self.map(&leaves, |leaf, part| {
            let mut value = init();
            for (i, item) in part.iter().enumerate() {
                fold(leaf * leaf_len + i, item, &mut value);
            }
            value
        });
        pairwise(folded, combine).unwrap_or_else(init)
    }

    /// Makes a value of each item by `map(index, item)` and combines them all into one, along
    /// the same tree as [`fold`](Self::fold). None if there are no items.
    ///
    /// # Panics
    /// Re-throws the first panic of a closure.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let longest = pool.reduce(&["a", "abc", "ab"], |_, word| word.len(), usize::max);
    /// assert_eq!(longest, Some(3));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn reduce<T: Sync, R: Send>(
        &self,
        items: &[T],
        map: impl Fn(usize, &T) -> R + Sync,
        combine: impl Fn(R, R) -> R + Sync,
    ) -> Option<R> {
        let join = |a: Option<R>, b: Option<R>| match (a, b) {
            (Some(a), Some(b)) => Some(combine(a, b)),
            (a, b) => a.or(b),
        };
        let add = |index, item: &T, value: &mut Option<R>| {
            *value = join(value.take(), Some(map(index, item)));
        };
        self.fold(items, || None, add, join)
    }
}

/// Combines neighbours, then neighbours of these, until one is left.
fn pairwise<A>(mut values: Vec<A>, combine: impl Fn(A, A) -> A) -> Option<A> {
    while values.len() > 1 {
        let mut rest = values.into_iter();
        let mut combined = Vec::with_capacity(rest.len().div_ceil(2));
        while let Some(first) = rest.next() {
            combined.push(match rest.next() {
                Some(second) => combine(first, second),
                None => first,
            });
        }
        values = combined;
    }
    values.pop()
}
