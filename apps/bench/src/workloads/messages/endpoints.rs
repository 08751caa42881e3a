//! The ends of every channel under one interface, which shall cost nothing: a program calls them
//! directly.

use std::future::{Future, poll_fn};

/// A sending end.
pub trait MessageSender: Send {
    /// Sends; waits while there is no place.
    fn send_message(&mut self, message: u64) -> impl Future<Output = ()> + Send;
}

/// A receiving end.
pub trait MessageReceiver: Send {
    /// Receives; nothing when the other side is gone.
    fn receive_message(&mut self) -> impl Future<Output = Option<u64>> + Send;
}

impl MessageSender for creel::channel::spsc::Sender<u64> {
    #[inline]
    async fn send_message(&mut self, message: u64) {
        self.send(message).await.expect("somebody listens");
    }
}

impl MessageSender for creel::channel::bounded::Sender<u64> {
    #[inline]
    async fn send_message(&mut self, message: u64) {
        self.send(message).await.expect("somebody listens");
    }
}

impl MessageSender for kanal::AsyncSender<u64> {
    #[inline]
    async fn send_message(&mut self, message: u64) {
        self.send(message).await.expect("somebody listens");
    }
}

impl MessageSender for async_channel::Sender<u64> {
    #[inline]
    async fn send_message(&mut self, message: u64) {
        self.send(message).await.expect("somebody listens");
    }
}

impl MessageSender for tokio::sync::mpsc::Sender<u64> {
    #[inline]
    async fn send_message(&mut self, message: u64) {
        self.send(message).await.expect("somebody listens");
    }
}

impl MessageReceiver for creel::channel::spsc::Receiver<u64> {
    #[inline]
    fn receive_message(&mut self) -> impl Future<Output = Option<u64>> + Send {
        poll_fn(|context| self.poll_recv(context).map(Result::ok))
    }
}

impl MessageReceiver for creel::channel::bounded::Receiver<u64> {
    #[inline]
    async fn receive_message(&mut self) -> Option<u64> {
        self.recv().await.ok()
    }
}

impl MessageReceiver for kanal::AsyncReceiver<u64> {
    #[inline]
    async fn receive_message(&mut self) -> Option<u64> {
        self.recv().await.ok()
    }
}

impl MessageReceiver for async_channel::Receiver<u64> {
    #[inline]
    async fn receive_message(&mut self) -> Option<u64> {
        self.recv().await.ok()
    }
}

impl MessageReceiver for tokio::sync::mpsc::Receiver<u64> {
    #[inline]
    fn receive_message(&mut self) -> impl Future<Output = Option<u64>> + Send {
        self.recv()
    }
}
