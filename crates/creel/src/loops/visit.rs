//! The loops that only visit, such as `for_each` and `for_each_chunk`, and the functions with which
//! all loops pass items to their closures.

use super::{
    items::{ChunkOf, Count, ItemOf, ParChunks, ParItems, Sections, Walk},
    split::Split,
};
use crate::pool::{Balance, Pool};
use std::{cmp::Reverse, num::NonZeroUsize, ops::Range};

/// The maximum numbers of sections in a loop that keeps data per section, for example in an outbox.
/// The first is the total number, and the second is the number for each thread.
const SECTIONS_MAX: usize = 64;
const SECTIONS_PER_THREAD: usize = 8;
/// The minimum number of items in a section.
const SECTION_LEN: usize = 256;

/// Returns the length of a section, in units. The last section may be shorter. The sections do not
/// change a result, because an outbox delivers its messages in the order of the sections.
fn section_len(units: usize, coarse: bool, threads: usize) -> usize {
    let least = if coarse { 1 } else { SECTION_LEN };
    let most = match threads {
        0 | 1 => 1,
        _ => SECTIONS_MAX.min(SECTIONS_PER_THREAD * threads),
    };
    units.div_ceil(most).max(least)
}

/// Returns the number of items.
#[inline]
#[track_caller]
pub(super) fn count<I: Walk>(items: &I) -> usize {
    const {
        assert!(
            I::COUNTED,
            "the number of items is unknown: visit a slice or a range together with the scratch or outbox"
        )
    };
    let mut count = Count::default();
    items.count(&mut count);
    count.all()
}

/// Returns the length of a chunk. Panics if it is 0.
#[track_caller]
pub(super) fn chunk_len(len: usize) -> NonZeroUsize {
    match NonZeroUsize::new(len) {
        Some(len) => len,
        None => panic!("a chunk must have at least one item, not 0"),
    }
}

