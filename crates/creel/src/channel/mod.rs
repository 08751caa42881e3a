//! Bounded channels between tasks, and between tasks and plain threads.
//!
//! | | senders | receivers | capacity | methods take |
//! |---|---|---|---|---|
//! | [`oneshot`] | one | one | one message in total | `self`, or `&mut self` to try |
//! | [`spsc`] | one | one | one message at a time | `&mut self` |
//! | [`bounded`] | many | many | as many messages as you choose | `&self` |
//!
//! Each module has a `Sender` and a `Receiver`, as in the standard library. How their methods take
//! `self` follows from the number of ends. An end that you can clone takes `&self`, because several
//! tasks may use it at the same time. An end that is the only one takes `&mut self`, so that the
//! compiler ensures that only one task uses it. The channel then needs neither a lock nor a list of
//! waiting tasks. If several tasks must share such an end, use [`bounded`].
//!
//! The channels work with any executor, because they only use [`std::task::Waker`]. Sending a
//! message does not allocate memory. However, a [`bounded`] channel extends its list of waiting
//! tasks if more tasks wait than ever before. The channels have `async` methods for tasks, `try_`
//! methods that never wait, and `_blocking` methods for plain threads. For example, a task can call
//! `send` while a plain thread calls `recv_blocking`. Sending to a [`oneshot`] channel never waits.
//! Receiving is cancel safe. If you drop the future before it is ready, it has not taken a message.
//!
//! With the feature `stream`, the ends of an [`spsc`] channel are a stream and a sink, and you can
//! turn those of a [`bounded`] channel into a stream and a sink.
//!
//! # Other channels and locks
//!
//! We leave out everything that other crates do well without a runtime. We test that the crates in
//! this table work on a pool. The types of tokio need only its feature `sync`, and no runtime.
//!
//! | you need | use |
//! |---|---|
//! | an unbounded channel | `async_channel::unbounded`, or `tokio::sync::mpsc::unbounded_channel`. Note that a queue without a bound hides a receiver that is too slow |
//! | a channel that drops messages when it is full | `creel_media::leaky` |
//! | each message for every receiver (broadcast) | `tokio::sync::broadcast`, which drops old messages, or `async_broadcast`, which lets the sender wait |
//! | the latest value (watch) | `tokio::sync::watch` |
//! | to notify tasks without a message | `tokio::sync::Notify`, or `event_listener::Event` |
//! | a limit of tasks at the same time (semaphore) | `tokio::sync::Semaphore` or `async_lock::Semaphore` |
//! | a lock that is held across an `.await` | the `Mutex` and `RwLock` of `async_lock` or `tokio::sync`. For a short lock without an `.await`, use the one of the standard library |
//! | a barrier, or a value that is initialized once | the `Barrier` and `OnceCell` of `async_lock` or `tokio::sync` |
//!
//! For example, the tasks of this pool wait for a setting, and at most two of them work at a time:
//!
//! ```
//! use std::sync::Arc;
//! use tokio::sync::{Semaphore, mpsc, watch};
//!
//! let pool = creel::Pool::builder().workers(4).build()?;
//! let (set, setting) = watch::channel(0);
//! let (send, mut results) = mpsc::unbounded_channel();
//! let permits = Arc::new(Semaphore::new(2));
//! for number in 1..=10 {
//!     let (mut setting, send, permits) = (setting.clone(), send.clone(), permits.clone());
//!     let task = pool.spawn(async move {
//!         let factor = *setting.wait_for(|factor| *factor > 0).await.unwrap();
//!         let _permit = permits.acquire().await.unwrap();
//!         send.send(factor * number).unwrap();
//!     });
//!     task.detach();
//! }
//! drop(send);
//! set.send(3).unwrap();
//! let sum = pool.block_on(async {
//!     let mut sum = 0;
//!     while let Some(result) = results.recv().await {
//!         sum += result;
//!     }
//!     sum
//! });
//! assert_eq!(sum, 165);
//! # Ok::<(), creel::BuildError>(())
//! ```

pub mod bounded;
pub mod oneshot;
pub mod spsc;

mod blocking;
mod memory;
mod waiters;
mod waker_cell;

/// The error of receiving from a channel that is closed and empty. No message will arrive any more.
///
/// ```
/// use creel::channel::{RecvError, oneshot};
///
/// let (tx, rx) = oneshot::channel::<u32>();
/// drop(tx);
/// assert_eq!(rx.recv_blocking(), Err(RecvError));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvError;

impl std::fmt::Display for RecvError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the channel is closed")
    }
}

impl std::error::Error for RecvError {}

/// The reason why a `try_recv` method returned no message.
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
    /// The channel is empty. The other side may still send a message.
    Empty,
    /// The channel is empty and closed. No message will arrive any more.
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

/// The error of sending to a closed channel. It contains the message that could not be sent.
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

/// The reason why a `try_send` method did not send the message. It contains the message.
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
    /// The channel is full.
    Full(T),
    /// The channel is closed, so no receiver would receive the message.
    Closed(T),
}

impl<T> TrySendError<T> {
    /// Returns the message that was not sent.
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

#[cfg(all(test, creel_loom))]
mod model;
