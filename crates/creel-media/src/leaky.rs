//! A bounded channel from one sender to one receiver that can drop messages instead of making its
//! sender wait. Use it for a live source, whose newest message is worth more than its oldest one.
//! For example, a video player prefers the newest frame.
//!
//! A mutex protects the channel. It lets the channel drop its oldest message on the sender's side
//! and count the messages that it dropped. While we hold the lock, we never drop a message, and we
//! never clone, wake or drop a waker, because all of these may call back into the channel.
//!
//! We leave out several senders or receivers. Use [`creel::channel::bounded`], which does not drop
//! messages.

use crate::blocking;
use crate::in_budget;
use crate::wakers::{RunAll, StoredWaker, lock};
use creel::channel::{RecvError, SendError, TryRecvError, TrySendError};
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// The behaviour of a full channel when another message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Leak {
    /// The sender waits until there is room (backpressure).
    #[default]
    No,
    /// The channel drops the new message.
    New,
    /// The channel drops its oldest message. Therefore the receiver is never behind by more than
    /// the capacity of the channel.
    Old,
}

/// The error of parsing a text that names no [`Leak`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseLeakError {
    text: String,
}

impl fmt::Display for ParseLeakError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not one of no, new, old", self.text)
    }
}

impl std::error::Error for ParseLeakError {}

/// Parses `no`, `new` or `old`, which [`Display`](fmt::Display) prints as well.
impl FromStr for Leak {
    type Err = ParseLeakError;

