//! Sorting a slice on all workers: the standard library's sorts on pieces, then merges that are
//! themselves cut into pieces.
//!
//! The invariant: in each round of merges the items are in one place, valid and complete, and their
//! copies in the other are not looked at as items until the round has ended. So a comparison that
//! panics leaves each item once, in some order. An item is compared before it is copied, never
//! after, in the same round: so a comparison that changes it (through a cell) changes what is kept.
//! And it is compared by one thread at a time, so that it need not be `Sync`.
//!
//! How the slice is cut depends on its length and the number of workers. A stable sort has one
//! outcome all the same; of an unstable one, equal items may come in another order.

use super::split::Split;
use crate::pool::Pool;
use std::{cmp::Ordering, mem::MaybeUninit, ops::Range, ptr};

/// Fewer items are sorted by the caller alone.
const ALONE: usize = 2048;
/// A piece of a merge has so many items, or more.
const PIECE: usize = 8192;

/// # Sorting
///
/// These sort a slice in place, with a buffer as long as the slice where it is not sorted already.
impl Pool {
    /// Sorts the items; equal ones stay in their order. Blocks until all is done.
    ///
    /// # Panics
    /// Re-throws the first panic of a comparison; the items are then all there, in some order.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut numbers: Vec<u32> = (0..10_000).map(|n: u32| n.wrapping_mul(2_654_435_761)).collect();
    /// pool.sort(&mut numbers);
    /// assert!(numbers.is_sorted());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn sort<T: Ord + Send>(&self, items: &mut [T]) {
        self.sort_by(items, T::cmp);
    }

    /// The same, by the order of `key(item)`.
    ///
    /// # Panics
    /// As [`sort`](Self::sort).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut words = ["three", "one", "two"];
    /// pool.sort_by_key(&mut words, |word| word.len());
    /// assert_eq!(words, ["one", "two", "three"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn sort_by_key<T: Send, K: Ord>(&self, items: &mut [T], key: impl Fn(&T) -> K + Sync) {
        self.sort_by(items, |a, b| key(a).cmp(&key(b)));
    }

    /// The same, by `compare`. What it does if that is no order is not said, but no item is lost.
    ///
    /// # Panics
    /// As [`sort`](Self::sort).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut heights = [1.5, 0.5, 1.0];
    /// pool.sort_by(&mut heights, |a, b| f64::total_cmp(b, a));
    /// assert_eq!(heights, [1.5, 1.0, 0.5]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn sort_by<T: Send>(&self, items: &mut [T], compare: impl Fn(&T, &T) -> Ordering + Sync) {
        self.sort_pieces(items, |piece| piece.sort_by(&compare), &compare);
    }

    /// Sorts the items; equal ones may change their order. Faster than [`sort`](Self::sort) where a
    /// comparison is cheap. Blocks until all is done.
    ///
    /// # Panics
    /// As [`sort`](Self::sort).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut numbers = [3, 1, 2];
    /// pool.sort_unstable(&mut numbers);
    /// assert_eq!(numbers, [1, 2, 3]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn sort_unstable<T: Ord + Send>(&self, items: &mut [T]) {
        self.sort_pieces(items, |piece| piece.sort_unstable(), &T::cmp);
    }

    /// The same, by the order of `key(item)`.
    ///
    /// # Panics
    /// As [`sort`](Self::sort).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut numbers = [3_i32, -4, 2];
    /// pool.sort_unstable_by_key(&mut numbers, |n| n.abs());
    /// assert_eq!(numbers, [2, 3, -4]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn sort_unstable_by_key<T: Send, K: Ord>(
        &self,
        items: &mut [T],
        key: impl Fn(&T) -> K + Sync,
    ) {
        self.sort_unstable_by(items, |a, b| key(a).cmp(&key(b)));
    }

    /// The same, by `compare`.
    ///
    /// # Panics
    /// As [`sort`](Self::sort).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut numbers = [2.5, -1.0, 0.0];
    /// pool.sort_unstable_by(&mut numbers, f64::total_cmp);
    /// assert_eq!(numbers, [-1.0, 0.0, 2.5]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn sort_unstable_by<T: Send>(
        &self,
        items: &mut [T],
        compare: impl Fn(&T, &T) -> Ordering + Sync,
    ) {
        self.sort_pieces(items, |piece| piece.sort_unstable_by(&compare), &compare);
    }

    #[track_caller]
    fn sort_pieces<T: Send>(
        &self,
        items: &mut [T],
        sort: impl Fn(&mut [T]) + Sync,
        compare: &(impl Fn(&T, &T) -> Ordering + Sync),
    ) {
        let workers = self.workers().min(self.most);
        let runs = workers.next_power_of_two().min(items.len() / (ALONE / 2));
        if size_of::<T>() == 0 || workers < 2 || runs < 2 {
            return sort(items);
        }
        let run = items.len().div_ceil(runs);
        self.for_each_chunk(&mut *items, run, |piece| sort(piece));
        let in_order = |border: usize| compare(&items[border - 1], &items[border]).is_le();
        if (run..items.len()).step_by(run).all(in_order) {
            return;
        }
        self.merge_runs(items, run, compare);
    }

    /// Merges neighbouring runs of `run` items, which are sorted, until there is one.
    fn merge_runs<T: Send>(
        &self,
        items: &mut [T],
        run: usize,
        compare: &(impl Fn(&T, &T) -> Ordering + Sync),
    ) {
        let total = items.len();
        let mut buffer: Vec<MaybeUninit<T>> = Vec::with_capacity(total);
        // SAFETY: places that need not be initialised, as many as there are.
        unsafe { buffer.set_len(total) };
        let mut home = Home {
            items,
            buffer: &mut buffer,
            away: false,
        };
        let mut pieces = Vec::new();
        let mut len = run;
        while len < total {
            let (from, to) = home.sides();
            pieces.clear();
            for begin in (0..total).step_by(2 * len) {
                let middle = total.min(begin + len);
                let end = total.min(middle + len);
                cut(from, begin..middle, middle..end, compare, &mut pieces);
            }
            let (from, to) = (Split::new(from), Split::new(to));
            self.for_each(&pieces, |piece| {
                // SAFETY: the pieces' left sides do not overlap, nor with any right side.
                let left = unsafe { from.piece(piece.left.clone()) };
                // SAFETY: nor do their right sides.
                let right = unsafe { from.piece(piece.right.clone()) };
                // SAFETY: nor do the places that they are merged to, which lie one after the other.
                let to = unsafe { to.piece(piece.to.clone()) };
                merge(left, right, to, compare);
            });
            home.away = !home.away;
            len *= 2;
        }
        drop(home);
    }
}

