//! Side effects that stay deterministic: messages from the items of one slice to those of others.
//!
//! A loop over the senders fills the buckets of an [`Outbox`]; a second one applies what is in
//! them to the receivers. The buckets are a grid: sections of senders by ranges of receivers,
//! both cut by the data's lengths only. A section is visited by one thread in order, a range is
//! served by one thread that takes the sections in order; so each receiver gets its messages in
//! the order of their senders' indices, at any number of workers, and while a range is served
//! only that part of the receivers has to be in the cache.
//!
//! Left out on purpose: delivery while senders still run, which no order could survive.

use super::split::Split;
use crate::pool::Loops;
use std::ops::Range;

/// The grid has at most so many sections and ranges.
const SIDE_MAX: usize = 64;
const SENDERS_A_SECTION: usize = 256;
const RECEIVERS_A_RANGE: usize = 1024;

/// Messages of type `M` on their way to the items of a slice. Keeps its memory from one use to
/// the next, so a program makes it once.
#[derive(Debug)]
pub struct Outbox<M> {
    /// Section by section, the buckets of the ranges; an entry is a place in the range and a
    /// message.
    buckets: Vec<Vec<(u32, M)>>,
    ranges: usize,
    /// log2 of the receivers in a range.
    shift: u32,
    receivers: usize,
}

impl<M> Outbox<M> {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            buckets: Vec::new(),
            ranges: 0,
            shift: 0,
            receivers: 0,
        }
    }

    /// Empties it, and addresses it to a slice of `receivers` items: what
    /// [`Loops::for_each_sending`] takes.
    pub fn to(&mut self, receivers: usize) -> Addressed<'_, M> {
        let range = receivers.div_ceil(SIDE_MAX).max(RECEIVERS_A_RANGE);
        self.shift = range.next_power_of_two().ilog2();
        self.ranges = receivers.div_ceil(1 << self.shift);
        self.receivers = receivers;
        self.buckets.iter_mut().for_each(Vec::clear);
        Addressed(self)
    }

    /// How many messages are on their way.
    pub fn len(&self) -> usize {
        self.buckets.iter().map(Vec::len).sum()
    }

    /// Whether no message is on its way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// An [`Outbox`] that knows how many receivers there are. Made by [`Outbox::to`].
#[derive(Debug)]
pub struct Addressed<'a, M>(&'a mut Outbox<M>);

/// Where the visit of one sender puts its messages.
#[derive(Debug)]
pub struct Post<'a, M> {
    row: &'a mut [Vec<(u32, M)>],
    shift: u32,
    receivers: usize,
}

impl<M> Post<'_, M> {
    /// Sends a message to the receiver with the index `to`.
    ///
    /// # Panics
    /// If there is no such receiver.
    #[inline]
    pub fn send(&mut self, to: usize, message: M) {
        if to >= self.receivers {
            no_receiver(to, self.receivers);
        }
        let place = to & ((1 << self.shift) - 1);
        self.row[to >> self.shift].push((place as u32, message));
    }
}

#[cold]
#[track_caller]
fn no_receiver(to: usize, receivers: usize) -> ! {
    panic!("a message to receiver {to}, but there are {receivers}")
}

/// One addressed outbox, or a tuple of two or three for as many receiving slices.
pub trait Outboxes: sealed::Rows {}

impl<T: sealed::Rows> Outboxes for T {}

mod sealed {
    /// Where the sections' messages go while senders are visited.
    pub trait Rows {
        /// The grids, shared by the threads.
        type Grids: Sync;
        /// What a sender's visit is given.
        type Post;
        /// Makes room for this many sections.
        fn open(self, sections: usize) -> Self::Grids;
        /// The row of one section.
        ///
        /// # Safety
        /// Each row is in use once at a time.
        unsafe fn row(grids: &Self::Grids, section: usize) -> Self::Post;
    }
}

/// The buckets of an outbox, shared by the threads of a loop.
pub struct Grid<'a, M> {
    buckets: Split<'a, Vec<(u32, M)>>,
    ranges: usize,
    shift: u32,
    receivers: usize,
}

impl<'o, M: Send> sealed::Rows for Addressed<'o, M> {
    type Grids = Grid<'o, M>;
    type Post = Post<'o, M>;

    fn open(self, sections: usize) -> Grid<'o, M> {
        let outbox = self.0;
        let (ranges, shift, receivers) = (outbox.ranges, outbox.shift, outbox.receivers);
        assert!(shift < 32, "a range's places are 32 bits wide");
        outbox.buckets.resize_with(sections * ranges, Vec::new);
        Grid {
            buckets: Split::new(&mut outbox.buckets),
            ranges,
            shift,
            receivers,
        }
    }

    unsafe fn row(grid: &Grid<'o, M>, section: usize) -> Post<'o, M> {
        let row = section * grid.ranges..(section + 1) * grid.ranges;
        Post {
            // SAFETY: rows do not overlap, and each is in use once at a time.
            row: unsafe { grid.buckets.piece(row) },
            shift: grid.shift,
            receivers: grid.receivers,
        }
    }
}

