//! Where buffers go, and the ways in which a sink gets them.
//!
//! In the evaluation's three ways a sink is called in place under a mutex, in place under an
//! asynchronous mutex, or in a task of its own behind a channel. The fourth is Creel's: a channel
//! with one place, whose receiver runs right after the producer on the same worker.

use crate::buffer::Buffer;
use crate::machine::Flow;
use crate::queue;
use creel::channel::{ring, slot};
use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

/// Takes buffers. Never waits: what must wait has a queue or a batch of its own.
pub trait Sink: Send {
    /// Takes a buffer.
    ///
    /// # Errors
    ///
    /// If it takes no more.
    fn take(&mut self, buffer: &Buffer) -> Result<(), Flow>;

    /// Drops what it has not passed on yet.
    fn flush(&mut self) {}
}

/// How a sink gets its buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Way {
    /// In place, under a mutex.
    #[default]
    SyncMutex,
    /// In place, under an asynchronous mutex.
    AsyncMutex,
    /// In its own task, behind a bounded channel.
    Task,
    /// In its own task, behind a channel with one place.
    Slot,
}

impl Way {
    /// All ways, with their names.
    pub const ALL: [(&'static str, Way); 4] = [
        ("sync-mutex", Way::SyncMutex),
        ("async-mutex", Way::AsyncMutex),
        ("task", Way::Task),
        ("slot", Way::Slot),
    ];
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Way::ALL.iter().find(|(name, _)| *name == text);
        found.map(|&(_, way)| way).ok_or_else(|| {
            let names = Way::ALL.map(|(name, _)| name).join(", ");
            format!("`{text}` is not one of {names}")
        })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Way::ALL.iter().find(|(_, way)| way == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

/// Passes buffers on to a sink.
pub trait Push: Send {
    /// Passes the buffer on, and leaves another or the same one to be filled next.
    ///
    /// # Errors
    ///
    /// If the sink takes no more.
    fn push(&mut self, buffer: &mut Buffer) -> impl Future<Output = Result<(), Flow>> + Send;

    /// Drops what is on its way.
    fn flush(&mut self) {}
}

/// Calls the sink in place, under a mutex; both lie in the stream's task.
#[derive(Debug)]
pub struct InPlace<S>(pub Mutex<S>);

impl<S> InPlace<S> {
    /// For this sink.
    pub fn new(sink: S) -> Self {
        InPlace(Mutex::new(sink))
    }

    /// Gives the sink back.
    pub fn into_sink(self) -> S {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Sink> Push for InPlace<S> {
    async fn push(&mut self, buffer: &mut Buffer) -> Result<(), Flow> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(buffer)
    }

    fn flush(&mut self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .flush();
    }
}

/// A mutex whose lock is awaited: a channel with one place that holds the value while nobody
/// has it.
#[derive(Debug)]
pub struct AsyncMutex<S> {
    back: ring::Sender<Box<S>>,
    value: ring::Receiver<Box<S>>,
}

impl<S> AsyncMutex<S> {
    /// An open mutex.
    pub fn new(value: S) -> Self {
        let (back, receiver) = ring::channel(1);
        // The channel is new: it has a place and a receiver.
        let _ = back.try_send(Box::new(value));
        AsyncMutex {
            back,
            value: receiver,
        }
    }

    /// Waits for the value and gives it to `f`; none if it was lost in a panic of a former `f`.
    pub async fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> Option<R> {
        let mut value = self.value.recv().await.ok()?;
        let result = f(&mut value);
        // The place is empty while we have the value.
        let _ = self.back.try_send(value);
        Some(result)
    }

    /// The value, if nobody has it.
    pub fn peek<R>(&self, f: impl FnOnce(&S) -> R) -> Option<R> {
        let value = self.value.try_recv().ok()?;
        let result = f(&value);
        // The place is empty while we have the value.
        let _ = self.back.try_send(value);
        Some(result)
    }
}

/// Calls the sink in place, under an asynchronous mutex.
#[derive(Debug)]
pub struct AsyncInPlace<S>(pub Arc<AsyncMutex<S>>);

impl<S: Sink> Push for AsyncInPlace<S> {
    async fn push(&mut self, buffer: &mut Buffer) -> Result<(), Flow> {
        let taken = self.0.with(|sink| sink.take(buffer)).await;
        taken.unwrap_or(Err(Flow::Failed))
    }
}

impl Push for slot::Sender<Buffer> {
    async fn push(&mut self, buffer: &mut Buffer) -> Result<(), Flow> {
        let sent = self.send(buffer.replace()).await;
        sent.map_err(|_| Flow::EndOfStream)
    }
}

impl Push for queue::Producer<Buffer> {
    async fn push(&mut self, buffer: &mut Buffer) -> Result<(), Flow> {
        let pushed = queue::Producer::push(self, buffer.replace()).await;
        pushed.map_err(|_| Flow::EndOfStream)
    }
}

/// Gives buffers to a sink's task.
pub trait Pull: Send {
    /// Waits for the next buffer; none when the stream has ended.
    fn pull(&mut self) -> impl Future<Output = Option<Buffer>> + Send;
}

impl Pull for slot::Receiver<Buffer> {
    async fn pull(&mut self) -> Option<Buffer> {
        self.recv().await.ok()
    }
}

impl Pull for queue::Consumer<Buffer> {
    async fn pull(&mut self) -> Option<Buffer> {
        self.pop().await
    }
}

/// A sink's own task: takes buffers until there are no more or the sink takes none, and gives
/// the sink back.
pub async fn drain<S: Sink>(mut buffers: impl Pull, mut sink: S) -> S {
    while let Some(buffer) = buffers.pull().await {
        if sink.take(&buffer).is_err() {
            break;
        }
    }
    sink
}