/// Where the items are: in their slice, or away in the buffer. Brings them home when dropped.
struct Home<'a, T> {
    items: &'a mut [T],
    buffer: &'a mut [MaybeUninit<T>],
    away: bool,
}

impl<T> Home<'_, T> {
    /// The items, and where they are merged to.
    fn sides(&mut self) -> (&mut [T], &mut [MaybeUninit<T>]) {
        let (first, len) = (self.items.as_mut_ptr(), self.items.len());
        let other = self.buffer.as_mut_ptr();
        let (from, to) = match self.away {
            false => (first, other),
            true => (other.cast(), first.cast()),
        };
        // SAFETY: the items are here, all initialised, and borrowed as `self` is.
        let from = unsafe { std::slice::from_raw_parts_mut(from, len) };
        // SAFETY: as long as the items, another memory than theirs. What is written there by way of
        // the slice's own places is either all of the items, or the old ones are left: they are not
        // dropped from there, for they are away.
        let to = unsafe { std::slice::from_raw_parts_mut(to, len) };
        (from, to)
    }
}

impl<T> Drop for Home<'_, T> {
    fn drop(&mut self) {
        if self.away {
            let (from, to) = (self.buffer.as_ptr().cast::<T>(), self.items.as_mut_ptr());
            // SAFETY: the items are in the buffer, as many as the slice has places; the places have
            // nothing of their own, and nobody looks at the buffer's after this.
            unsafe { ptr::copy_nonoverlapping(from, to, self.items.len()) };
        }
    }
}

/// A part of a merge.
struct Piece {
    left: Range<usize>,
    right: Range<usize>,
    to: Range<usize>,
}

/// Cuts the merge of two runs, one behind the other, into pieces of about equal length.
fn cut<T>(
    items: &[T],
    left: Range<usize>,
    right: Range<usize>,
    compare: &impl Fn(&T, &T) -> Ordering,
    pieces: &mut Vec<Piece>,
) {
    let total = right.end - left.start;
    let count = (total / PIECE).max(1);
    let (mut from, mut done) = ((left.start, right.start), 0);
    for piece in 1..=count {
        let taken = if piece == count {
            total
        } else {
            (total as u128 * piece as u128 / count as u128) as usize
        };
        let (a, b) = (&items[left.clone()], &items[right.clone()]);
        let of_left = if piece == count {
            a.len()
        } else {
            of_left(a, b, taken, compare)
        };
        // No wrong order of theirs may have a piece end before it begins.
        let (had_left, had_right) = (from.0 - left.start, from.1 - right.start);
        let most = a.len().min(taken - had_right);
        let of_left = of_left.clamp(had_left.max(taken.saturating_sub(b.len())), most);
        let until = (left.start + of_left, right.start + taken - of_left);
        pieces.push(Piece {
            left: from.0..until.0,
            right: from.1..until.1,
            to: left.start + done..left.start + taken,
        });
        (from, done) = (until, taken);
    }
}

/// How many of the first `taken` items of the merge of `a` and `b` are from `a`.
fn of_left<T>(a: &[T], b: &[T], taken: usize, compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let (mut least, mut most) = (taken.saturating_sub(b.len()), taken.min(a.len()));
    while least < most {
        let middle = least + (most - least) / 2;
        // Of equal ones `a`'s comes first.
        if compare(&a[middle], &b[taken - middle - 1]).is_le() {
            least = middle + 1;
        } else {
            most = middle;
        }
    }
    least
}

/// Copies the items of two sorted slices to `to`, in order; of equal ones the left one first.
fn merge<T>(
    left: &[T],
    right: &[T],
    to: &mut [MaybeUninit<T>],
    compare: &impl Fn(&T, &T) -> Ordering,
) {
    let (mut a, mut b) = (0, 0);
    let mut places = to.iter_mut();
    while a < left.len() && b < right.len() {
        let Some(place) = places.next() else { return };
        let takes_right = compare(&left[a], &right[b]).is_gt();
        let item = if takes_right { &right[b] } else { &left[a] };
        // SAFETY: an item is as large as its place, and lies elsewhere; which of the two counts is
        // settled when the round ends.
        unsafe { ptr::copy_nonoverlapping(item, place.as_mut_ptr(), 1) };
        (a, b) = (a + usize::from(!takes_right), b + usize::from(takes_right));
    }
    let rest = left[a..].iter().chain(&right[b..]);
    for (item, place) in rest.zip(places) {
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(item, place.as_mut_ptr(), 1) };
    }
}
