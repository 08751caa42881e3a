//! A bounded channel from many senders to many receivers.
//!
//! The implementation is a ring of places with stamps, after Vyukov's bounded queue. A place holds
//! one message, and a lap is one round through all places. The stamp of a place says in which lap
//! the place can be written or read next. A sender claims a place by moving `tail`, and a receiver
//! claims one by moving `head`. Both publish their work by storing the stamp.
//!
//! We add waiting to this queue. A flag in `tail` says that receivers wait, and a flag in `head`
//! says that senders wait. A sender that moves `tail`, or a receiver that moves `head`, sees the
//! flag in the same exchange. Therefore the fast path needs no fence and no second check. No
//! wake-up is lost, for these reasons:
//!
//! - A receiver that finds no message joins the list, sets the flag and checks again. A sender that
//!   claims a place after the flag was set sees the flag and wakes a receiver. If the claim came
//!   before the flag, the second check finds either a message or a claim that is not published yet.
//!   In the latter case, the receiver does not sleep but polls again.
//! - If a wake-up reaches a receiver that was dropped or that already has a message, it passes to
//!   the next receiver.
//!
//! We leave out unbounded capacity, and selecting over several channels. To select, use combinators
//! of futures. For example, poll the futures of two `recv` calls in one `poll_fn`.

#[cfg(feature = "stream")]
mod stream;

#[cfg(feature = "stream")]
pub use stream::{RecvStream, SendSink};

use super::waiters::{Ticket, Waiters};
use super::{RecvError, SendError, TryRecvError, TrySendError, blocking};
use crate::sync::{AtomicU64, AtomicUsize, Ordering, UnsafeCell};
use crate::worker::budget;
use crate::worker::{panics::RunAll, stored_waker::StoredWaker};
use crossbeam_utils::CachePadded;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A flag in both words. In `tail`, it says that receivers wait. In `head`, it says that senders
/// wait.
const WAITING: u64 = 1;
/// A flag that is used only in `tail`. It says that the channel is closed, and that no sender can
/// claim a place any more.
const CLOSED: u64 = 2;
/// The difference between two neighbouring positions of `head` or `tail` in one lap. A position
/// consists of the number of the lap and, in the lower bits, the index of a place. The last
/// position of a lap and the first one of the next lap differ by more, because a lap is longer than
/// the capacity.
const STEP: u64 = 4;
const FLAGS: u64 = STEP - 1;

struct Place<T> {
    /// The position at which this place can be written next. If the stamp is one greater than a
    /// position, the place can be read at that position.
    ///
    /// The stamp is stored with `Release` after a message was moved in or out. This store
    /// synchronizes with the `Acquire` load before the next claim of the place. Otherwise, a
    /// receiver could read the message before it is completely written, and a sender could
    /// overwrite a message that is still being read.
    stamp: AtomicU64,
    /// The message. It belongs to the thread whose claim matches the stamp.
    message: UnsafeCell<MaybeUninit<T>>,
}

/// The reason why no place was claimed.
#[derive(Clone, Copy)]
enum Refused {
    /// There is no free place to write, or no message to read.
    ForNow,
    Closed,
}

/// A place that belongs to the thread that claimed it.
struct Claim<'a, T> {
    place: &'a Place<T>,
    /// The value of `tail` or `head` before the claim.
    word: u64,
}