/// # Loops
///
/// A loop distributes its items among the workers and returns when all of them are done. The
/// calling thread works too. A loop can visit everything that implements
/// [`ParItems`](crate::loops::ParItems): slices, ranges, and tuples of them, optionally together
/// with a [`Scratch`](crate::Scratch) per worker and with [`Outbox`](crate::Outbox)es.
///
/// Most of these methods come in two forms. The plain form passes the item to your closure, and the
/// `_indexed` form passes the item's index as well. Methods without an `_indexed` form can visit a
/// range next to the items, for example `pool.any((0..n, &items), |(index, item)| …)`.
///
/// Which worker visits which item never changes the result, unless the documentation of a method
/// says so. If a closure panics, the loop waits until everything that has begun has ended and then
/// resumes the first panic on the calling thread. It is unspecified which of the other items were
/// visited.
impl Pool {
    /// Calls `f(item)` once for each item, on all workers and the calling thread. Blocks until all
    /// items are done. With [`Balance::Sticky`](crate::Balance::Sticky), the calling thread runs a
    /// loop alone if that is faster.
    ///
    /// # Panics
    /// Panics if slices in a tuple differ in length. Resumes the first panic of `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut positions, speeds) = ([10.0, 20.0], [1.0, 2.0]);
    /// pool.for_each((&mut positions, &speeds), |(x, v)| *x += v);
    /// assert_eq!(positions, [11.0, 22.0]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn for_each<I: ParItems>(&self, items: I, f: impl Fn(ItemOf<'_, I>) + Sync) {
        self.for_each_indexed(items, move |_, item| f(item));
    }

    /// Calls `f(index, item)` once for each item, on all workers. Blocks until all items are done.
    ///
    /// # Panics
    /// Panics if slices in a tuple differ in length. Resumes the first panic of `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut vx, mut vy, px) = ([1.0, 2.0], [0.0, 0.0], [10.0, 20.0]);
    /// pool.for_each_indexed((&mut vx, &mut vy, &px), |index, (vx, vy, px)| {
    ///     *vx *= 0.5;
    ///     *vy = px + index as f64;
    /// });
    /// assert_eq!((vx, vy), ([0.5, 1.0], [10.0, 21.0]));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn for_each_indexed<I: ParItems>(&self, items: I, f: impl Fn(usize, ItemOf<'_, I>) + Sync) {
        self.walk(items, move |hand, range, _| {
            for index in range {
                // SAFETY: `walk` passes each index once, so no item is passed twice.
                f(index, unsafe { I::item(hand, index) });
            }
        });
    }

    /// Calls `f(range, worker)` for ranges that together cover `range`, each index once. Blocks
    /// until all calls are done. The pool chooses the ranges, so use this only if you can treat the
    /// indices one by one, for example in an inner loop that the compiler can vectorize.
    ///
    /// `worker` is below the number of workers, and no other thread has the same one during the
    /// loop. You can therefore use it to choose a buffer. [`Scratch`](crate::Scratch) does that for
    /// you.
    ///
    /// # Panics
    /// Resumes the first panic of `f`.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let sum = AtomicU64::new(0);
    /// pool.for_each_range(1..101, |range, worker| {
    ///     assert!(worker < 2);
    ///     sum.fetch_add(range.sum::<usize>() as u64, Ordering::Relaxed);
    /// });
    /// assert_eq!(sum.into_inner(), 5050);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn for_each_range(&self, range: Range<usize>, f: impl Fn(Range<usize>, usize) + Sync) {
        let begin = range.start;
        self.run(usize::MAX, range.len(), move |part, worker| {
            f(begin + part.start..begin + part.end, worker);
        });
    }

    /// Calls `f(chunk)` once for each chunk of `len` items, on all workers. The last chunk may be
    /// shorter. Blocks until all chunks are done.
    ///
    /// # Panics
    /// Panics if `len` is 0 or slices in a tuple differ in length. Resumes the first panic of `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut samples = [3, 1, 2, 9, 7];
    /// pool.for_each_chunk(&mut samples, 3, |chunk| chunk.sort());
    /// assert_eq!(samples, [1, 2, 3, 7, 9]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn for_each_chunk<I: ParChunks>(
        &self,
        items: I,
        len: usize,
        f: impl Fn(ChunkOf<'_, I>) + Sync,
    ) {
        self.for_each_chunk_indexed(items, len, move |_, chunk| f(chunk));
    }

    /// Calls `f(start, chunk)` once for each chunk of `len` items, on all workers, where `start`
    /// is the index of the chunk's first item. The last chunk may be shorter. Blocks until all
    /// chunks are done.
    ///
    /// # Panics
    /// Panics if `len` is 0 or slices in a tuple differ in length. Resumes the first panic of `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut px, vx) = ([0; 5], [1, 2, 3, 4, 5]);
    /// pool.for_each_chunk_indexed((&mut px, &vx), 2, |start, (px, vx)| {
    ///     px.copy_from_slice(vx);
    ///     px[0] += 10 * start;
    /// });
    /// assert_eq!(px, [1, 2, 23, 4, 45]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn for_each_chunk_indexed<I: ParChunks>(
        &self,
        items: I,
        len: usize,
        f: impl Fn(usize, ChunkOf<'_, I>) + Sync,
    ) {
        self.walk_chunks(items, chunk_len(len), move |hand, _, range, _| {
            // SAFETY: `walk_chunks` passes each chunk once, and its start is not after its end.
            f(range.start, unsafe { I::chunk(hand, range) });
        });
    }

    /// Calls `f(item)` once for each item. The items with the largest `length(item)` start first,
    /// regardless of the pool's balance. Use it for a few jobs whose known lengths differ. A free
    /// worker takes the longest job that is left. Therefore the workers finish at about the same
    /// time, unless one job takes longer than a worker's share of all jobs. Blocks until all items
    /// are done.
    ///
    /// # Panics
    /// Resumes the first panic of `length` or `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut songs = ["intro".to_string(), "a very long song".into(), "outro".into()];
    /// pool.for_each_longest_first(&mut songs, |song| song.len() as u64, |song| {
    ///     song.make_ascii_uppercase();
    /// });
    /// assert_eq!(songs[1], "A VERY LONG SONG");
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn for_each_longest_first<T: Send>(
        &self,
        items: &mut [T],
        length: impl Fn(&T) -> u64,
        f: impl Fn(&mut T) + Sync,
    ) {
        self.for_each_longest_first_indexed(items, length, |_, item| f(item));
    }

    /// Does the same as [`for_each_longest_first`](Self::for_each_longest_first), but calls
    /// `f(index, item)`.
    ///
    /// # Panics
    /// Resumes the first panic of `length` or `f`.
    #[track_caller]
    pub fn for_each_longest_first_indexed<T: Send>(
        &self,
        items: &mut [T],
        length: impl Fn(&T) -> u64,
        f: impl Fn(usize, &mut T) + Sync,
    ) {
        let mut order: Vec<(u64, usize)> = items.iter().map(length).zip(0..).collect();
        order.sort_by_key(|&(length, index)| (Reverse(length), index));
        let split = Split::new(items);
        let pool = self.with_balance(Balance::Shared);
        pool.for_each(&order, |&(_, index)| {
            // SAFETY: `order` has each index once, and each of its items is visited once.
            let piece = unsafe { split.piece(index..index + 1) };
            piece.iter_mut().for_each(|item| f(index, item));
        });
    }

    /// Calls `g(hand, range, who)` for ranges that together cover all indices, each index once.
    /// `who` is below the number of workers, and no other thread has the same `who` during the
    /// call.
    #[inline]
    #[track_caller]
    pub(super) fn walk<I: Walk>(
        &self,
        items: I,
        g: impl Fn(&mut I::Hand, Range<usize>, usize) + Sync,
    ) {
        let len = count(&items);
        self.walk_units(items, len, I::COARSE, g);
    }

    /// Calls `g(hand, chunk, range, who)` once for each chunk of `len` indices. The last chunk may
    /// be shorter.
    #[inline]
    #[track_caller]
    pub(super) fn walk_chunks<I: Walk>(
        &self,
        items: I,
        len: NonZeroUsize,
        g: impl Fn(&mut I::Hand, usize, Range<usize>, usize) + Sync,
    ) {
        let (total, len) = (count(&items), len.get());
        let chunks = total.div_ceil(len);
        self.walk_units(items, chunks, true, move |hand, range, who| {
            for chunk in range {
                let begin = chunk * len;
                g(
                    hand,
                    chunk,
                    begin..total.min(begin.saturating_add(len)),
                    who,
                );
            }
        });
    }

    /// Calls `g(hand, range, who)` for ranges that together cover `0..units`, each unit once.
    #[inline]
    #[track_caller]
    fn walk_units<I: Walk>(
        &self,
        items: I,
        units: usize,
        coarse: bool,
        g: impl Fn(&mut I::Hand, Range<usize>, usize) + Sync,
    ) {
        let most = items.most();
        if !I::IN_SECTIONS {
            let base = items.open(Sections::ONE);
            return self.run(most, units, move |range, who| {
                // SAFETY: `run` passes this `who`, which is below `most`, to no other thread, and a
                // thread does not begin a range inside another. There are no sections.
                let mut hand = unsafe { I::take(&base, who, 0) };
                g(&mut hand, range, who);
            });
        }
        // Only a sticky loop may choose to run on one thread, because the units of other loops may
        // wait for each other.
        let most = match self.balance == Balance::Sticky && items.prefers_one_thread() {
            true => 1,
            false => most,
        };
        let threads = self.threads_for(units, most);
        let len = section_len(units, coarse, threads);
        let sections = units.div_ceil(len);
        let base = items.open(Sections {
            count: sections,
            threads,
        });
        self.run(most, sections, move |range, who| {
            for section in range {
                // SAFETY: `run` passes this `who`, which is below `most`, to no other thread, and
                // passes each section once.
                let mut hand = unsafe { I::take(&base, who, section) };
                let begin = section * len;
                let end = units.min(begin.saturating_add(len));
                g(&mut hand, begin..end, who);
            }
        });
    }
}