    fn from_str(text: &str) -> Result<Self, ParseLeakError> {
        match text {
            "no" => Ok(Leak::No),
            "new" => Ok(Leak::New),
            "old" => Ok(Leak::Old),
            _ => Err(ParseLeakError { text: text.into() }),
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
    /// The oldest message. It has a place of its own, so that a channel that is always emptied
    /// before the next message arrives does not access any other memory.
    first: Option<T>,
    /// The other messages. The list is empty while `first` is empty.
    more: VecDeque<T>,
    /// The maximum number of messages in `first` and `more` together.
    capacity: usize,
    leak: Leak,
    leaked: u64,
    closed: bool,
    sender: Option<StoredWaker>,
    receiver: Option<StoredWaker>,
}

/// The sending half. Dropping it closes the channel. The receiver can still receive the messages in
/// it.
#[derive(Debug)]
pub struct Sender<T>(Arc<Mutex<Inner<T>>>);

/// The receiving half. Dropping it closes the channel, so that sending fails, and drops the
/// messages that were not received.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Mutex<Inner<T>>>);

/// Creates a channel that holds up to `capacity` messages. `leak` says what the channel does with a
/// message when it is full. All memory that sending and receiving need is allocated here.
///
/// # Panics
///
/// Panics if `capacity` is 0 or greater than 2³⁰.
///
/// ```
/// use creel_media::leaky::{self, Leak};
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
        "the capacity of a channel must be 1 to 2^30, not {capacity}"
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

/// Returns whether `place` holds a waker that wakes the task of `cx`.
fn holds(place: &Option<StoredWaker>, cx: &Context<'_>) -> bool {
    place.as_ref().is_some_and(|it| it.will_wake(cx.waker()))
}

/// The result of trying to add a message.
enum Pushed {
    In,
    /// The channel is full and does not drop messages.
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

    /// Returns whether the channel will be empty after the next [`pop`](Self::pop).
    fn is_left_empty(&self) -> bool {
        self.first.is_none() || self.more.is_empty()
    }

    fn is_full(&self) -> bool {
        self.first.is_some() && self.more.len() + 1 == self.capacity
    }

    /// Adds `message` if there is room or if the channel drops a message. A dropped message is left
    /// in `message`, so that the caller can drop it without the lock.
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
    /// Sends one message. Waits while the channel is full, unless it drops messages.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future before it is ready, the message is not sent, and it is dropped as
    /// well.
    ///
    /// # Errors
    ///
    /// Returns the message if the receiver has been dropped.
    pub fn send(&mut self, message: T) -> impl Future<Output = Result<(), SendError<T>>> {
        let mut message = Some(message);
        poll_fn(move |cx| self.poll_send(cx, &mut message))
    }

    /// Takes the message out of `message` and sends it, for futures written by hand. While the
    /// channel is full and does not drop messages, the message stays in `message`, and the task of
    /// `cx` is woken when there is room.
    ///
    /// # Errors
    ///
    /// Returns the message if the receiver has been dropped.
    ///
    /// # Panics
    ///
    /// Panics if `message` is `None`.
    #[inline]
    #[track_caller]
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut Option<T>,
    ) -> Poll<Result<(), SendError<T>>> {
        assert!(message.is_some(), "there is a message until it is sent");
        in_budget(cx, |cx| {
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

    /// Sends one message if there is room or if the channel drops messages. Never waits.
    ///
    /// # Errors
    ///
    /// Returns the message in [`TrySendError::Full`] if the channel is full and does not drop
    /// messages, or in [`TrySendError::Closed`] if the receiver has been dropped.
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
            // If the channel has dropped a message, it is in `message` now. It is freed here,
            // without the lock, because its drop is code of the program.
            _ => Ok(()),
        }
    }

    /// Sends one message. Blocks the calling thread while the channel is full, unless it drops
    /// messages. Use it on threads that do not run tasks.
    ///
    /// # Errors
    ///
    /// Returns the message if the receiver has been dropped.
    pub fn send_blocking(&mut self, message: T) -> Result<(), SendError<T>> {
        blocking::wait(self.send(message))
    }
}

impl<T> Receiver<T> {
    /// Returns the number of messages that the channel has dropped because it was full.
    pub fn leaked(&self) -> u64 {
        lock(&self.0).leaked
    }

    /// Receives the oldest message. Waits until there is one.
    ///
    /// # Cancel safety
    ///
    /// Safe. If you drop the future before it is ready, it has not taken a message.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] if the channel is empty and the sender has been dropped.
    pub fn recv(&mut self) -> impl Future<Output = Result<T, RecvError>> {
        poll_fn(|cx| self.poll_recv(cx))
    }

    /// Returns the oldest message if there is one, for futures written by hand. Otherwise the task
    /// of `cx` is woken when a message arrives.
    ///
    /// # Errors
    ///
    /// Returns the same error as [`recv`](Self::recv).
    #[inline]
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
        let received = self.poll_recv_or_wait(cx);
        received.map(|received| received.map(|(message, _)| message))
    }

    /// Returns the oldest message like [`poll_recv`](Self::poll_recv), and whether you should poll
    /// again now. If not, the channel is empty and the task of `cx` is already registered to be
    /// woken when a message arrives. This saves taking the lock a second time.
    ///
    /// # Errors
    ///
    /// Returns the same error as [`recv`](Self::recv).
    #[inline]
    pub fn poll_recv_or_wait(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(T, bool), RecvError>> {
        in_budget(cx, |cx| {
            let mut fresh = None;
            let mut inner = lock(&self.0);
            // We clone the waker before we take a message, because the clone may panic, and the
            // message would then be lost.
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
            // We wake the sender without letting a panic of its waker through, because the panic
            // would cost our caller its message.
            if let Some(waker) = sender {
                waker.wake_quietly();
            }
            match message {
                Some(message) => Poll::Ready(Ok((message, again))),
                None if again => Poll::Ready(Err(RecvError)),
                None => Poll::Pending,
            }
        })
    }

    /// Takes the oldest message if there is one. Never waits.
    ///
    /// # Errors
    ///
    /// Returns [`TryRecvError::Empty`] if the channel is empty, or [`TryRecvError::Closed`] if the
    /// sender has been dropped as well.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let mut inner = lock(&self.0);
        let message = inner.pop();
        let closed = inner.closed;
        let sender = message.is_some().then(|| inner.sender.take()).flatten();
        drop(inner);
        // We wake the sender without letting a panic of its waker through, because the panic would
        // cost our caller its message.
        if let Some(waker) = sender {
            waker.wake_quietly();
        }
        message.ok_or(match closed {
            true => TryRecvError::Closed,
            false => TryRecvError::Empty,
        })
    }

    /// Receives the oldest message. Blocks the calling thread until there is one. Use it on threads
    /// that do not run tasks.
    ///
    /// # Errors
    ///
    /// Returns the same error as [`recv`](Self::recv).
    pub fn recv_blocking(&mut self) -> Result<T, RecvError> {
        blocking::wait(self.recv())
    }

    /// Drops all messages in the channel.
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
        let mut all = RunAll::default();
        all.wake(receiver);
        all.finish();
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