struct Ring<T> {
    /// The next position to write, and the flags. Claims and changes of a flag are
    /// read-modify-writes of this word, so they have one order. For example, a sender that makes
    /// its claim after a receiver has set the *waiting* flag sees the flag. These operations are
    /// `AcqRel`, so that everything before one of them happens before the later ones.
    tail: CachePadded<AtomicU64>,
    /// The next position to read, and the flag that senders wait. Its memory orderings are those of
    /// `tail`.
    head: CachePadded<AtomicU64>,
    places: Box<[Place<T>]>,
    /// The bits of a word below the lap.
    mask: u64,
    receivers_waiting: Waiters,
    senders_waiting: Waiters,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

// SAFETY: only the thread whose claim matches the stamp accesses a message, and `T: Send` allows it
// to move there.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: only the thread whose claim matches the stamp of a place accesses its message, even
// through a shared ring. Therefore threads access different messages, which `T: Send` allows.
unsafe impl<T: Send> Sync for Ring<T> {}

/// Creates a channel that holds up to `capacity` messages.
///
/// # Panics
///
/// Panics if `capacity` is 0 or greater than 2³⁰.
///
/// ```
/// let (tx, rx) = creel::channel::bounded::channel(2);
/// tx.try_send('a').unwrap();
/// tx.try_send('b').unwrap();
/// assert!(tx.try_send('c').is_err());
/// assert_eq!(rx.try_recv(), Ok('a'));
/// ```
#[track_caller]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(
        (1..=1 << 30).contains(&capacity),
        "the capacity of a channel must be 1 to 2^30, not {capacity}"
    );
    // The length of a lap is a power of two that is greater than the capacity. Therefore the stamps
    // for "written" and "free in the next lap" differ even if the channel has only one place.
    let lap = (capacity as u64 + 1).next_power_of_two() * STEP;
    let place = |index| Place {
        stamp: AtomicU64::new(index as u64 * STEP),
        message: UnsafeCell::new(MaybeUninit::uninit()),
    };
    let ring = Arc::new(Ring {
        tail: CachePadded::new(AtomicU64::new(0)),
        head: CachePadded::new(AtomicU64::new(0)),
        places: (0..capacity).map(place).collect(),
        mask: lap - 1,
        receivers_waiting: Waiters::new(),
        senders_waiting: Waiters::new(),
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
    });
    (Sender { ring: ring.clone() }, Receiver { ring })
}

impl<T> Ring<T> {
    /// Returns the place at the position of `word`, and whether it is not the last place of its
    /// lap.
    #[inline(always)]
    fn place(&self, word: u64) -> (&Place<T>, bool) {
        let index = ((word & self.mask) / STEP) as usize;
        (&self.places[index], index + 1 < self.places.len())
    }

