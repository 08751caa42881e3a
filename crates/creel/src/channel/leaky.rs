//! A bounded channel, from one sender to one receiver, that may leak instead of holding its sender
//! back: what a live source needs, whose newest message is worth more than its oldest.
//!
//! A mutex guards it: all it is for is to be small (a message has a place of its own before there
//! is a queue), and to know what it has dropped. Under the lock no message is dropped and no waker
//! cloned, woken or dropped, because all of these may call back into the channel.
//!
//! Left out: several senders or receivers; that is the ring, which does not leak.

use super::{Closed, SendError, TryRecvError, TrySendError, blocking};
use crate::sync::{Mutex, lock};
use crate::worker::budget;
use crate::worker::{panics::RunAll, stored_waker::StoredWaker};
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What a full channel does with one more message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leak {
    /// The sender waits: back-pressure.
    #[default]
    No,
    /// The new one is dropped.
    New,
    /// The oldest one is dropped: what arrives is late by the channel's length at most.
    Old,
}

impl FromStr for Leak {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "no" => Ok(Leak::No),
            "new" => Ok(Leak::New),
            "old" => Ok(Leak::Old),
            _ => Err(format!("`{text}` is not one of no, new, old")),
        }
    }
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Leak::No => "no",
            Leak::New => "new",
            Leak::Old => "old",
        })
    }
}

#[derive(Debug)]
struct Inner<T> {
    /// The oldest message. It has a place of its own, so that a channel which is always emptied
    /// before the next message comes touches no other memory.
    first: Option<T>,
    /// The others; empty while there is no first.
    more: VecDeque<T>,
    /// Of both together.
    capacity: usize,
    leak: Leak,
    leaked: u64,
    closed: bool,
    sender: Option<StoredWaker>,
    receiver: Option<StoredWaker>,
}

/// The sending half. Dropping it closes the channel once it is empty.
#[derive(Debug)]
pub struct Sender<T>(Arc<Mutex<Inner<T>>>);

/// The receiving half. Dropping it drops what was sent and not received, and makes sends fail.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Mutex<Inner<T>>>);

/// A channel of at most `capacity` messages, whose memory is made here.
///
/// # Panics
///
/// If `capacity` is 0 or above 2³⁰.
///
/// ```
/// use creel::channel::leaky::{self, Leak};
///
/// let (mut tx, mut rx) = leaky::channel(2, Leak::Old);
/// for frame in 1..=5 {
///     tx.try_send(frame).unwrap();
/// }
/// assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(4), Ok(5)));
/// assert_eq!(rx.leaked(), 3);
/// ```
#[track_caller]
pub fn channel<T>(capacity: usize, leak: Leak) -> (Sender<T>, Receiver<T>) {
    assert!(
        (1..=1 << 30).contains(&capacity),
        "a channel's capacity is 1 to 2^30, not {capacity}"
    );
    let inner = Arc::new(Mutex::new(Inner {
        first: None,
        more: VecDeque::with_capacity(capacity - 1),
        capacity,
        leak,
        leaked: 0,
        closed: false,
        sender: None,
        receiver: None,
    }));
    (Sender(Arc::clone(&inner)), Receiver(inner))
}

/// Whether a place wakes the task that `cx` is of.
fn holds(place: &Option<StoredWaker>, cx: &Context<'_>) -> bool {
    place.as_ref().is_some_and(|it| it.will_wake(cx.waker()))
}

/// What became of a message.
enum Pushed {
    In,
    /// There is no place, and nothing leaks.
    Full,
    Closed,
}

impl<T> Inner<T> {
    fn pop(&mut self) -> Option<T> {
        let first = self.first.take()?;
        if !self.more.is_empty() {
            self.first = self.more.pop_front();
        }
        Some(first)
    }

    /// Whether nothing is left after the next [`pop`](Self::pop).
    fn is_left_empty(&self) -> bool {
        self.first.is_none() || self.more.is_empty()
    }

    fn is_full(&self) -> bool {
        self.first.is_some() && self.more.len() + 1 == self.capacity
    }

    /// Takes `message` if there is a place or one leaks; what leaks is put in its stead.
    #[inline]
    fn push(&mut self, message: &mut Option<T>) -> Pushed {
        if self.closed {
            return Pushed::Closed;
        }
        let mut leaks = None;
        if self.is_full() {
            match self.leak {
                Leak::No => return Pushed::Full,
                Leak::New => {
                    self.leaked += 1;
                    return Pushed::In;
                }
                Leak::Old => {
                    self.leaked += 1;
                    leaks = self.pop();
                }
            }
        }
        let message = std::mem::replace(message, leaks);
        if self.first.is_none() {
            self.first = message;
        } else {
            self.more.extend(message);
        }
        Pushed::In
    }
}

impl<T> Sender<T> {
    /// Sends one message; waits while the channel is full and does not leak. Cancelled, the message
    /// is dropped.
    ///
    /// # Errors
    ///
    /// The message back when the receiver is gone.
    pub fn send(&mut self, message: T) -> impl Future<Output = Result<(), SendError<T>>> {
        let mut message = Some(message);
        poll_fn(move |cx| self.poll_send(cx, &mut message))
    }

