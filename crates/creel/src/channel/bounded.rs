//! A bounded channel from many senders to many receivers: a ring of stamped places.
//!
//! After Vyukov's bounded queue: a place's stamp tells which lap may write or read it next, a
//! sender claims a place by moving `tail`, a receiver by moving `head`, and publishes with the
//! stamp. What is added is the waiting. A flag in `tail` says that receivers wait, one in `head`
//! that senders do; who moves the word sees the flag in the same exchange, so the fast path has
//! no fence and no second look. Why no wake-up is lost:
//!
//! - A receiver that finds nothing joins the list, sets the flag, and looks again. A sender whose
//!   claim comes after the flag sees it and wakes. A sender whose claim came before is seen by
//!   the second look, as a message or as a claim not yet published; in the latter case the
//!   receiver does not sleep but comes back.
//! - A wake that finds its receiver gone or served passes to the next.
//!
//! Left out: unbounded capacity, and selecting over several rings (use futures for that).

use super::waiters::{Ticket, Waiters};
use super::{Closed, SendError, TryRecvError, TrySendError, blocking};
use crate::sync::{AtomicU64, AtomicUsize, Ordering, UnsafeCell};
use crate::worker::budget;
use crate::worker::{panics::RunAll, stored_waker::StoredWaker};
use crossbeam_utils::CachePadded;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// In `tail`: receivers wait. In `head`: senders wait.
const WAITING: u64 = 1;
/// In `tail` only: no sender claims a place any more.
const CLOSED: u64 = 2;
/// One position; a position is a lap and an index below it.
const STEP: u64 = 4;
const FLAGS: u64 = STEP - 1;

struct Place<T> {
    /// The position that may be written here, or, one above, the one that may be read.
    ///
    /// Stored with release after the message is moved in or out, loaded with acquire before.
    stamp: AtomicU64,
    /// Belongs to the one whose claim matches the stamp.
    message: UnsafeCell<MaybeUninit<T>>,
}

/// Why nothing was claimed.
#[derive(Clone, Copy)]
enum Refused {
    /// No place is free, or nothing is there to read.
    ForNow,
    Closed,
}

/// A place that is the claimer's.
struct Claim<'a, T> {
    place: &'a Place<T>,
    /// The word as it was.
    word: u64,
}