    /// Claims a place: a free place if `SENDS`, otherwise a place with a message.
    #[inline(always)]
    fn claim<const SENDS: bool>(&self) -> Result<Claim<'_, T>, Refused> {
        let end = self.end::<SENDS>();
        let mut word = end.load(Ordering::Relaxed);
        let (place, more) = self.place(word);
        let stamp = place.stamp.load(Ordering::Acquire);
        // This function handles only the most common case, because it is inlined at every await.
        if stamp == awaited::<SENDS>(word) && more {
            match advance(end, word, word + STEP) {
                Ok(()) => return Ok(Claim { place, word }),
                Err(now) => word = now,
            }
        }
        self.claim_slowly::<SENDS>(word)
    }

    #[cold]
    #[inline(never)]
    fn claim_slowly<const SENDS: bool>(&self, mut word: u64) -> Result<Claim<'_, T>, Refused> {
        let end = self.end::<SENDS>();
        loop {
            if word & CLOSED != 0 {
                return Err(Refused::Closed);
            }
            let (place, more) = self.place(word);
            let stamp = place.stamp.load(Ordering::Acquire);
            let awaited = awaited::<SENDS>(word);
            if stamp == awaited {
                let flags = word & FLAGS;
                let next_lap = (word & !self.mask).wrapping_add(self.mask + 1) | flags;
                let next = if more { word + STEP } else { next_lap };
                match advance(end, word, next) {
                    Ok(()) => return Ok(Claim { place, word }),
                    Err(now) => word = now,
                }
            } else {
                // The claim failed. Either the other side has not finished with the place, or our
                // copy of the word is out of date.
                let before = if SENDS { self.mask } else { 1 };
                let now = end.load(Ordering::Acquire);
                if now == word && stamp == awaited.wrapping_sub(before) {
                    let ended = !SENDS && self.is_at_end(word);
                    return Err(if ended {
                        Refused::Closed
                    } else {
                        Refused::ForNow
                    });
                }
                word = now;
                crate::sync::spin_loop();
            }
        }
    }

    /// Returns whether the channel is closed and empty at this value of `head`, so that no message
    /// will be published at this position.
    fn is_at_end(&self, head: u64) -> bool {
        let tail = self.tail.load(Ordering::Acquire);
        tail & CLOSED != 0 && (tail ^ head) & !FLAGS == 0
    }

    /// Writes a message to the claimed place.
    #[inline(always)]
    fn put(&self, claim: Claim<'_, T>, message: T) {
        claim.place.message.with_mut(|place| {
            // SAFETY: the claim matches the stamp, so the place is empty and belongs to us.
            let place = unsafe { &mut *place };
            place.write(message);
        });
        // A stamp that is one greater than a position means "can be read". It can never be mistaken
        // for a position, because positions are multiples of `STEP`.
        let position = claim.word & !FLAGS;
        claim.place.stamp.store(position + 1, Ordering::Release);
        if claim.word & WAITING != 0
            && let Some(waker) = self.first_waiting(Side::Receivers)
        {
            waker.wake();
        }
    }

    /// Moves the message out of the claimed place.
    #[inline(always)]
    fn take(&self, claim: Claim<'_, T>) -> T {
        let message = claim.place.message.with_mut(|place| {
            // SAFETY: the claim matches the stamp, so the place belongs to us.
            let place = unsafe { &mut *place };
            // SAFETY: according to the stamp, the message was written, and no other thread reads
            // it.
            unsafe { place.assume_init_read() }
        });
        let free = (claim.word & !FLAGS).wrapping_add(self.mask + 1);
        claim.place.stamp.store(free, Ordering::Release);
        if claim.word & WAITING != 0 {
            // We catch a panic of the waker, because it would cost the caller the message that it
            // has received.
            let sender = self.first_waiting(Side::Senders);
            if let Some(waker) = sender {
                waker.wake_quietly();
            }
        }
        message
    }

    fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        match self.claim::<true>() {
            Ok(claim) => {
                self.put(claim, message);
                Ok(())
            }
            Err(Refused::Closed) => Err(TrySendError::Closed(message)),
            Err(Refused::ForNow) => Err(TrySendError::Full(message)),
        }
    }

    fn try_recv(&self) -> Result<T, TryRecvError> {
        match self.claim::<false>() {
            Ok(claim) => Ok(self.take(claim)),
            Err(Refused::Closed) => Err(TryRecvError::Closed),
            Err(Refused::ForNow) => Err(TryRecvError::Empty),
        }
    }

    /// Returns the word that this side moves: `tail` for senders, `head` for receivers.
    #[inline(always)]
    fn end<const SENDS: bool>(&self) -> &AtomicU64 {
        if SENDS { &self.tail } else { &self.head }
    }

    /// Returns the list of a side's waiters, and the word with their flag.
    fn waiting(&self, side: Side) -> (&Waiters, &AtomicU64) {
        match side {
            Side::Senders => (&self.senders_waiting, &self.head),
            Side::Receivers => (&self.receivers_waiting, &self.tail),
        }
    }

    /// Takes the first waiter of a side out of its list.
    #[cold]
    fn first_waiting(&self, side: Side) -> Option<StoredWaker> {
        let (list, word) = self.waiting(side);
        list.pop(|| lower(word))
    }

    /// Rejects further messages and wakes all waiters, so that they notice.
    fn close(&self) {
        if self.tail.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED == 0 {
            let mut woken = RunAll::default();
            for side in [Side::Receivers, Side::Senders] {
                let (list, word) = self.waiting(side);
                list.wake_all(&mut woken, || lower(word));
            }
            woken.finish();
        }
    }

    /// Returns whether a waiting receiver may sleep, because there is no message, no claim of a
    /// sender in progress, and the channel is open.
    fn is_empty(&self) -> bool {
        let tail = self.tail.load(Ordering::Acquire);
        let head = self.head.load(Ordering::Acquire);
        tail & CLOSED == 0 && (tail ^ head) & !FLAGS == 0
    }

    /// Returns whether a waiting sender may sleep, because every place is taken, no receiver is
    /// taking a message, and the channel is open.
    fn is_full(&self) -> bool {
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Acquire);
        tail & CLOSED == 0 && (head & !FLAGS).wrapping_add(self.mask + 1) == tail & !FLAGS
    }
}