    /// Takes the message and sends it; leaves it there while the channel is full and does not leak,
    /// and `cx` is woken when there is a place. For futures written by hand.
    ///
    /// # Errors
    ///
    /// The message back when the receiver is gone.
    ///
    /// # Panics
    ///
    /// Without a message.
    #[inline]
    #[track_caller]
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut Option<T>,
    ) -> Poll<Result<(), SendError<T>>> {
        assert!(message.is_some(), "there is a message until it is sent");
        budget::poll(cx, |cx| {
            let mut fresh = None;
            loop {
                let mut inner = lock(&self.0);
                match inner.push(message) {
                    Pushed::In => {
                        let receiver = inner.receiver.take();
                        drop(inner);
                        let leaked = message.take();
                        if let Some(waker) = receiver {
                            waker.wake();
                        }
                        drop(leaked);
                        return Poll::Ready(Ok(()));
                    }
                    Pushed::Full if holds(&inner.sender, cx) => return Poll::Pending,
                    Pushed::Full if fresh.is_some() => {
                        std::mem::swap(&mut inner.sender, &mut fresh);
                        drop(inner);
                        return Poll::Pending;
                    }
                    Pushed::Full => {
                        drop(inner);
                        fresh = Some(StoredWaker::new(cx.waker()));
                    }
                    Pushed::Closed => {
                        drop(inner);
                        return Poll::Ready(
                            message.take().map_or(Ok(()), |back| Err(SendError(back))),
                        );
                    }
                }
            }
        })
    }

    /// Sends one message if there is a place or one leaks. Never waits.
    ///
    /// # Errors
    ///
    /// The message back: [`TrySendError::Full`], of a channel that does not leak, or
    /// [`TrySendError::Closed`] when the receiver is gone.
    pub fn try_send(&mut self, message: T) -> Result<(), TrySendError<T>> {
        let mut message = Some(message);
        let mut inner = lock(&self.0);
        let pushed = inner.push(&mut message);
        let receiver = match pushed {
            Pushed::In => inner.receiver.take(),
            Pushed::Full | Pushed::Closed => None,
        };
        drop(inner);
        if let Some(waker) = receiver {
            waker.wake();
        }
        match (pushed, message) {
            (Pushed::Full, Some(back)) => Err(TrySendError::Full(back)),
            (Pushed::Closed, Some(back)) => Err(TrySendError::Closed(back)),
            // What has leaked is dropped here.
            _ => Ok(()),
        }
    }

    /// Sends one message, blocking the calling thread while the channel is full and does not leak.
    ///
    /// # Errors
    ///
    /// The message back when the receiver is gone.
    pub fn send_blocking(&mut self, message: T) -> Result<(), SendError<T>> {
        blocking::wait(self.send(message))
    }
}

impl<T> Receiver<T> {
    /// How many messages have leaked.
    pub fn leaked(&self) -> u64 {
        lock(&self.0).leaked
    }

    /// Receives the oldest message. Cancelled, it has taken none.
    ///
    /// # Errors
    ///
    /// When the channel is empty and the sender gone.
    pub fn recv(&mut self) -> impl Future<Output = Result<T, Closed>> {
        poll_fn(|cx| self.poll_recv(cx))
    }

    /// The oldest message, once there is one; until then `cx` is woken when there is. For futures
    /// written by hand.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    #[inline]
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Closed>> {
        let received = self.poll_recv_or_wait(cx);
        received.map(|received| received.map(|(message, _)| message))
    }

    /// The same, and whether to ask again now: if not, the channel is empty and `cx` is woken when
    /// there is a message, as if that had been asked already. It saves taking the lock once more.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    #[inline]
    pub fn poll_recv_or_wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<(T, bool), Closed>> {
        budget::poll(cx, |cx| {
            let mut fresh = None;
            let mut inner = lock(&self.0);
            // A message is taken out only once the waker is here: its clone may panic.
            if inner.is_left_empty() && !inner.closed && !holds(&inner.receiver, cx) {
                drop(inner);
                fresh = Some(StoredWaker::new(cx.waker()));
                inner = lock(&self.0);
            }
            let message = inner.pop();
            let again = inner.first.is_some() || inner.closed;
            if !again && fresh.is_some() {
                std::mem::swap(&mut inner.receiver, &mut fresh);
            }
            let sender = message.is_some().then(|| inner.sender.take()).flatten();
            drop(inner);
            // A panic would cost this caller its message.
            if let Some(waker) = sender {
                waker.wake_quietly();
            }
            match message {
                Some(message) => Poll::Ready(Ok((message, again))),
                None if again => Poll::Ready(Err(Closed)),
                None => Poll::Pending,
            }
        })
    }

    /// Takes the oldest message if there is one. Never waits.
    ///
    /// # Errors
    ///
    /// [`TryRecvError::Empty`] while the sender lives, else [`TryRecvError::Closed`].
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let mut inner = lock(&self.0);
        let message = inner.pop();
        let closed = inner.closed;
        let sender = message.is_some().then(|| inner.sender.take()).flatten();
        drop(inner);
        // A panic would cost this caller its message.
        if let Some(waker) = sender {
            waker.wake_quietly();
        }
        message.ok_or(match closed {
            true => TryRecvError::Closed,
            false => TryRecvError::Empty,
        })
    }

    /// Receives the oldest message, blocking the calling thread until there is one.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    pub fn recv_blocking(&mut self) -> Result<T, Closed> {
        blocking::wait(self.recv())
    }

    /// Drops all messages.
    pub fn flush(&mut self) {
        let mut inner = lock(&self.0);
        let (first, more) = (inner.first.take(), inner.more.drain(..).collect::<Vec<_>>());
        let sender = inner.sender.take();
        drop(inner);
        let mut all = RunAll::default();
        all.run(|| drop((first, more)));
        all.wake(sender);
        all.finish();
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut inner = lock(&self.0);
        inner.closed = true;
        let receiver = inner.receiver.take();
        drop(inner);
        if let Some(waker) = receiver {
            waker.wake_in_drop();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut inner = lock(&self.0);
        inner.closed = true;
        let sender = inner.sender.take();
        let messages = (inner.first.take(), std::mem::take(&mut inner.more));
        drop(inner);
        let mut all = RunAll::default();
        all.run(|| drop(messages));
        all.wake(sender);
        all.finish();
    }
}