impl<A: sealed::Rows, B: sealed::Rows> sealed::Rows for (A, B) {
    type Grids = (A::Grids, B::Grids);
    type Post = (A::Post, B::Post);

    fn open(self, sections: usize) -> Self::Grids {
        (self.0.open(sections), self.1.open(sections))
    }

    unsafe fn row(grids: &Self::Grids, section: usize) -> Self::Post {
        // SAFETY: the caller gives each section out once, which is what the row of `A`'s grid
        // demands: the row is inside the grid, and nobody else has it.
        let a = unsafe { A::row(&grids.0, section) };
        // SAFETY: the same for `B`'s grid, which is another one: no row of it is a row of `A`'s.
        let b = unsafe { B::row(&grids.1, section) };
        (a, b)
    }
}

/// How many senders a section has: the last one may have fewer.
fn section_len(senders: usize) -> usize {
    senders.div_ceil(SIDE_MAX).max(SENDERS_A_SECTION)
}

impl Loops {
    /// Calls `f(index, sender, post)` once for each sender; `post.send(to, message)` puts a
    /// message into the outbox, for [`deliver`](Self::deliver) to apply. Blocks until all is
    /// done; allocates only where the outbox has to grow.
    ///
    /// For several receiving slices pass a pair of addressed outboxes (a pair may hold a pair);
    /// `post` is a pair then, too.
    ///
    /// # Panics
    /// Re-throws the first panic of `f`, and of a message to a receiver that is not there.
    ///
    /// ```
    /// use creel::{Outbox, Pool};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let mut cars = [(0, 2.0), (1, 3.0), (0, 4.0)]; // a road and a weight
    /// let mut roads = [0.0, 0.0];
    /// let mut outbox = Outbox::new();
    /// pool.for_each_sending(&mut cars, outbox.to(roads.len()), |_, (road, weight), post| {
    ///     post.send(*road, *weight);
    /// });
    /// pool.deliver(&mut outbox, &mut roads, |_, load, weight| *load += weight);
    /// assert_eq!(roads, [6.0, 3.0]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn for_each_sending<T: Send, O: Outboxes>(
        &self,
        senders: &mut [T],
        outboxes: O,
        f: impl Fn(usize, &mut T, &mut O::Post) + Sync,
    ) {
        let len = section_len(senders.len());
        let total = senders.len();
        let sections = total.div_ceil(len);
        let grids = outboxes.open(sections);
        let senders = Split::new(senders);
        self.run(sections, move |range: Range<usize>, _| {
            for section in range {
                // SAFETY: `run` gives each section out once.
                let mut post = unsafe { O::row(&grids, section) };
                let begin = section * len;
                let piece = begin..total.min(begin.saturating_add(len));
                // SAFETY: validity: the piece ends at `total`. Aliasing: `run` gives each section
                // out once, and the pieces of two sections do not overlap.
                let items = unsafe { senders.piece(piece.clone()) };
                for (index, sender) in piece.zip(items) {
                    f(index, sender, &mut post);
                }
            }
        });
    }

    /// Calls `f(index, receiver, message)` for each message in the outbox, and empties it. Each
    /// receiver gets its messages in the order of their senders' indices, and of one sender in
    /// the order sent. Blocks until all is done.
    ///
    /// # Panics
    /// If the outbox was addressed to another number of receivers. Re-throws the first panic of
    /// `f`; which messages were applied then is not said.
    #[track_caller]
    pub fn deliver<M: Send, T: Send>(
        &self,
        outbox: &mut Outbox<M>,
        receivers: &mut [T],
        f: impl Fn(usize, &mut T, M) + Sync,
    ) {
        let (ranges, shift) = (outbox.ranges, outbox.shift);
        assert_eq!(
            outbox.receivers,
            receivers.len(),
            "an outbox is delivered to as many receivers as it is addressed to"
        );
        if ranges == 0 {
            return;
        }
        let total = receivers.len();
        let sections = outbox.buckets.len() / ranges;
        let (buckets, receivers) = (Split::new(&mut outbox.buckets), Split::new(receivers));
        self.run(ranges, move |range: Range<usize>, _| {
            for range in range {
                let first = range << shift;
                let end = total.min(first.saturating_add(1 << shift));
                // SAFETY: `run` gives each range out once, and ranges do not overlap.
                let items = unsafe { receivers.piece(first..end) };
                for section in 0..sections {
                    let bucket = section * ranges + range;
                    // SAFETY: validity: `bucket` is below sections × ranges. Aliasing: `run` gives
                    // each range out once, and each range has buckets of its own.
                    let bucket = unsafe { buckets.piece(bucket..bucket + 1) };
                    for (place, message) in bucket[0].drain(..) {
                        let place = place as usize;
                        f(first + place, &mut items[place], message);
                    }
                }
            }
        });
    }
}
