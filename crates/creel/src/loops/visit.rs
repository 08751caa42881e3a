//! The loops that visit: `each`, `chunks`, and how all verbs hand out what they visit.

use super::{
    items::{Count, ItemOf, Items, PartOf, Slices, Walk},
    split::Split,
};
use crate::pool::{Balance, Pool};
use std::{cmp::Reverse, num::NonZeroUsize, ops::Range};

/// A loop that has something of its own for each section is cut into so many at most.
const SECTIONS_MAX: usize = 64;
/// Items of a section at least.
const SECTION_LEN: usize = 256;

/// How many units a section has, cut by their number only; the last one may have fewer.
fn section_len(units: usize, coarse: bool) -> usize {
    let least = if coarse { 1 } else { SECTION_LEN };
    units.div_ceil(SECTIONS_MAX).max(least)
}

/// How many there are.
#[inline]
#[track_caller]
pub(super) fn count<I: Walk>(items: &I) -> usize {
    const {
        assert!(
            I::COUNTED,
            "nothing here says how many there are: put a slice or a range beside it"
        )
    };
    let mut count = Count::default();
    items.count(&mut count);
    count.all()
}

/// The chunk's length.
#[track_caller]
pub(super) fn chunk_len(len: usize) -> NonZeroUsize {
    match NonZeroUsize::new(len) {
        Some(len) => len,
        None => panic!("a chunk has at least one item, not 0"),
    }
}

/// # Loops
///
/// A loop shares its items out among the workers and returns when all are done; the calling thread
/// works, too. What can be visited is told by [`Items`](crate::loops::Items): slices, ranges, and
/// tuples of them, with a worker's [`Scratch`](crate::Scratch) and [`Outbox`](crate::Outbox)es
/// beside. Each closure is told the index first. Which worker visits which item never changes an
/// outcome, but where a verb says that it does. A panic of a closure is re-thrown at the caller
/// after all that was begun has ended; which of the other items were visited is not said then.
impl Pool {
    /// Calls `f(index, item)` once for each item, on all workers. Blocks until all is done.
    ///
    /// # Panics
    /// If slices side by side differ in length. Re-throws the first panic of `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut vx, mut vy, px) = ([1.0, 2.0], [0.0, 0.0], [10.0, 20.0]);
    /// pool.each((&mut vx, &mut vy, &px), |index, (vx, vy, px)| {
    ///     *vx *= 0.5;
    ///     *vy = px + index as f64;
    /// });
    /// assert_eq!((vx, vy), ([0.5, 1.0], [10.0, 21.0]));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn each<I: Items>(&self, items: I, f: impl Fn(usize, ItemOf<'_, I>) + Sync) {
        self.walk(items, move |hand, range, _| {
            for index in range {
                // SAFETY: `walk` gives each index out once.
                f(index, unsafe { I::item(hand, index) });
            }
        });
    }

    /// Calls `f(start, part)` once for each chunk of `len` items (the last may be shorter), where
    /// the part begins at index `start`, on all workers. Blocks until all is done.
    ///
    /// # Panics
    /// If `len` is 0, or slices side by side differ in length. Re-throws the first panic of `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut px, vx) = ([0; 5], [1, 2, 3, 4, 5]);
    /// pool.chunks((&mut px, &vx), 2, |start, (px, vx)| {
    ///     px.copy_from_slice(vx);
    ///     px[0] += 10 * start;
    /// });
    /// assert_eq!(px, [1, 2, 23, 4, 45]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn chunks<I: Slices>(&self, items: I, len: usize, f: impl Fn(usize, PartOf<'_, I>) + Sync) {
        self.walk_chunks(items, chunk_len(len), move |hand, _, range, _| {
            // SAFETY: `walk_chunks` gives each chunk out once, and it is not the wrong way round.
            f(range.start, unsafe { I::part(hand, range) });
        });
    }

    /// Calls `f(index, item)` once for each item, those with the largest `length(item)` first,
    /// whatever the pool's balance: for few jobs of known, unlike length. Who is free takes the
    /// next, so that all end at about the same time. Blocks until all is done.
    ///
    /// # Panics
    /// Re-throws the first panic of `length` or `f`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut songs = ["intro".to_string(), "a very long song".into(), "outro".into()];
    /// pool.each_longest_first(&mut songs, |song| song.len() as u64, |index, song| {
    ///     song.insert_str(0, &format!("{index}: "));
    /// });
    /// assert_eq!(songs[1], "1: a very long song");
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn each_longest_first<T: Send>(
        &self,
        items: &mut [T],
        length: impl Fn(&T) -> u64,
        f: impl Fn(usize, &mut T) + Sync,
    ) {
        let mut order: Vec<(u64, usize)> = items.iter().map(length).zip(0..).collect();
        order.sort_by_key(|&(length, index)| (Reverse(length), index));
        let split = Split::new(items);
        self.with(Balance::Shared).each(&order, |_, &(_, index)| {
            // SAFETY: `order` has each index once, and each of its items is visited once.
            let piece = unsafe { split.piece(index..index + 1) };
            piece.iter_mut().for_each(|item| f(index, item));
        });
    }

    /// Calls `g(hand, range, who)` for ranges that together are all indices, each once. `who` is
    /// below the number of seats, and no other thread has it meanwhile.
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

    /// Calls `g(hand, chunk, range, who)` once for each chunk of `len` indices, the last of which
    /// may have fewer.
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

    /// Calls `g(hand, range, who)` for ranges that together are `0..units`, each unit once.
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
            let base = items.open(0);
            return self.run(most, units, move |range, who| {
                // SAFETY: `run` lets no other thread have this `who`, which is below `most`, nor
                // does a thread begin a range inside another; and there are no sections.
                let mut hand = unsafe { I::take(&base, who, 0) };
                g(&mut hand, range, who);
            });
        }
        let len = section_len(units, coarse);
        let sections = units.div_ceil(len);
        let base = items.open(sections);
        self.run(most, sections, move |range, who| {
            for section in range {
                // SAFETY: as above, and `run` gives each section out once.
                let mut hand = unsafe { I::take(&base, who, section) };
                let begin = section * len;
                let end = units.min(begin.saturating_add(len));
                g(&mut hand, begin..end, who);
            }
        });
    }
}
