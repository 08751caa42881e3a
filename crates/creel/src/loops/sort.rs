//! Sorts a slice on all workers. The workers sort pieces with the sorts of the standard library,
//! and then merge them. The merges are also divided into pieces.
//!
//! In each round of merges, the items are in one buffer, valid and complete. We do not treat their
//! copies in the other buffer as items until the round has ended. A comparison that panics
//! therefore leaves each item once, in some order. In each round, an item is compared before it is
//! copied and never after. If a comparison changes the item through a cell, the copy therefore
//! contains the change. Only one thread at a time compares an item, so it need not be `Sync`.
//!
//! The division into pieces depends on the length of the slice and the number of workers. A stable
//! sort has the same result in all cases. However, an unstable sort may leave equal items in a
//! different order.

use super::split::Split;
use crate::pool::Pool;
use std::{cmp::Ordering, mem::MaybeUninit, ops::Range, ptr};

/// The caller sorts fewer items than this alone.
const ALONE: usize = 2048;
/// The minimum number of items in a piece of a merge, unless the whole merge is shorter.
const PIECE: usize = 8192;

/// # Sorting
///
/// These methods sort a slice in place. They sort pieces of it and then merge them in a buffer as
/// long as the slice, which they allocate. They do not merge if the slice is short, the pool has
/// one worker, or the sorted pieces are already in order. The stable forms also allocate the memory
/// that the standard library needs to sort a piece. In the unstable forms, equal items may change
/// their order.
impl Pool {
    /// Sorts the items. Equal items keep their order. Blocks until the slice is sorted.
    ///
    /// # Panics
    /// Resumes the first panic of a comparison. The slice then contains all items, in an
    /// unspecified order.
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

    /// Sorts the items by the key that `key(item)` returns. Items with equal keys keep their order.
    /// Note that each comparison calls `key` twice. Blocks until the slice is sorted.
    ///
    /// # Panics
    /// Panics in the same cases as [`sort`](Self::sort), and with a panic of `key`.
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

    /// Sorts the items with the function `compare`. Equal items keep their order. If `compare` is
    /// not a total order, the order of the result is unspecified, but no item is lost. Blocks until
    /// the slice is sorted.
    ///
    /// # Panics
    /// Panics in the same cases as [`sort`](Self::sort).
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

    /// Sorts the items. Equal items may change their order. This is faster than
    /// [`sort`](Self::sort) if a comparison is cheap. Blocks until the slice is sorted.
    ///
    /// # Panics
    /// Panics in the same cases as [`sort`](Self::sort).
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

    /// Sorts the items by the key that `key(item)` returns. Items with equal keys may change their
    /// order. Note that each comparison calls `key` twice. Blocks until the slice is sorted.
    ///
    /// # Panics
    /// Panics in the same cases as [`sort`](Self::sort), and with a panic of `key`.
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

    /// Sorts the items with the function `compare`. Equal items may change their order. If
    /// `compare` is not a total order, the order of the result is unspecified, but no item is lost.
    /// Blocks until the slice is sorted.
    ///
    /// # Panics
    /// Panics in the same cases as [`sort`](Self::sort).
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
        self.for_each_chunk(&mut *items, run, sort);
        let in_order = |border: usize| compare(&items[border - 1], &items[border]).is_le();
        if (run..items.len()).step_by(run).all(in_order) {
            return;
        }
        self.merge_runs(items, run, compare);
    }

    /// Merges neighbouring sorted runs of `run` items until there is only one run.
    fn merge_runs<T: Send>(
        &self,
        items: &mut [T],
        run: usize,
        compare: &(impl Fn(&T, &T) -> Ordering + Sync),
    ) {
        let total = items.len();
        let mut buffer: Vec<MaybeUninit<T>> = Vec::with_capacity(total);
        // SAFETY: These places need not be initialised, and the capacity is at least `total`.
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
                // SAFETY: The left sides of the pieces do not overlap each other or any right side.
                let left = unsafe { from.piece(piece.left.clone()) };
                // SAFETY: The right sides do not overlap each other or any left side.
                let right = unsafe { from.piece(piece.right.clone()) };
                // SAFETY: The places that the pieces are merged to follow each other and do not
                // overlap.
                let to = unsafe { to.piece(piece.to.clone()) };
                merge(left, right, to, compare);
            });
            home.away = !home.away;
            len *= 2;
        }
        drop(home);
    }
}

/// The current location of the items, which is their slice, or the buffer if `away`. Moves them
/// back to the slice when dropped.
struct Home<'a, T> {
    items: &'a mut [T],
    buffer: &'a mut [MaybeUninit<T>],
    away: bool,
}

impl<T> Home<'_, T> {
    /// Returns the items, and the places that they are merged to.
    fn sides(&mut self) -> (&mut [T], &mut [MaybeUninit<T>]) {
        let (first, len) = (self.items.as_mut_ptr(), self.items.len());
        let other = self.buffer.as_mut_ptr();
        let (from, to) = match self.away {
            false => (first, other),
            true => (other.cast(), first.cast()),
        };
        // SAFETY: The items are in this buffer. All of them are initialised, and borrowed as `self`
        // is.
        let from = unsafe { std::slice::from_raw_parts_mut(from, len) };
        // SAFETY: This memory is as long as that of the items and does not overlap it. If these
        // places belong to the slice, a round overwrites them with all items, or leaves old copies
        // in them. The old copies are not dropped there, because the items are in the buffer.
        let to = unsafe { std::slice::from_raw_parts_mut(to, len) };
        (from, to)
    }
}

impl<T> Drop for Home<'_, T> {
    fn drop(&mut self) {
        if self.away {
            let (from, to) = (self.buffer.as_ptr().cast::<T>(), self.items.as_mut_ptr());
            // SAFETY: The items are in the buffer, which is as long as the slice. The slice's
            // places own nothing, and nobody reads the buffer's places after this.
            unsafe { ptr::copy_nonoverlapping(from, to, self.items.len()) };
        }
    }
}

/// One piece of a merge of two sorted runs, which one thread merges.
struct Piece {
    left: Range<usize>,
    right: Range<usize>,
    to: Range<usize>,
}

/// Divides the merge of two adjacent runs into pieces of about equal length.
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
        // Even if `compare` is not a total order, a piece must not end before it begins.
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

/// Returns how many of the first `taken` items of the merge of `a` and `b` come from `a`.
fn of_left<T>(a: &[T], b: &[T], taken: usize, compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let (mut least, mut most) = (taken.saturating_sub(b.len()), taken.min(a.len()));
    while least < most {
        let middle = least + (most - least) / 2;
        // If two items are equal, the one of `a` comes first.
        if compare(&a[middle], &b[taken - middle - 1]).is_le() {
            least = middle + 1;
        } else {
            most = middle;
        }
    }
    least
}

/// Copies the items of two sorted slices to `to`, in order. If two items are equal, the one of
/// `left` comes first.
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
        // SAFETY: The item has the size of its place and lies in another buffer. Which of the two
        // copies is the item is decided when the round ends.
        unsafe { ptr::copy_nonoverlapping(item, place.as_mut_ptr(), 1) };
        (a, b) = (a + usize::from(!takes_right), b + usize::from(takes_right));
    }
    let rest = left[a..].iter().chain(&right[b..]);
    for (item, place) in rest.zip(places) {
        // SAFETY: As above, the item has the size of its place and lies in another buffer.
        unsafe { ptr::copy_nonoverlapping(item, place.as_mut_ptr(), 1) };
    }
}
