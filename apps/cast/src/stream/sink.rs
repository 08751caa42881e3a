//! Sinks, and the ways in which buffers are passed to them.
//!
//! The evaluation compares four ways. The sink can be called in place under a mutex, or in place
//! under an asynchronous mutex. It can also have a task of its own behind a bounded channel, or
//! behind a channel with one slot. The receiver of a one-slot channel runs right after the
//! producer, on the same worker.

use crate::lock::lock;
use crate::stream::buffer::Buffer;
use async_lock::{Mutex as AsyncMutex, MutexGuardArc};
use creel::channel::spsc;
use creel_media::control::Flow;
use creel_media::leaky;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

/// Takes buffers. A sink never waits. If its output has to wait, it needs a queue or a batch.
pub trait Sink: Send + Unpin {
    /// Takes a buffer.
    ///
    /// # Errors
    ///
    /// Returns an error if the sink takes no more buffers.
    fn take(&mut self, buffer: &Buffer) -> Result<(), Flow>;

    /// Drops everything that the sink has not passed on yet.
    fn flush(&mut self) {}
}

/// The way in which buffers are passed to a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SinkMode {
    /// The sink is called in place, under a mutex.
    #[default]
    SyncMutex,
    /// The sink is called in place, under an asynchronous mutex.
    AsyncMutex,
    /// The sink has its own task, behind a bounded channel.
    Task,
    /// The sink has its own task, behind a channel with one slot.
    Slot,
}

impl SinkMode {
    /// All modes with their names.
    pub const ALL: [(&'static str, SinkMode); 4] = [
        ("sync-mutex", SinkMode::SyncMutex),
        ("async-mutex", SinkMode::AsyncMutex),
        ("task", SinkMode::Task),
        ("slot", SinkMode::Slot),
    ];
}

impl FromStr for SinkMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = SinkMode::ALL.iter().find(|(name, _)| *name == text);
        found.map(|&(_, mode)| mode).ok_or_else(|| {
            let names = SinkMode::ALL.map(|(name, _)| name).join(", ");
            format!("unknown value `{text}`: expected one of {names}")
        })
    }
}