struct Ring<T> {
    /// The next position to write, and flags. Exchanged with acquire and release, so that the
    /// flag's setter and the claims are in one order.
    tail: CachePadded<AtomicU64>,
    /// The next position to read, and a flag; as `tail`.
    head: CachePadded<AtomicU64>,
    places: Box<[Place<T>]>,
    /// The bits of a word below the lap.
    mask: u64,
    receivers_waiting: Waiters,
    senders_waiting: Waiters,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

// SAFETY: a message is touched only by the one thread whose claim matches its stamp.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: a place's message is touched by the one thread whose claim matches its stamp, also
// through a shared ring; so threads get messages of different places, which `T: Send` allows.
unsafe impl<T: Send> Sync for Ring<T> {}

/// Makes a channel of `capacity` places.
///
/// # Panics
///
/// If `capacity` is 0 or above 2³⁰.
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
        "a channel's capacity is 1 to 2^30, not {capacity}"
    );
    // Twice the capacity's power: with one place, "written" and "free in the next lap" differ.
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
    /// The place that a word's position is at, and whether it is not the last of its lap.
    #[inline(always)]
    fn place(&self, word: u64) -> (&Place<T>, bool) {
        let index = ((word & self.mask) / STEP) as usize;
        (&self.places[index], index + 1 < self.places.len())
    }

    /// Claims a place: for a message if `SENDS`, else with one.
    #[inline(always)]
    fn claim<const SENDS: bool>(&self) -> Result<Claim<'_, T>, Refused> {
        let end = self.end::<SENDS>();
        let mut word = end.load(Ordering::Relaxed);
        let (place, more) = self.place(word);
        let stamp = place.stamp.load(Ordering::Acquire);
        // What is almost always so, and no more, since this is inlined where it is awaited.
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
                // Not ours: the other side has not come by, or the word is old.
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

    /// Whether nothing is published at this word of `head`, nor will be.
    fn is_at_end(&self, head: u64) -> bool {
        let tail = self.tail.load(Ordering::Acquire);
        tail & CLOSED != 0 && (tail ^ head) & !FLAGS == 0
    }

    /// Puts a message in the place claimed.
    #[inline(always)]
    fn put(&self, claim: Claim<'_, T>, message: T) {
        claim.place.message.with_mut(|place| {
            // SAFETY: the claim matches the stamp, so the place is ours, empty.
            let place = unsafe { &mut *place };
            place.write(message);
        });
        // One above a position, which is never a position: "to read".
        let position = claim.word & !FLAGS;
        claim.place.stamp.store(position + 1, Ordering::Release);
        if claim.word & WAITING != 0
            && let Some(waker) = self.first_waiting(Side::Receivers)
        {
            waker.wake();
        }
    }

    /// Takes the message out of the place claimed.
    #[inline(always)]
    fn take(&self, claim: Claim<'_, T>) -> T {
        let message = claim.place.message.with_mut(|place| {
            // SAFETY: the claim matches the stamp, so the place is ours.
            let place = unsafe { &mut *place };
            // SAFETY: the stamp says that it was written, and nobody reads again.
            unsafe { place.assume_init_read() }
        });
        let free = (claim.word & !FLAGS).wrapping_add(self.mask + 1);
        claim.place.stamp.store(free, Ordering::Release);
        if claim.word & WAITING != 0 {
            // A panic would cost this caller its message.
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

    /// The word that one side moves.
    #[inline(always)]
    fn end<const SENDS: bool>(&self) -> &AtomicU64 {
        if SENDS { &self.tail } else { &self.head }
    }

    /// Those of a side who wait, and the word with their flag.
    fn waiting(&self, side: Side) -> (&Waiters, &AtomicU64) {
        match side {
            Side::Senders => (&self.senders_waiting, &self.head),
            Side::Receivers => (&self.receivers_waiting, &self.tail),
        }
    }

    /// Takes out the first of a side who wait.
    #[cold]
    fn first_waiting(&self, side: Side) -> Option<StoredWaker> {
        let (list, word) = self.waiting(side);
        list.pop(|| lower(word))
    }

    /// Refuses further messages and wakes everybody to see it.
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

    /// Whether a receiver that waits may sleep: no message, and no claim under way.
    fn is_empty(&self) -> bool {
        let tail = self.tail.load(Ordering::Acquire);
        let head = self.head.load(Ordering::Acquire);
        tail & CLOSED == 0 && (tail ^ head) & !FLAGS == 0
    }

    /// Whether a sender that waits may sleep: every place is taken, and no one is leaving.
    fn is_full(&self) -> bool {
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Acquire);
        tail & CLOSED == 0 && (head & !FLAGS).wrapping_add(self.mask + 1) == tail & !FLAGS
    }
}

/// The stamp that lets a side claim the place at its word; none does if the word is closed.
#[inline(always)]
fn awaited<const SENDS: bool>(word: u64) -> u64 {
    (word & !WAITING) + u64::from(!SENDS)
}

/// Moves `head` or `tail` on.
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
    /// Drops all messages that are there; then throws what the first of them threw.
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

/// A sending half; clones send to the same ring. The last one's drop closes it.
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

