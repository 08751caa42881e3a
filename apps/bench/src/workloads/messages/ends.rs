//! The ends of every channel under one interface, which shall cost nothing: a program calls them
//! directly.

use std::future::{Future, poll_fn};

/// A sending end.
pub trait Tell: Send {
    /// Sends; waits while there is no place.
    fn tell(&mut self, message: u64) -> impl Future<Output = ()> + Send;
}

/// A receiving end.
pub trait Hear: Send {
    /// Receives; nothing when the other side is gone.
    fn hear(&mut self) -> impl Future<Output = Option<u64>> + Send;
}

impl Tell for creel::channel::slot::Sender<u64> {
    #[inline]
    async fn tell(&mut self, message: u64) {
        self.send(message).await.expect("somebody listens");
    }
}

impl Tell for creel::channel::ring::Sender<u64> {
    #[inline]
    async fn tell(&mut self, message: u64) {
        self.send(message).await.expect("somebody listens");
    }
}

impl Tell for kanal::AsyncSender<u64> {
    #[inline]
    async fn tell(&mut self, message: u64) {
        self.send(message).await.expect("somebody listens");
    }
}

impl Tell for async_channel::Sender<u64> {
    #[inline]
    async fn tell(&mut self, message: u64) {
        self.send(message).await.expect("somebody listens");
    }
}

impl Tell for tokio::sync::mpsc::Sender<u64> {
    #[inline]
    async fn tell(&mut self, message: u64) {
        self.send(message).await.expect("somebody listens");
    }
}

impl Hear for creel::channel::slot::Receiver<u64> {
    #[inline]
    fn hear(&mut self) -> impl Future<Output = Option<u64>> + Send {
        poll_fn(|context| self.poll_recv(context).map(Result::ok))
    }
}

impl Hear for creel::channel::ring::Receiver<u64> {
    #[inline]
    async fn hear(&mut self) -> Option<u64> {
        self.recv().await.ok()
    }
}

impl Hear for kanal::AsyncReceiver<u64> {
    #[inline]
    async fn hear(&mut self) -> Option<u64> {
        self.recv().await.ok()
    }
}

impl Hear for async_channel::Receiver<u64> {
    #[inline]
    async fn hear(&mut self) -> Option<u64> {
        self.recv().await.ok()
    }
}

impl Hear for tokio::sync::mpsc::Receiver<u64> {
    #[inline]
    fn hear(&mut self) -> impl Future<Output = Option<u64>> + Send {
        self.recv()
    }
}
