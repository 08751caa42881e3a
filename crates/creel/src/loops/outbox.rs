//! Messages from the items of one slice to the items of another, delivered in a deterministic
//! order.
//!
//! A loop over the senders fills the buckets of an [`Outbox`]. A second loop applies the messages
//! to the receivers. The buckets form a grid. Its rows are *sections* of consecutive senders, and
//! its columns are *ranges* of consecutive receivers. In the first loop, one thread visits the
//! senders of a section in order. In the second loop, one thread serves a range, and takes the
//! sections in order. Each receiver therefore gets its messages in the order of their senders'
//! indices, whatever the sections and ranges are. While a range is served, only this part of the
//! receivers has to be in the cache.
//!
//! If one thread runs the loop, there is one section and one range, because one bucket is faster to
//! fill than many. The outbox chooses this if it measures that this is faster (`choice.rs`).
//!
//! [`Pool::exchange`] does both steps in one call (`exchange.rs`). One thread then needs no bucket.
//!
//! We deliberately do not deliver messages while senders are still running, because no order could
//! be guaranteed.

mod choice;
mod exchange;

pub use exchange::ExchangeSender;

use super::{
    items::{Count, HasChunk, HasItem, Sections, Walk, WalkChunks},
    split::Split,
};
use crate::{pool::Pool, sync::now_ns};
use choice::{Choice, Way};
use std::ops::Range;

/// The maximum number of ranges in the grid. `visit.rs` limits the number of sections.
const RANGES_MAX: usize = 64;
/// The number of ranges for each thread. With many more ranges, the ends of the buckets push each
/// other out of the first-level cache. With fewer ranges, the threads cannot divide them evenly.
const RANGES_PER_THREAD: usize = 8;
/// The limits of the number of receivers in a range. The maximum keeps a range in the cache. If
/// there are more receivers than `RANGES_MAX` such ranges can hold, the ranges are longer.
const RECEIVERS_MIN: usize = 1024;
const RECEIVERS_MAX: usize = 16 * 1024;

/// Messages of type `M` to the items of a slice. It keeps its memory from one use to the next, so
/// create it once.
///
/// Pass the outbox to a loop over the senders, next to the senders, with
/// [`for_receivers`](Self::for_receivers) and the number of receivers. Then [`Pool::deliver`]
/// applies the messages. You can pass several outboxes, for several slices of receivers. The loop
/// may change the senders or only read them.
///
/// An outbox stores each message and reads it again. This pays if a sender computes for more than a
/// few nanoseconds per message. If your senders do less, call [`Pool::exchange`] instead. It lets
/// one thread do everything and store nothing if that is faster.
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
    /// The buckets. The buckets of a section follow each other, one per range. An entry of a bucket
    /// is the receiver's place in the range, and the message.
    buckets: Vec<Vec<(u32, M)>>,
    /// The numbers of sections and of ranges, which say how many of the buckets are in use. Both
    /// are 0 until a loop uses the outbox.
    sections: usize,
    ranges: usize,
    /// The binary logarithm of the number of receivers in a range.
    shift: u32,
    receivers: usize,
    /// The maximum number of threads in the loop over the senders.
    threads: usize,
    choice: Choice,
    /// The duration of the loop over the senders.
    sent_ns: u64,
}

impl<M> Outbox<M> {
    /// Creates an empty outbox.
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
            sections: 0,
            ranges: 0,
            shift: 0,
            receivers: 0,
            threads: 0,
            choice: Choice::new(),
            sent_ns: 0,
        }
    }

    /// Clears the outbox, and binds it to a slice of `receivers` items. Pass the result to a loop,
    /// next to the senders. The outbox allocates only when it has to grow.
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
        (self.sections, self.ranges) = (0, 0);
        self.receivers = receivers;
        self.buckets.iter_mut().for_each(Vec::clear);
        BoundOutbox(self)
    }

    /// Returns the number of messages in the outbox.
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

    /// Returns whether there are no messages in the outbox.
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

/// Returns the binary logarithm of the number of receivers in a range.
fn shift(receivers: usize, threads: usize) -> u32 {
    let range = match threads {
        0 | 1 => receivers.max(1),
        _ => {
            let even = receivers.div_ceil(RANGES_PER_THREAD * threads);
            let range = even.clamp(RECEIVERS_MIN, RECEIVERS_MAX);
            range.max(receivers.div_ceil(RANGES_MAX))
        }
    };
    range
        .checked_next_power_of_two()
        .map_or(usize::BITS, usize::ilog2)
}

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// An [`Outbox`] that is bound to a number of receivers. [`Outbox::for_receivers`] creates it.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let (mut odd, mut even) = (creel::Outbox::new(), creel::Outbox::new());
/// // Two outboxes next to the senders.
/// pool.for_each((0..10, odd.for_receivers(1), even.for_receivers(1)), |(n, odd, even)| match n % 2 {
///     0 => even.send(0, n),
///     _ => odd.send(0, n),
/// });
/// assert_eq!((odd.len(), even.len()), (5, 5));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
pub struct BoundOutbox<'a, M>(&'a mut Outbox<M>);

