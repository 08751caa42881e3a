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

use super::{
    items::{Count, HasChunk, HasItem, Walk, WalkChunks},
    split::Split,
};
use crate::pool::Pool;
use std::ops::Range;

/// The grid has at most so many ranges, and as many sections as `visit.rs` cuts.
const SIDE_MAX: usize = 64;
const RECEIVERS_A_RANGE: usize = 1024;

/// Messages of type `M` on their way to the items of a slice. Keeps its memory from one use to
/// the next, so a program makes it once.
///
/// A loop over the senders has the outbox beside them, addressed to so many receivers
/// ([`to`](Self::for_receivers)); then [`Pool::deliver`] applies the messages. There may be several outboxes,
/// for several receiving slices, and the senders may be changed, or only read.
///
/// ```
/// use creel::{Outbox, Pool};
///
/// let pool = Pool::builder().workers(2).build()?;
/// let cars = [(0, 2.0), (1, 3.0), (0, 4.0)]; // a road and a weight
/// let mut roads = [0.0, 0.0];
/// let mut outbox = Outbox::new();
/// pool.for_each((&cars, outbox.for_receivers(roads.len())), |((road, weight), post)| {
///     post.send(*road, *weight);
/// });
/// pool.deliver(&mut outbox, &mut roads, |load, weight| *load += weight);
/// assert_eq!(roads, [6.0, 3.0]);
/// # Ok::<(), creel::BuildError>(())
/// ```
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
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut outbox = creel::Outbox::new();
    /// pool.for_each((0..3, outbox.for_receivers(1)), |(n, post)| post.send(0, n));
    /// assert_eq!(outbox.len(), 3);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self {
            buckets: Vec::new(),
            ranges: 0,
            shift: 0,
            receivers: 0,
        }
    }

    /// Empties it, and addresses it to a slice of `receivers` items: what a loop over the senders
    /// takes beside them. It allocates only where the outbox has to grow.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut outbox, mut cells) = (creel::Outbox::new(), [0; 4]);
    /// for _tick in 0..3 {
    ///     pool.for_each((0..8, outbox.for_receivers(cells.len())), |(n, post)| post.send(n / 2, 1));
    ///     pool.deliver(&mut outbox, &mut cells, |cell, one| *cell += one);
    /// }
    /// assert_eq!(cells, [6, 6, 6, 6]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn for_receivers(&mut self, receivers: usize) -> BoundOutbox<'_, M> {
        let range = receivers.div_ceil(SIDE_MAX).max(RECEIVERS_A_RANGE);
        self.shift = range.next_power_of_two().ilog2();
        self.ranges = receivers.div_ceil(1 << self.shift);
        self.receivers = receivers;
        self.buckets.iter_mut().for_each(Vec::clear);
        BoundOutbox(self)
    }

    /// How many messages are on their way.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut outbox = creel::Outbox::new();
    /// pool.for_each((0..100, outbox.for_receivers(1)), |(n, post)| if n % 3 == 0 { post.send(0, n) });
    /// assert_eq!(outbox.len(), 34);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.buckets.iter().map(Vec::len).sum()
    }

    /// Whether no message is on its way.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut outbox, mut sum) = (creel::Outbox::new(), [0]);
    /// pool.for_each((0..4, outbox.for_receivers(1)), |(n, post)| post.send(0, n));
    /// assert!(!outbox.is_empty());
    /// pool.deliver(&mut outbox, &mut sum, |sum, n| *sum += n);
    /// assert!(outbox.is_empty());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// An [`Outbox`] that knows how many receivers there are. Made by [`Outbox::for_receivers`].
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let (mut odd, mut even) = (creel::Outbox::new(), creel::Outbox::new());
/// // Two outboxes beside the senders.
/// pool.for_each((0..10, odd.for_receivers(1), even.for_receivers(1)), |(n, odd, even)| match n % 2 {
///     0 => even.send(0, n),
///     _ => odd.send(0, n),
/// });
/// assert_eq!((odd.len(), even.len()), (5, 5));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
pub struct BoundOutbox<'a, M>(&'a mut Outbox<M>);

/// Where the visit of one sender puts its messages.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::OutboxSender;
///
/// /// What a sender does, apart from the loop.
/// fn vote(voter: usize, post: &mut OutboxSender<usize>) {
///     post.send(voter % 2, voter);
/// }
/// let (mut outbox, mut votes) = (creel::Outbox::new(), [0, 0]);
/// pool.for_each((0..5, outbox.for_receivers(2)), |(voter, post)| vote(voter, post));
/// pool.deliver(&mut outbox, &mut votes, |votes, _| *votes += 1);
/// assert_eq!(votes, [3, 2]);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
pub struct OutboxSender<'a, M> {
    row: &'a mut [Vec<(u32, M)>],
    shift: u32,
    receivers: usize,
}

impl<M> OutboxSender<'_, M> {
    /// Sends a message to the receiver with the index `to`.
    ///
    /// # Panics
    /// If there is no such receiver.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut outbox, mut inbox) = (creel::Outbox::new(), [String::new(), String::new()]);
    /// pool.for_each_indexed((&["a", "b"], outbox.for_receivers(2)), |index, (name, post)| {
    ///     post.send(1 - index, format!("from {name}"));
    ///     post.send(1 - index, "!".into());
    /// });
    /// pool.deliver(&mut outbox, &mut inbox, |inbox, message| inbox.push_str(&message));
    /// assert_eq!(inbox, ["from b!", "from a!"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
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