/// Returns the stamp with which a side can claim the place at its word. No stamp matches if the
/// word has the `CLOSED` flag.
#[inline(always)]
fn awaited<const SENDS: bool>(word: u64) -> u64 {
    (word & !WAITING) + u64::from(!SENDS)
}

/// Moves `head` or `tail` from `seen` to `next` by a compare-exchange.
#[inline(always)]
fn advance(word: &AtomicU64, seen: u64, next: u64) -> Result<(), u64> {
    word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed)
        .map(drop)
}

fn lower(word: &AtomicU64) {
    word.fetch_and(!WAITING, Ordering::AcqRel);
}

fn raise(word: &AtomicU64) {
    word.fetch_or(WAITING, Ordering::AcqRel);
}

impl<T> Ring<T> {
    /// Drops all messages in the channel, even if the drop of a message panics. Resumes the first
    /// panic afterwards.
    fn clear(&self) {
        let mut dropped = RunAll::default();
        while let Ok(message) = self.try_recv() {
            dropped.run(|| drop(message));
        }
        dropped.finish();
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A sending half. Clones send to the same channel. Dropping the last sender closes the channel.
///
/// ```
/// let (tx, rx) = creel::channel::bounded::channel(2);
/// tx.try_send(1).unwrap();
/// drop(tx);
/// assert_eq!((rx.try_recv().ok(), rx.try_recv().ok()), (Some(1), None));
/// ```
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
}

/// A receiving half. Clones share the messages, and each message goes to one receiver.
///
/// Dropping the last receiver closes the channel and drops all messages in it. If the drop of a
/// message panics, it still drops the others, and then resumes the first panic.
///
/// ```
/// let (tx, rx) = creel::channel::bounded::channel(2);
/// tx.try_send(1).unwrap();
/// assert_eq!(rx.try_recv(), Ok(1));
/// ```
pub struct Receiver<T> {
    ring: Arc<Ring<T>>,
}

impl<T> Sender<T> {
    /// Sends the message if there is room. Never waits.
    ///
    /// # Errors
    ///
    /// Returns the message in [`TrySendError::Full`] if the channel is full, or in
    /// [`TrySendError::Closed`] if it is closed.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::bounded::channel(2);
    /// assert!(tx.try_send(1).is_ok());
    /// drop(rx);
    /// assert!(tx.try_send(2).is_err());
    /// ```
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.ring.try_send(message)
    }

    /// Sends one message. Waits while the channel is full.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future before it is ready, the message is not sent, and it is dropped as
    /// well.
    ///
    /// # Errors
    ///
    /// The future returns the message if the channel is closed.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (tx, rx) = creel::channel::bounded::channel(2);
    /// let sum = pool.spawn(async move {
    ///     let mut sum = 0;
    ///     while let Ok(n) = rx.recv().await {
    ///         sum += n;
    ///     }
    ///     sum
    /// });
    /// pool.block_on(async move {
    ///     for n in 0..10 {
    ///         tx.send(n).await.unwrap();
    ///     }
    /// });
    /// assert_eq!(pool.block_on(sum).unwrap(), 45);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline]
    pub fn send(&self, message: T) -> SendFuture<'_, T> {
        SendFuture {
            end: End::new(&self.ring),
            message: Some(message),
        }
    }

    /// Sends one message. Blocks the calling thread while the channel is full. Use it on threads
    /// that do not run tasks.
    ///
    /// # Errors
    ///
    /// Returns the message if the channel is closed.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::bounded::channel(2);
    /// let thread = std::thread::spawn(move || (0..10).all(|n| tx.send_blocking(n).is_ok()));
    /// let all: Vec<i32> = std::iter::from_fn(|| rx.recv_blocking().ok()).collect();
    /// assert!(thread.join().unwrap() && all == Vec::from_iter(0..10));
    /// ```
    pub fn send_blocking(&self, message: T) -> Result<(), SendError<T>> {
        match self.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(message)) => Err(SendError(message)),
            Err(TrySendError::Full(message)) => blocking::wait(self.send(message)),
        }
    }

    /// Closes the channel for all senders. Messages in the channel can still be received.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::bounded::channel(2);
    /// tx.try_send(1).unwrap();
    /// tx.close();
    /// assert!(tx.try_send(2).is_err());
    /// assert_eq!(rx.try_recv(), Ok(1)); // what was sent arrives
    /// ```
    pub fn close(&self) {
        self.ring.close();
    }
}

