//! The runtimes under one interface, so that each case is written once.

use std::future::Future;

use creel::Pool;
use creel::channel::{oneshot, spsc};

use super::endpoints::{MessageReceiver, MessageSender};

/// A task runtime with the channels its users would take for these cases.
pub trait Runtime: Sized + 'static {
    /// Made with so many workers.
    fn start(workers: usize) -> anyhow::Result<Self>;
    /// Runs a future to its end, where the runtime does that fastest.
    fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T;
    /// Makes a task from within one.
    fn spawn<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send;
    /// Makes a task that nobody waits for.
    fn spawn_detached(future: impl Future<Output = ()> + Send + 'static);
    /// Lets the other tasks go first.
    fn yield_now() -> impl Future<Output = ()> + Send;
    /// A channel for one message.
    fn oneshot_channel() -> (
        impl FnOnce(u64) + Send + 'static,
        impl Future<Output = u64> + Send + 'static,
    );
    /// A channel with one place, used again and again.
    fn channel_of_one() -> (impl MessageSender + 'static, impl MessageReceiver + 'static);
}

/// Creel.
pub struct Creel(Pool);

impl Runtime for Creel {
    fn start(workers: usize) -> anyhow::Result<Self> {
        Ok(Creel(Pool::builder().workers(workers).build()?))
    }

    fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.0.block_on(future)
    }

    fn spawn<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send {
        let task = creel::task::spawn(future);
        async { task.await.expect("the task ends") }
    }

    fn spawn_detached(future: impl Future<Output = ()> + Send + 'static) {
        creel::task::spawn(future).detach();
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        creel::task::yield_now()
    }

    fn oneshot_channel() -> (
        impl FnOnce(u64) + Send + 'static,
        impl Future<Output = u64> + Send + 'static,
    ) {
        let (tx, rx) = oneshot::channel();
        let send = |message| tx.send(message).expect("somebody listens");
        (send, async { rx.await.expect("somebody speaks") })
    }

    fn channel_of_one() -> (impl MessageSender + 'static, impl MessageReceiver + 'static) {
        spsc::channel()
    }
}

/// tokio: on the calling thread with one worker, else on its own.
pub struct Tokio<const ON_CALLER: bool>(tokio::runtime::Runtime);

impl<const ON_CALLER: bool> Runtime for Tokio<ON_CALLER> {
    fn start(workers: usize) -> anyhow::Result<Self> {
        let runtime = if ON_CALLER {
            tokio::runtime::Builder::new_current_thread().build()
        } else {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(workers)
                .build()
        };
        Ok(Tokio(runtime?))
    }

    fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        if ON_CALLER {
            self.0.block_on(future)
        } else {
            // Its block_on polls on a thread that is no worker, which is much slower.
            let task = self.0.spawn(future);
            self.0.block_on(task).expect("the task ends")
        }
    }

    fn spawn<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send {
        let task = tokio::spawn(future);
        async { task.await.expect("the task ends") }
    }

    fn spawn_detached(future: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(future));
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    fn oneshot_channel() -> (
        impl FnOnce(u64) + Send + 'static,
        impl Future<Output = u64> + Send + 'static,
    ) {
        let (tx, rx) = tokio::sync::oneshot::channel();
        let send = |message| tx.send(message).expect("somebody listens");
        (send, async { rx.await.expect("somebody speaks") })
    }

    fn channel_of_one() -> (impl MessageSender + 'static, impl MessageReceiver + 'static) {
        tokio::sync::mpsc::channel(1)
    }
}