impl<'x, 'o, M> HasItem<'x> for BoundOutbox<'o, M> {
    type Item = &'x mut OutboxSender<'o, M>;
}

impl<'x, 'o, M> HasChunk<'x> for BoundOutbox<'o, M> {
    type Chunk = &'x mut OutboxSender<'o, M>;
}

/// The buckets of an outbox, shared by the threads of a loop.
pub struct Grid<'a, M> {
    buckets: Split<'a, Vec<(u32, M)>>,
    ranges: usize,
    shift: u32,
    receivers: usize,
}

// SAFETY: each section has a row of buckets of its own.
unsafe impl<'o, M: Send> Walk for BoundOutbox<'o, M> {
    type Base = Grid<'o, M>;
    type Hand = OutboxSender<'o, M>;
    const COUNTED: bool = false;
    const IN_SECTIONS: bool = true;

    fn count(&self, count: &mut Count) {
        count.pass();
    }

    fn open(self, sections: usize) -> Grid<'o, M> {
        let outbox = self.0;
        let (ranges, shift, receivers) = (outbox.ranges, outbox.shift, outbox.receivers);
        assert!(
            shift < 32,
            "an outbox for {receivers} receivers: at most 2^37 can be told apart"
        );
        outbox.buckets.resize_with(sections * ranges, Vec::new);
        Grid {
            buckets: Split::new(&mut outbox.buckets),
            ranges,
            shift,
            receivers,
        }
    }

    #[inline]
    unsafe fn take(grid: &Grid<'o, M>, _: usize, section: usize) -> OutboxSender<'o, M> {
        let row = section * grid.ranges..(section + 1) * grid.ranges;
        OutboxSender {
            // SAFETY: rows do not overlap, and each is in use once at a time, says the caller.
            row: unsafe { grid.buckets.piece(row) },
            shift: grid.shift,
            receivers: grid.receivers,
        }
    }

    #[inline]
    unsafe fn item<'x>(hand: &'x mut OutboxSender<'o, M>, _: usize) -> &'x mut OutboxSender<'o, M>
    where
        Self: 'x,
    {
        hand
    }
}

// SAFETY: as above.
unsafe impl<'o, M: Send> WalkChunks for BoundOutbox<'o, M> {
    #[inline]
    unsafe fn chunk<'x>(
        hand: &'x mut OutboxSender<'o, M>,
        _: Range<usize>,
    ) -> &'x mut OutboxSender<'o, M>
    where
        Self: 'x,
    {
        hand
    }
}

impl Pool {
    /// Calls `f(receiver, message)` for each message in the outbox, and empties the outbox. A
    /// receiver gets its messages in the order of their senders' indices, and the messages of one
    /// sender in the order in which they were sent. Blocks until all messages are delivered.
    ///
    /// # Panics
    /// If the outbox was made for a different number of receivers. Resumes the first panic of `f`;
    /// it is unspecified which messages were delivered in that case.
    ///
    /// ```
    /// use creel::{Outbox, Pool};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let (mut outbox, mut got) = (Outbox::new(), vec![Vec::new(); 3]);
    /// pool.for_each((0..6, outbox.for_receivers(3)), |(sender, out)| out.send(sender % 3, sender));
    /// pool.deliver(&mut outbox, &mut got, |got, message| got.push(message));
    /// assert_eq!(got, [[0, 3], [1, 4], [2, 5]]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn deliver<M: Send, T: Send>(
        &self,
        outbox: &mut Outbox<M>,
        receivers: &mut [T],
        f: impl Fn(&mut T, M) + Sync,
    ) {
        self.deliver_indexed(outbox, receivers, |_, receiver, message| {
            f(receiver, message)
        });
    }

    /// Like [`deliver`](Self::deliver), but calls `f(index, receiver, message)`, where `index` is
    /// the receiver's.
    ///
    /// # Panics
    /// As [`deliver`](Self::deliver).
    #[track_caller]
    pub fn deliver_indexed<M: Send, T: Send>(
        &self,
        outbox: &mut Outbox<M>,
        receivers: &mut [T],
        f: impl Fn(usize, &mut T, M) + Sync,
    ) {
        let (ranges, shift) = (outbox.ranges, outbox.shift);
        assert!(
            outbox.receivers == receivers.len(),
            "the outbox was made for {} receivers, but delivered to {}",
            outbox.receivers,
            receivers.len()
        );
        if ranges == 0 {
            return;
        }
        let total = receivers.len();
        let sections = outbox.buckets.len() / ranges;
        let (buckets, receivers) = (Split::new(&mut outbox.buckets), Split::new(receivers));
        self.run(usize::MAX, ranges, move |range: Range<usize>, _| {
            for range in range {
                let first = range << shift;
                let end = total.min(first.saturating_add(1 << shift));
                // SAFETY: `run` passes each range once, and ranges do not overlap.
                let items = unsafe { receivers.piece(first..end) };
                for section in 0..sections {
                    let bucket = section * ranges + range;
                    // SAFETY: validity: `bucket` is below sections × ranges. Aliasing: `run` passes
                    // each range once, and each range has buckets of its own.
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
