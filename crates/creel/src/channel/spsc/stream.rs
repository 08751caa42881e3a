//! Implements the trait `Stream` of the crate `futures-core` for the receiver of an spsc channel,
//! and the trait `Sink` of `futures-sink` for its sender.

use super::{FULL, RX_GONE, Receiver, SendError, Sender, TX_WAIT, TrySendError, budget};
use crate::sync::Ordering;
use futures_core::Stream;
use futures_sink::Sink;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The stream ends when the channel is empty and the sender has been dropped.
///
/// ```
/// use futures_util::{SinkExt, StreamExt};
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let (mut tx, rx) = creel::channel::spsc::channel();
/// let sum = pool.spawn(rx.fold(0, async |sum, n| sum + n));
/// pool.block_on(async {
///     for n in 0..10 {
///         // This is the method of `SinkExt`, which shares its name with that of the sender.
///         SinkExt::send(&mut tx, n).await.unwrap();
///     }
/// });
/// drop(tx);
/// assert_eq!(pool.block_on(sum)?, 45);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll_recv(cx).map(Result::ok)
    }
}

/// Messages go directly into the channel, so there is nothing to flush. The channel closes when the
/// sender is dropped, and not when the sink is closed. The error returns the message that could not
/// be sent.
impl<T> Sink<T> for Sender<T> {
    type Error = SendError<T>;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        let inner = self.inner();
        loop {
            let seen = inner.state.load(Ordering::Acquire);
            // There is only one sender. Therefore the room that it sees stays. `start_send` reports
            // that the receiver is gone, because only it has a message to return.
            if seen & FULL == 0 || seen & RX_GONE != 0 {
                budget::use_up(1);
                return Poll::Ready(Ok(()));
            }
            let waker = cx.waker();
            if inner.tx_waker.register(&inner.state, seen, TX_WAIT, waker) {
                return Poll::Pending;
            }
        }
    }

    /// # Panics
    ///
    /// Panics if the channel is full, because `poll_ready` was not ready before.
    fn start_send(mut self: Pin<&mut Self>, message: T) -> Result<(), SendError<T>> {
        match self.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(message)) => Err(SendError(message)),
            Err(TrySendError::Full(_)) => {
                panic!("start_send was called although poll_ready was not ready")
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        Poll::Ready(Ok(()))
    }
}
