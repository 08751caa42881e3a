//! Implements the trait `Stream` of the crate `futures-core` for receivers of bounded channels, and
//! the trait `Sink` of `futures-sink` for their senders.
//!
//! A receiver of a bounded channel has an entry in the list of waiters while it waits. The futures
//! of `recv` own this entry, but a stream has no future between two polls. Therefore the stream and
//! the sink keep the entry themselves.

use super::{End, Receiver, RecvFuture, SendError, SendFuture, Sender, Ticket, TrySendError};
use futures_core::Stream;
use futures_sink::Sink;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

impl<T> Receiver<T> {
    /// Turns the receiver into a `Stream`, which ends when the channel is closed and empty.
    ///
    /// ```
    /// use futures_util::StreamExt;
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let (tx, rx) = creel::channel::bounded::channel(4);
    /// let sum = pool.spawn(rx.into_stream().fold(0, async |sum, n| sum + n));
    /// pool.block_on(async {
    ///     for n in 0..10 {
    ///         tx.send(n).await.unwrap();
    ///     }
    /// });
    /// drop(tx);
    /// assert_eq!(pool.block_on(sum)?, 45);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_stream(self) -> RecvStream<T> {
        RecvStream {
            receiver: self,
            ticket: None,
        }
    }
}

impl<T> Sender<T> {
    /// Turns the sender into a `Sink`.
    ///
    /// ```
    /// use futures_util::{SinkExt, StreamExt, stream};
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let (tx, rx) = creel::channel::bounded::channel(4);
    /// let numbers = stream::iter(0..10).map(Ok);
    /// let sent = pool.spawn(numbers.forward(tx.into_sink()));
    /// let all: Vec<_> = pool.block_on(rx.into_stream().collect());
    /// assert_eq!(all, Vec::from_iter(0..10));
    /// pool.block_on(sent)??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_sink(self) -> SendSink<T> {
        SendSink {
            sender: Some(self),
            message: None,
            ticket: None,
        }
    }
}

/// The messages of a bounded channel as a stream. [`Receiver::into_stream`] creates it.
///
/// Cancelling is safe. A message that was not returned is still in the channel.
#[must_use = "streams do nothing unless polled"]
pub struct RecvStream<T> {
    receiver: Receiver<T>,
    /// The entry in the list of waiters. It is `None` if the stream does not wait.
    ticket: Option<Ticket>,
}

impl<T> RecvStream<T> {
    /// Returns the receiver.
    pub fn get_ref(&self) -> &Receiver<T> {
        &self.receiver
    }
}

impl<T> Stream for RecvStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let this = &mut *self;
        let mut recv = RecvFuture {
            end: End {
                ring: &this.receiver.ring,
                ticket: this.ticket.take(),
            },
        };
        let polled = Pin::new(&mut recv).poll(cx);
        this.ticket = recv.end.ticket.take();
        polled.map(Result::ok)
    }
}

impl<T> Drop for RecvStream<T> {
    fn drop(&mut self) {
        // If this stream was woken and did not use the wake-up, the drop of `End` passes it on to
        // another receiver.
        drop(End::<T, false> {
            ring: &self.receiver.ring,
            ticket: self.ticket.take(),
        });
    }
}

impl<T> fmt::Debug for RecvStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvStream").finish_non_exhaustive()
    }
}

/// A sender of a bounded channel as a sink. [`Sender::into_sink`] creates it.
///
/// While the channel is full, the sink holds one message outside of it. A flush sends this message.
/// If you drop the sink first, the message is dropped. Closing the sink drops its sender, and does
/// not close the channel for other senders.
#[must_use = "sinks do nothing unless polled"]
pub struct SendSink<T> {
    /// The sender. It is `None` after the sink was closed.
    sender: Option<Sender<T>>,
    message: Option<T>,
    /// The entry in the list of waiters. It is `None` if the sink does not wait.
    ticket: Option<Ticket>,
}

// The sink never pins its message, so it may be moved even if the message may not.
impl<T> Unpin for SendSink<T> {}

impl<T> SendSink<T> {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        let Some(message) = self.message.take() else {
            return Poll::Ready(Ok(()));
        };
        let Some(sender) = &self.sender else {
            return Poll::Ready(Err(SendError(message)));
        };
        let mut send = SendFuture {
            end: End {
                ring: &sender.ring,
                ticket: self.ticket.take(),
            },
            message: Some(message),
        };
        let polled = Pin::new(&mut send).poll(cx);
        self.ticket = send.end.ticket.take();
        self.message = send.message.take();
        polled
    }
}

/// The error of all methods returns the message that could not be sent.
impl<T> Sink<T> for SendSink<T> {
    type Error = SendError<T>;

    fn poll_ready(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError<T>>> {
        self.poll_send(cx)
    }

    /// Sends the message, or keeps it until the next flush if the channel is full.
    ///
    /// # Panics
    ///
    /// Panics if `poll_ready` was not ready before, and the sink still holds a message.
    fn start_send(mut self: Pin<&mut Self>, message: T) -> Result<(), SendError<T>> {
        assert!(
            self.message.is_none(),
            "start_send was called although poll_ready was not ready"
        );
        let Some(sender) = &self.sender else {
            return Err(SendError(message));
        };
        match sender.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(message)) => Err(SendError(message)),
            Err(TrySendError::Full(message)) => {
                self.message = Some(message);
                Ok(())
            }
        }
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError<T>>> {
        self.poll_send(cx)
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError<T>>> {
        ready!(self.poll_send(cx))?;
        self.sender = None;
        Poll::Ready(Ok(()))
    }
}

impl<T> Drop for SendSink<T> {
    fn drop(&mut self) {
        if let Some(sender) = &self.sender {
            // If this sink was woken and did not use the wake-up, the drop of `End` passes it on to
            // another sender.
            drop(End::<T, true> {
                ring: &sender.ring,
                ticket: self.ticket.take(),
            });
        }
    }
}

impl<T> fmt::Debug for SendSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendSink").finish_non_exhaustive()
    }
}
