//! One interface for Creel, tokio and the other runtimes that we compare, so that we write each
//! case only once.

use std::future::Future;

use creel::Pool;
use creel::channel::{oneshot, spsc};

use super::endpoints::{MessageReceiver, MessageSender};

/// A runtime, with the channels that a user of this runtime would choose for the cases of the
/// workload.
pub trait Runtime: Sized + 'static {
    /// Starts the runtime with `workers` workers.
    fn start(workers: usize) -> anyhow::Result<Self>;
    /// Runs a future to its end, in the way that is fastest on this runtime.
    fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T;
    /// Spawns a task from a task.
    fn spawn<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send;
    /// Spawns a task that no other task awaits.
    fn spawn_detached(future: impl Future<Output = ()> + Send + 'static);
    /// Yields to the other tasks.
    fn yield_now() -> impl Future<Output = ()> + Send;
    /// Creates a channel for one message.
    fn oneshot_channel() -> (
        impl FnOnce(u64) + Send + 'static,
        impl Future<Output = u64> + Send + 'static,
    );
    /// Creates a channel with a capacity of one.
    fn channel_of_one() -> (impl MessageSender + 'static, impl MessageReceiver + 'static);
}

/// The runtime of Creel, which is a pool.
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
        async { task.await.expect("the task does not panic") }
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
        let send = |message| tx.send(message).expect("the receiver is alive");
        (send, async { rx.await.expect("the sender sends") })
    }

    fn channel_of_one() -> (impl MessageSender + 'static, impl MessageReceiver + 'static) {
        spsc::channel()
    }
}

/// The runtime of tokio. It is the current-thread runtime if `ON_CALLER`, and the multi-thread
/// runtime otherwise.
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
            // We spawn the future and await its handle, because tokio's `block_on` polls its future
            // on a thread that is not a worker. This would be much slower.
            let task = self.0.spawn(future);
            self.0.block_on(task).expect("the task does not panic")
        }
    }

    fn spawn<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send {
        let task = tokio::spawn(future);
        async { task.await.expect("the task does not panic") }
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
        let send = |message| tx.send(message).expect("the receiver is alive");
        (send, async { rx.await.expect("the sender sends") })
    }

    fn channel_of_one() -> (impl MessageSender + 'static, impl MessageReceiver + 'static) {
        tokio::sync::mpsc::channel(1)
    }
}

/// smol: a global executor, which the caller and `workers - 1` threads run.
#[cfg(all(feature = "peers", target_os = "linux"))]
pub struct Smol {
    threads: Vec<std::thread::JoinHandle<()>>,
    /// The threads end when this is dropped.
    running: Option<smol::channel::Sender<()>>,
}

#[cfg(all(feature = "peers", target_os = "linux"))]
static SMOL: smol::Executor<'static> = smol::Executor::new();

#[cfg(all(feature = "peers", target_os = "linux"))]
impl Runtime for Smol {
    fn start(workers: usize) -> anyhow::Result<Self> {
        let (running, ended) = smol::channel::bounded::<()>(1);
        let thread = |_| {
            let ended = ended.clone();
            std::thread::spawn(move || {
                // An error, because no thread sends. It is the end of the channel.
                let _ = smol::block_on(SMOL.run(ended.recv()));
            })
        };
        Ok(Smol {
            threads: (1..workers).map(thread).collect(),
            running: Some(running),
        })
    }

    fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        smol::block_on(SMOL.run(SMOL.spawn(future)))
    }

    fn spawn<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send {
        SMOL.spawn(future)
    }

    fn spawn_detached(future: impl Future<Output = ()> + Send + 'static) {
        SMOL.spawn(future).detach();
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        smol::future::yield_now()
    }

    // smol has no channel for one message. Tokio's works without its runtime.
    fn oneshot_channel() -> (
        impl FnOnce(u64) + Send + 'static,
        impl Future<Output = u64> + Send + 'static,
    ) {
        Tokio::<true>::oneshot_channel()
    }

    fn channel_of_one() -> (impl MessageSender + 'static, impl MessageReceiver + 'static) {
        smol::channel::bounded(1)
    }
}

#[cfg(all(feature = "peers", target_os = "linux"))]
impl Drop for Smol {
    fn drop(&mut self) {
        self.running = None;
        for thread in self.threads.drain(..) {
            thread.join().expect("no task panics");
        }
    }
}
