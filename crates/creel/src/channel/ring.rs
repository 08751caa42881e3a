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
use super::{Closed, TryRecvError, TrySendError, blocking};
use crate::sync::{AtomicU64, AtomicUsize, Ordering, UnsafeCell};
use crossbeam_utils::CachePadded;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

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

struct Ring<T> {
    /// The next position to write, and flags. Exchanged with acquire and release, so that the
    /// flag's setter and the claims are in one order.
    tail: CachePadded<AtomicU64>,
    /// The next position to read, and a flag; as `tail`.
    head: CachePadded<AtomicU64>,
    places: Box<[Place<T>]>,
    /// What a lap adds to a position: a power of two above every index.
    lap: u64,
    receivers_waiting: Waiters,
    senders_waiting: Waiters,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

// SAFETY: a message is touched only by the one thread whose claim matches its stamp.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

/// Makes a channel of `capacity` places.
///
/// # Panics
///
/// If `capacity` is 0 or above 2³⁰.
///
/// ```
/// let (tx, rx) = creel::channel::ring::channel(2);
/// tx.try_send('a').unwrap();
/// tx.try_send('b').unwrap();
/// assert!(tx.try_send('c').is_err());
/// assert_eq!(rx.try_recv(), Ok('a'));
/// ```
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
        lap,
        receivers_waiting: Waiters::new(),
        senders_waiting: Waiters::new(),
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
    });
    (Sender { ring: ring.clone() }, Receiver { ring })
}

impl<T> Ring<T> {
    /// The index of the place that a word's position is at.
    #[inline(always)]
    fn index(&self, word: u64) -> usize {
        ((word & (self.lap - 1)) / STEP) as usize
    }

    /// The word one position on, its flags kept: the next index, or the next lap's first.
    #[inline(always)]
    fn after(&self, word: u64, index: usize) -> u64 {
        if index + 1 < self.places.len() {
            word + STEP
        } else {
            self.next_lap(word)
        }
    }

    #[cold]
    fn next_lap(&self, word: u64) -> u64 {
        let flags = word & FLAGS;
        (word & !(self.lap - 1)).wrapping_add(self.lap) | flags
    }

    #[inline]
    fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            if tail & CLOSED != 0 {
                return Err(TrySendError::Closed(message));
            }
            let position = tail & !FLAGS;
            let index = self.index(tail);
            let place = &self.places[index];
            let stamp = place.stamp.load(Ordering::Acquire);
            if stamp == position {
                match claim(&self.tail, tail, self.after(tail, index)) {
                    Ok(()) => {
                        place.message.with_mut(|place| {
                            // SAFETY: the claim matches the stamp, so the place is ours, empty.
                            let place = unsafe { &mut *place };
                            place.write(message);
                        });
                        // One above a position, which is never a position: "to read".
                        place.stamp.store(position + 1, Ordering::Release);
                        if tail & WAITING != 0 {
                            self.wake(Side::Receivers);
                        }
                        return Ok(());
                    }
                    Err(seen) => tail = seen,
                }
            } else {
                // Not ours: full, or `tail` is old. Full only if the reader of the lap before
                // has not come by.
                let seen = self.tail.load(Ordering::Acquire);
                if seen == tail && stamp.wrapping_add(self.lap) == position + 1 {
                    return Err(TrySendError::Full(message));
                }
                tail = seen;
                crate::sync::spin_loop();
            }
        }
    }

    #[inline]
    fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let position = head & !FLAGS;
            let index = self.index(head);
            let place = &self.places[index];
            let stamp = place.stamp.load(Ordering::Acquire);
            if stamp == position + 1 {
                match claim(&self.head, head, self.after(head, index)) {
                    Ok(()) => {
                        let message = place.message.with_mut(|place| {
                            // SAFETY: the claim matches the stamp, so the place is ours.
                            let place = unsafe { &mut *place };
                            // SAFETY: the stamp says that it was written, and nobody reads again.
                            unsafe { place.assume_init_read() }
                        });
                        let free = position.wrapping_add(self.lap);
                        place.stamp.store(free, Ordering::Release);
                        if head & WAITING != 0 {
                            self.wake(Side::Senders);
                        }
                        return Ok(message);
                    }
                    Err(seen) => head = seen,
                }
            } else {
                let seen = self.head.load(Ordering::Acquire);
                if seen == head && stamp == position {
                    return Err(self.empty(position));
                }
                head = seen;
                crate::sync::spin_loop();
            }
        }
    }

    /// Nothing is published at `position`: empty for now, or for ever?
    fn empty(&self, position: u64) -> TryRecvError {
        let tail = self.tail.load(Ordering::Acquire);
        if tail & CLOSED != 0 && tail & !FLAGS == position {
            TryRecvError::Closed
        } else {
            TryRecvError::Empty
        }
    }

    /// Those of a side who wait, and the word with their flag.
    fn waiting(&self, side: Side) -> (&Waiters, &AtomicU64) {
        match side {
            Side::Senders => (&self.senders_waiting, &self.head),
            Side::Receivers => (&self.receivers_waiting, &self.tail),
        }
    }

    #[cold]
    fn wake(&self, side: Side) {
        let (list, word) = self.waiting(side);
        list.wake_one(|| lower(word));
    }

    /// Refuses further messages and wakes everybody to see it.
    fn close(&self) {
        if self.tail.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED == 0 {
            for side in [Side::Receivers, Side::Senders] {
                let (list, word) = self.waiting(side);
                list.wake_all(|| lower(word));
            }
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
        tail & CLOSED == 0 && (head & !FLAGS).wrapping_add(self.lap) == tail & !FLAGS
    }
}

