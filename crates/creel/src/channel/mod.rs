//! Bounded channels between tasks, and between tasks and plain threads.
//!
//! | | senders | receivers | places |
//! |---|---|---|---|
//! | [`oneshot`] | one | one | one message, ever |
//! | [`spsc`] | one | one | one at a time |
//! | [`bounded`] | many | many | as many as asked for |
//! | [`leaky`] | one | one | the same; full, it may drop the oldest or the newest |
//!
//! They know no executor: everything goes through [`std::task::Waker`]. A message allocates
//! nothing. Each has a waiting side for tasks, a `try_` side that never waits, and a `_blocking`
//! side for plain threads; a receive that is cancelled has taken nothing.
//!
//! Left out on purpose: unbounded channels, since a queue without a bound hides the slow side.

pub mod bounded;
pub mod leaky;
pub mod oneshot;
pub mod spsc;

mod blocking;
mod memory;
mod waiters;
mod waker_cell;

/// The channel is closed and empty: nothing will arrive any more.
///
/// ```
/// use creel::channel::{Closed, oneshot};
///
/// let (tx, rx) = oneshot::channel::<u32>();
/// drop(tx);
/// assert_eq!(rx.recv_blocking(), Err(Closed));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the channel is closed")
    }
}

impl std::error::Error for Closed {}

/// Why nothing was received.
///
/// ```
/// use creel::channel::{TryRecvError, spsc};
///
/// let (tx, mut rx) = spsc::channel::<u32>();
/// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
/// drop(tx);
/// assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryRecvError {
    /// Nothing is there now; the other side may still send.
    Empty,
    /// Nothing is there and nothing will be.
    Closed,
}

impl std::fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Empty => "the channel is empty",
            Self::Closed => "the channel is closed",
        })
    }
}

impl std::error::Error for TryRecvError {}

/// The message that could not be sent, because the receiver is gone.
///
/// ```
/// use creel::channel::{SendError, oneshot};
///
/// let (tx, rx) = oneshot::channel();
/// drop(rx);
/// assert_eq!(tx.send(7), Err(SendError(7)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> SendError<T> {
    /// Returns the message that was not sent.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::oneshot::channel();
    /// drop(rx);
    /// assert_eq!(tx.send("back").unwrap_err().into_inner(), "back");
    /// ```
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> std::fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> std::fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the channel is closed")
    }
}

impl<T> std::error::Error for SendError<T> {}

/// Why a message was not sent, with the message.
///
/// ```
/// use creel::channel::{TrySendError, bounded};
///
/// let (tx, rx) = bounded::channel(1);
/// tx.try_send(1).unwrap();
/// assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
/// drop(rx);
/// assert_eq!(tx.try_send(3), Err(TrySendError::Closed(3)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// Every place is taken.
    Full(T),
    /// Nobody will receive it.
    Closed(T),
}

impl<T> TrySendError<T> {
    /// The message that was not sent.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::bounded::channel(1);
    /// drop(rx);
    /// assert_eq!(tx.try_send("back").unwrap_err().into_inner(), "back");
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(message) | Self::Closed(message) => message,
        }
    }
}

impl<T> std::fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> std::fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the channel is full",
            Self::Closed(_) => "the channel is closed",
        })
    }
}

impl<T> std::error::Error for TrySendError<T> {}

#[cfg(all(test, loom))]
mod model;