/// Sends the messages of one sender. The closure of a loop receives it as the outbox's item.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::OutboxSender;
///
/// /// Does the work of one sender.
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
    /// Sends a message to the receiver with the index `to`. This only stores the message.
    /// [`Pool::deliver`] delivers it.
    ///
    /// # Panics
    /// Panics if `to` is not below the number of receivers.
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
    panic!("cannot send a message to receiver {to}, because there are only {receivers} receivers")
}

impl<'x, 'o, M> HasItem<'x> for BoundOutbox<'o, M> {
    type Item = &'x mut OutboxSender<'o, M>;
}

impl<'x, 'o, M> HasChunk<'x> for BoundOutbox<'o, M> {
    type Chunk = &'x mut OutboxSender<'o, M>;
}

/// The buckets of an outbox, which the threads of a loop share.
pub struct Grid<'a, M> {
    buckets: Split<'a, Vec<(u32, M)>>,
    ranges: usize,
    shift: u32,
    receivers: usize,
    begun_ns: u64,
    /// The field of the outbox in which we store the duration of this loop, in ns.
    sent_ns: &'a mut u64,
}

impl<M> Drop for Grid<'_, M> {
    fn drop(&mut self) {
        *self.sent_ns = now_ns().saturating_sub(self.begun_ns);
    }
}

// SAFETY: Each section has its own row of buckets.
unsafe impl<'o, M: Send> Walk for BoundOutbox<'o, M> {
    type Base = Grid<'o, M>;
    type Hand = OutboxSender<'o, M>;
    const COUNTED: bool = false;
    const IN_SECTIONS: bool = true;

    fn count(&self, count: &mut Count) {
        count.pass();
    }

    fn prefers_one_thread(&self) -> bool {
        self.0.choice.way() == Way::Alone
    }

    fn open(self, Sections { count, threads }: Sections) -> Grid<'o, M> {
        let outbox = self.0;
        let receivers = outbox.receivers;
        let mut shift = shift(receivers, threads);
        if shift >= u32::BITS {
            // An entry of a bucket stores the place of its receiver in the range as 32 bits.
            shift = u32::BITS - 1;
        }
        let ranges = receivers.div_ceil(1 << shift);
        assert!(
            ranges <= RANGES_MAX,
            "cannot create an outbox for {receivers} receivers: the maximum is 2^37"
        );
        (outbox.sections, outbox.ranges, outbox.shift) = (count, ranges, shift);
        outbox.threads = threads;
        if outbox.buckets.len() < count * ranges {
            outbox.buckets.resize_with(count * ranges, Vec::new);
        }
        Grid {
            buckets: Split::new(&mut outbox.buckets),
            ranges,
            shift,
            receivers,
            begun_ns: now_ns(),
            sent_ns: &mut outbox.sent_ns,
        }
    }

    #[inline]
    unsafe fn take(grid: &Grid<'o, M>, _: usize, section: usize) -> OutboxSender<'o, M> {
        let row = section * grid.ranges..(section + 1) * grid.ranges;
        OutboxSender {
            // SAFETY: Rows do not overlap, and the caller promises that each row is used by one
            // thread at a time.
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

// SAFETY: The reasons are the same as for `Walk`, which is implemented above.
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
    /// Panics if the outbox was made for a different number of receivers. Resumes the first panic
    /// of `f`. It is unspecified which messages were delivered in that case.
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

    /// Does the same as [`deliver`](Self::deliver), but calls `f(index, receiver, message)`, where
    /// `index` is the index of the receiver.
    ///
    /// # Panics
    /// Panics in the same cases as [`deliver`](Self::deliver).
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
        let begun_ns = now_ns();
        let (total, sections) = (receivers.len(), outbox.sections);
        let way = match ranges * sections {
            1 => Way::Alone,
            _ => Way::Shared,
        };
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
        let ns = outbox.sent_ns + now_ns().saturating_sub(begun_ns);
        outbox.choice.learn(way, ns, outbox.threads);
        outbox.ranges = 0;
    }
}
