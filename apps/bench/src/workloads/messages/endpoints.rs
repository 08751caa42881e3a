//! One interface for the senders and receivers of all channels that we compare. It must not cost
//! time, because a program would call the channels directly.

use std::future::{Future, poll_fn};

/// The sending end of any channel that we compare.
pub trait MessageSender: Send {
    /// Sends a message. Waits while the channel is full.
    fn send_message(&mut self, message: u64) -> impl Future<Output = ()> + Send;
}

/// The receiving end of any channel that we compare.
pub trait MessageReceiver: Send {
    /// Receives a message, or `None` if all senders were dropped.
    fn receive_message(&mut self) -> impl Future<Output = Option<u64>> + Send;
}

impl MessageSender for creel::channel::spsc::Sender<u64> {
    #[inline]
    async fn send_message(&mut self, message: u64) {
        self.send(message).await.expect("the receiver is alive");
    }
}

impl MessageSender for creel::channel::bounded::Sender<u64> {
    #[inline]
    async fn send_message(&mut self, message: u64) {
        self.send(message).await.expect("the receiver is alive");
    }
}

impl MessageSender for kanal::AsyncSender<u64> {
    #[inline]
    async fn send_message(&mut self, message: u64) {
        self.send(message).await.expect("the receiver is alive");
    }
}

impl MessageSender for async_channel::Sender<u64> {
    #[inline]
    async fn send_message(&mut self, message: u64) {
        self.send(message).await.expect("the receiver is alive");
    }
}

impl MessageSender for tokio::sync::mpsc::Sender<u64> {
    #[inline]
    async fn send_message(&mut self, message: u64) {
        self.send(message).await.expect("the receiver is alive");
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