/// A receiving half; clones share the messages, each goes to one. The last one's drop closes
/// the ring and drops what is in it, all of it, also where a message's drop panics; then it throws
/// the first of these panics.
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
    /// Puts the message in the ring if there is a place. Never waits.
    ///
    /// # Errors
    ///
    /// The message back: [`TrySendError::Full`], or [`TrySendError::Closed`].
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

    /// Sends one message, waiting while the ring is full.
    ///
    /// Cancelling (dropping the future) before it is ready drops the message, which was not sent.
    ///
    /// # Errors
    ///
    /// The future gives the message back when the ring is closed.
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

    /// Sends one message, blocking the calling thread while the ring is full.
    ///
    /// # Errors
    ///
    /// The message back when the ring is closed.
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

    /// Refuses further messages from every sender; what is in the ring can still be received.
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
    /// [`TryRecvError::Empty`], or [`TryRecvError::Closed`] when the ring is closed and empty.
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

    /// Receives one message, waiting for it.
    ///
    /// Cancel-safe: a future dropped before it is ready has taken nothing, and a wake it was
    /// given passes to the next receiver.
    ///
    /// # Errors
    ///
    /// The future gives [`Closed`] when the ring is closed and empty.
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

    /// Receives one message, blocking the calling thread until it is there.
    ///
    /// # Errors
    ///
    /// [`Closed`] when the ring is closed and empty.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::bounded::channel(2);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(rx.recv_blocking(), Ok(1));
    /// ```
    pub fn recv_blocking(&self) -> Result<T, Closed> {
        match self.try_recv() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Closed) => Err(Closed),
            Err(TryRecvError::Empty) => blocking::wait(self.recv()),
        }
    }

    /// Refuses further messages from every sender; what is in the ring can still be received.
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

/// The future of [`Sender::send`].
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

/// The future of [`Receiver::recv`].
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

impl<T> Unpin for SendFuture<'_, T> {}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // Before the claim, which binds.
        assert!(this.message.is_some(), "polled after it was ready");
        let claim = ready!(this.end.poll(cx));
        let message = this.message.take().expect("looked at above");
        let sent = match claim {
            Ok(claim) => {
                this.end.ring.put(claim, message);
                Ok(())
            }
            Err(Closed) => Err(SendError(message)),
        };
        this.end.done();
        Poll::Ready(sent)
    }
}

impl<T> Future for RecvFuture<'_, T> {
    type Output = Result<T, Closed>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let claim = ready!(this.end.poll(cx));
        let received = claim.map(|claim| this.end.ring.take(claim));
        this.end.done();
        Poll::Ready(received)
    }
}

/// Which end of the ring waits.
#[derive(Clone, Copy)]
enum Side {
    Senders,
    Receivers,
}

/// A future's end of the ring: what sending and receiving have in common.
struct End<'a, T, const SENDS: bool> {
    ring: &'a Ring<T>,
    /// Once it waited.
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

    /// A claim, or waits for the other side to make it possible. Once ready, [`done`](Self::done)
    /// follows.
    #[inline(always)]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Claim<'a, T>, Closed>> {
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        let claim = match self.ring.claim::<SENDS>() {
            Ok(claim) => Ok(claim),
            Err(Refused::Closed) => Err(Closed),
            Err(Refused::ForNow) => return budget::counted(self.wait(cx)),
        };
        budget::use_up(1);
        Poll::Ready(claim)
    }

    #[cold]
    #[inline(never)]
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<Claim<'a, T>, Closed>> {
        let (list, word) = self.ring.waiting(Self::SIDE);
        list.add(&mut self.ticket, cx.waker(), || raise(word));
        if self.may_sleep() {
            return Poll::Pending;
        }
        match self.ring.claim::<SENDS>() {
            Ok(claim) => return Poll::Ready(Ok(claim)),
            Err(Refused::Closed) => return Poll::Ready(Err(Closed)),
            Err(Refused::ForNow) => {}
        }
        if !self.may_sleep() {
            // The other side has claimed a place and not left it: it may not have seen the flag.
            crate::sync::spin_loop();
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Waits no longer.
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

    /// Leaves the list. A wake that was meant for this end goes to the next, if there is still
    /// what it was for: this end may have helped itself before it came.
    #[cold]
    fn pass_on(&mut self) {
        if self.leave() && !self.may_sleep() {
            // A received message may be on its way to the caller.
            let next = self.ring.first_waiting(Self::SIDE);
            if let Some(waker) = next {
                waker.wake_quietly();
            }
        }
    }

    /// Leaves the list, if on it; true if a wake was meant for this end.
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