impl fmt::Display for SinkMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = SinkMode::ALL.iter().find(|(_, mode)| mode == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

/// Passes buffers on to a sink.
pub trait Push: Send + Unpin {
    /// Takes the buffer out of the option and passes it on. While the sink has no room, the buffer
    /// stays in the option. `cx` is woken when it has room again.
    ///
    /// # Errors
    ///
    /// Returns an error if the sink takes no more buffers.
    fn poll_push(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Option<Buffer>,
    ) -> Poll<Result<(), Flow>>;

    /// Drops the buffers that the stream has passed on and that the sink has not taken.
    fn flush(&mut self) {}
}

/// Calls the sink in place, under a mutex. Both are stored in the task of the stream.
#[derive(Debug)]
pub struct InPlace<S>(pub Mutex<S>);

impl<S> InPlace<S> {
    /// Wraps a sink.
    pub fn new(sink: S) -> Self {
        InPlace(Mutex::new(sink))
    }

    /// Returns the sink.
    pub fn into_sink(self) -> S {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Sink> Push for InPlace<S> {
    #[inline]
    fn poll_push(
        &mut self,
        _: &mut Context<'_>,
        buffer: &mut Option<Buffer>,
    ) -> Poll<Result<(), Flow>> {
        let mut sink = lock(&self.0);
        Poll::Ready(buffer.take().map_or(Ok(()), |buffer| sink.take(&buffer)))
    }

    fn flush(&mut self) {
        lock(&self.0).flush();
    }
}

/// The future that waits for the mutex.
type Locking<S> = Pin<Box<dyn Future<Output = MutexGuardArc<S>> + Send>>;

/// Calls the sink in place, under an asynchronous mutex.
pub struct AsyncInPlace<S> {
    mutex: Arc<AsyncMutex<S>>,
    /// The pending lock operation while another task holds the mutex.
    locking: Option<Locking<S>>,
}

impl<S> AsyncInPlace<S> {
    /// Uses the sink in `mutex`.
    pub fn new(mutex: Arc<AsyncMutex<S>>) -> Self {
        AsyncInPlace {
            mutex,
            locking: None,
        }
    }

    /// Returns the mutex around the sink.
    pub fn mutex(&self) -> &AsyncMutex<S> {
        &self.mutex
    }
}

impl<S: Sink + 'static> Push for AsyncInPlace<S> {
    fn poll_push(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Option<Buffer>,
    ) -> Poll<Result<(), Flow>> {
        let mut take = |sink: &mut S| buffer.take().map_or(Ok(()), |buffer| sink.take(&buffer));
        if self.locking.is_none()
            && let Some(mut sink) = self.mutex.try_lock()
        {
            return Poll::Ready(take(&mut sink));
        }
        let mutex = &self.mutex;
        let locking = self
            .locking
            .get_or_insert_with(|| Box::pin(mutex.lock_arc()));
        let mut sink = ready!(locking.as_mut().poll(cx));
        self.locking = None;
        Poll::Ready(take(&mut sink))
    }
}

impl Push for spsc::Sender<Buffer> {
    #[inline]
    fn poll_push(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Option<Buffer>,
    ) -> Poll<Result<(), Flow>> {
        self.poll_send(cx, buffer).map_err(|_| Flow::EndOfStream)
    }
}

impl Push for leaky::Sender<Buffer> {
    #[inline]
    fn poll_push(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Option<Buffer>,
    ) -> Poll<Result<(), Flow>> {
        self.poll_send(cx, buffer).map_err(|_| Flow::EndOfStream)
    }
}

/// Passes buffers to the task of a sink.
pub trait Pull: Send + Unpin {
    /// Returns the next buffer as soon as there is one. The bool states whether the caller should
    /// poll again immediately. If it is false, `cx` will be woken when there is another buffer.
    /// Returns `None` when the stream has ended.
    fn poll_pull(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Buffer, bool)>>;
}

impl Pull for spsc::Receiver<Buffer> {
    #[inline]
    fn poll_pull(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Buffer, bool)>> {
        let received = self.poll_recv(cx);
        received.map(|received| received.ok().map(|buffer| (buffer, true)))
    }
}

impl Pull for leaky::Receiver<Buffer> {
    #[inline]
    fn poll_pull(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Buffer, bool)>> {
        self.poll_recv_or_wait(cx).map(Result::ok)
    }
}

/// The task of a sink. It takes buffers until the stream ends or the sink takes no more.
#[derive(Debug)]
pub struct Drain<P, S> {
    buffers: P,
    sink: S,
}

impl<P: Pull, S: Sink> Drain<P, S> {
    /// Creates a task that moves buffers from `buffers` to `sink`.
    pub fn new(buffers: P, sink: S) -> Self {
        Drain { buffers, sink }
    }

    /// Returns the sink.
    pub fn into_sink(self) -> S {
        self.sink
    }
}

impl<P: Pull, S: Sink> Future for Drain<P, S> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        while let Some((buffer, again)) = ready!(this.buffers.poll_pull(cx)) {
            if this.sink.take(&buffer).is_err() {
                break;
            }
            if !again {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    struct Count(usize);

    impl Sink for Count {
        fn take(&mut self, _: &Buffer) -> Result<(), Flow> {
            self.0 += 1;
            Ok(())
        }
    }

    #[test]
    fn a_buffer_waits_while_the_sink_is_locked() {
        let mutex = Arc::new(AsyncMutex::new(Count(0)));
        let mut push = AsyncInPlace::new(Arc::clone(&mutex));
        let mut cx = Context::from_waker(Waker::noop());
        for taken in 1..=3 {
            let held = mutex.try_lock().unwrap();
            let mut buffer = Some(Buffer::new(1));
            assert!(push.poll_push(&mut cx, &mut buffer).is_pending());
            assert!(buffer.is_some());
            drop(held);
            assert_eq!(push.poll_push(&mut cx, &mut buffer), Poll::Ready(Ok(())));
            assert!(buffer.is_none());
            assert_eq!(mutex.try_lock().unwrap().0, taken);
        }
    }
}