/// Moves `head` or `tail` one position on.
#[inline(always)]
fn claim(word: &AtomicU64, seen: u64, next: u64) -> Result<(), u64> {
    word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed)
        .map(drop)
}

fn lower(word: &AtomicU64) {
    word.fetch_and(!WAITING, Ordering::AcqRel);
}

fn raise(word: &AtomicU64) {
    word.fetch_or(WAITING, Ordering::AcqRel);
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while self.try_recv().is_ok() {}
    }
}

/// A sending half; clones send to the same ring. The last one's drop closes it.
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
}

/// A receiving half; clones share the messages, each goes to one. The last one's drop closes
/// the ring and drops what is in it.
pub struct Receiver<T> {
    ring: Arc<Ring<T>>,
}

impl<T> Sender<T> {
    /// Puts the message in the ring if there is a place. Never waits.
    ///
    /// # Errors
    ///
    /// The message back: [`TrySendError::Full`], or [`TrySendError::Closed`].
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
    pub fn send_blocking(&self, message: T) -> Result<(), T> {
        match self.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(message)) => Err(message),
            Err(TrySendError::Full(message)) => blocking::wait(self.send(message)),
        }
    }

    /// Refuses further messages from every sender; what is in the ring can still be received.
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
    pub fn recv_blocking(&self) -> Result<T, Closed> {
        match self.try_recv() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Closed) => Err(Closed),
            Err(TryRecvError::Empty) => blocking::wait(self.recv()),
        }
    }

    /// Refuses further messages from every sender; what is in the ring can still be received.
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
            self.ring.close();
            while self.ring.try_recv().is_ok() {}
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
#[must_use = "futures do nothing unless awaited"]
pub struct SendFuture<'a, T> {
    end: End<'a, T, true>,
    message: Option<T>,
}

/// The future of [`Receiver::recv`].
#[must_use = "futures do nothing unless awaited"]
pub struct RecvFuture<'a, T> {
    end: End<'a, T, false>,
}

impl<T> Unpin for SendFuture<'_, T> {}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let message = &mut this.message;
        this.end.poll(cx, |ring| {
            let sent = ring.try_send(message.take().expect("polled after it was ready"));
            match sent {
                Ok(()) => Some(Ok(())),
                Err(TrySendError::Closed(message)) => Some(Err(message)),
                Err(TrySendError::Full(back)) => {
                    *message = Some(back);
                    None
                }
            }
        })
    }
}

impl<T> Future for RecvFuture<'_, T> {
    type Output = Result<T, Closed>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.end.poll(cx, |ring| match ring.try_recv() {
            Ok(message) => Some(Ok(message)),
            Err(TryRecvError::Closed) => Some(Err(Closed)),
            Err(TryRecvError::Empty) => None,
        })
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

    /// Gives what `attempt` gives, or waits for the other side to make it worth another one.
    #[inline]
    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&Ring<T>) -> Option<R>,
    ) -> Poll<R> {
        match attempt(self.ring) {
            Some(result) => {
                if self.ticket.is_some() {
                    self.leave();
                }
                Poll::Ready(result)
            }
            None => self.wait(cx, attempt),
        }
    }

    #[cold]
    fn wait<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&Ring<T>) -> Option<R>,
    ) -> Poll<R> {
        let (list, word) = self.ring.waiting(Self::SIDE);
        list.add(&mut self.ticket, cx.waker(), || raise(word));
        if self.may_sleep() {
            return Poll::Pending;
        }
        if let Some(result) = attempt(self.ring) {
            self.leave();
            return Poll::Ready(result);
        }
        if !self.may_sleep() {
            // The other side has claimed a place and not left it: it may not have seen the flag.
            crate::sync::spin_loop();
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn may_sleep(&self) -> bool {
        match Self::SIDE {
            Side::Senders => self.ring.is_full(),
            Side::Receivers => self.ring.is_empty(),
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
        if self.ticket.is_some() && self.leave() && !self.may_sleep() {
            self.ring.wake(Self::SIDE);
        }
    }
}