impl<T> Receiver<T> {
    /// Takes a message if there is one. Never waits.
    ///
    /// # Errors
    ///
    /// Returns [`TryRecvError::Empty`] if the channel is empty, or [`TryRecvError::Closed`] if it
    /// is closed as well.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::bounded::channel(2);
    /// assert!(rx.try_recv().is_err());
    /// tx.try_send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// ```
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.ring.try_recv()
    }

    /// Receives one message. Waits until there is one.
    ///
    /// # Cancel safety
    ///
    /// Safe. If you drop the future before it is ready, it has not taken a message. If it had
    /// already been woken, the wake-up passes to the next receiver.
    ///
    /// # Errors
    ///
    /// The future returns [`RecvError`] if the channel is closed and empty.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (tx, rx) = creel::channel::bounded::channel(2);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(pool.block_on(rx.recv()), Ok(1));
    /// drop(tx);
    /// assert!(pool.block_on(rx.recv()).is_err());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline]
    pub fn recv(&self) -> RecvFuture<'_, T> {
        RecvFuture {
            end: End::new(&self.ring),
        }
    }

    /// Receives one message. Blocks the calling thread until there is one. Use it on threads that
    /// do not run tasks.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] if the channel is closed and empty.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::bounded::channel(2);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(rx.recv_blocking(), Ok(1));
    /// ```
    pub fn recv_blocking(&self) -> Result<T, RecvError> {
        match self.try_recv() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Closed) => Err(RecvError),
            Err(TryRecvError::Empty) => blocking::wait(self.recv()),
        }
    }

    /// Closes the channel for all senders. Messages in the channel can still be received.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::bounded::channel(2);
    /// rx.close();
    /// assert!(tx.try_send(1).is_err());
    /// ```
    pub fn close(&self) {
        self.ring.close();
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.ring.senders.fetch_add(1, Ordering::Relaxed);
        Self {
            ring: self.ring.clone(),
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.ring.receivers.fetch_add(1, Ordering::Relaxed);
        Self {
            ring: self.ring.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.ring.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ring.close();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.ring.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut both = RunAll::default();
            both.run(|| self.ring.close());
            both.run(|| self.ring.clear());
            both.finish();
        }
    }
}

impl<T> std::fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender { .. }")
    }
}

impl<T> std::fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receiver { .. }")
    }
}

/// The future that [`Sender::send`] returns.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let (tx, rx) = creel::channel::bounded::channel(2);
/// tx.try_send(1).unwrap();
/// let send = tx.send(2);
/// assert_eq!(rx.try_recv(), Ok(1)); // makes room
/// pool.block_on(send).unwrap();
/// # Ok::<(), creel::BuildError>(())
/// ```
#[must_use = "futures do nothing unless awaited"]
pub struct SendFuture<'a, T> {
    end: End<'a, T, true>,
    message: Option<T>,
}

/// The future that [`Receiver::recv`] returns.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let (tx, rx) = creel::channel::bounded::channel(2);
/// let recv = rx.recv();
/// tx.try_send(1).unwrap();
/// assert_eq!(pool.block_on(recv), Ok(1));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[must_use = "futures do nothing unless awaited"]
pub struct RecvFuture<'a, T> {
    end: End<'a, T, false>,
}

impl<T> std::fmt::Debug for SendFuture<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendFuture").finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for RecvFuture<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecvFuture").finish_non_exhaustive()
    }
}

impl<T> Unpin for SendFuture<'_, T> {}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // We check this before we claim a place, because a claimed place must be filled.
        assert!(
            this.message.is_some(),
            "the future was polled after it was ready"
        );
        let claim = ready!(this.end.poll(cx));
        let message = this.message.take().expect("looked at above");
        let sent = match claim {
            Ok(claim) => {
                this.end.ring.put(claim, message);
                Ok(())
            }
            Err(RecvError) => Err(SendError(message)),
        };
        this.end.done();
        Poll::Ready(sent)
    }
}

impl<T> Future for RecvFuture<'_, T> {
    type Output = Result<T, RecvError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let claim = ready!(this.end.poll(cx));
        let received = claim.map(|claim| this.end.ring.take(claim));
        this.end.done();
        Poll::Ready(received)
    }
}

/// A side of a channel: its senders or its receivers. Each side waits for the other side.
#[derive(Clone, Copy)]
enum Side {
    Senders,
    Receivers,
}

/// The common part of the futures for sending and receiving.
struct End<'a, T, const SENDS: bool> {
    ring: &'a Ring<T>,
    /// The future's entry in the list of waiters. It is `None` if it has never waited.
    ticket: Option<Ticket>,
}

impl<'a, T, const SENDS: bool> End<'a, T, SENDS> {
    const SIDE: Side = if SENDS {
        Side::Senders
    } else {
        Side::Receivers
    };

    #[inline]
    fn new(ring: &'a Ring<T>) -> Self {
        Self { ring, ticket: None }
    }

    /// Claims a place, or waits until the other side makes a claim possible. When it is ready, the
    /// caller must call [`done`](Self::done).
    #[inline(always)]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Claim<'a, T>, RecvError>> {
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        let claim = match self.ring.claim::<SENDS>() {
            Ok(claim) => Ok(claim),
            Err(Refused::Closed) => Err(RecvError),
            Err(Refused::ForNow) => return budget::counted(self.wait(cx)),
        };
        budget::use_up(1);
        Poll::Ready(claim)
    }

    #[cold]
    #[inline(never)]
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<Claim<'a, T>, RecvError>> {
        let (list, word) = self.ring.waiting(Self::SIDE);
        list.add(&mut self.ticket, cx.waker(), || raise(word));
        if self.may_sleep() {
            return Poll::Pending;
        }
        match self.ring.claim::<SENDS>() {
            Ok(claim) => return Poll::Ready(Ok(claim)),
            Err(Refused::Closed) => return Poll::Ready(Err(RecvError)),
            Err(Refused::ForNow) => {}
        }
        if !self.may_sleep() {
            // The other side has claimed a place and has not published it yet. It may not have seen
            // our flag, so we poll again.
            crate::sync::spin_loop();
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Stops waiting, because the future is ready.
    #[inline(always)]
    fn done(&mut self) {
        if self.ticket.is_some() {
            self.pass_on();
        }
    }

    fn may_sleep(&self) -> bool {
        match Self::SIDE {
            Side::Senders => self.ring.is_full(),
            Side::Receivers => self.ring.is_empty(),
        }
    }

    /// Leaves the list. If this future was woken but did not use the wake-up, the wake-up passes to
    /// the next waiter, provided that there is still something to claim. For example, the future
    /// may have claimed a place before the wake-up arrived.
    #[cold]
    fn pass_on(&mut self) {
        if self.leave() && !self.may_sleep() {
            // We catch a panic of the waker, because the caller may be about to return a received
            // message, which the panic would lose.
            let next = self.ring.first_waiting(Self::SIDE);
            if let Some(waker) = next {
                waker.wake_quietly();
            }
        }
    }

    /// Leaves the list, if the future is in it. Returns whether the future had been woken.
    #[cold]
    fn leave(&mut self) -> bool {
        self.ticket.take().is_some_and(|ticket| {
            let (list, word) = self.ring.waiting(Self::SIDE);
            !list.remove(ticket, || lower(word))
        })
    }
}

impl<T, const SENDS: bool> Drop for End<'_, T, SENDS> {
    #[inline]
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.pass_on();
        }
    }
}
