//! What many tasks have to send by one socket, sent together: a system call for what they wrote in
//! a turn of the worker, not one a datagram.
//!
//! Nobody who writes waits. When the socket's buffer stays full the queue fills, and what is too
//! much is dropped and counted: live sound is worth nothing later.

use super::batch::Outgoing;
use super::udp::UdpSocket;
use crate::sync::{AtomicU64, Mutex, Ordering, local, lock, thread_local};
use crate::worker::stored_waker::StoredWaker;
use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

/// A bounded queue of datagrams before a UDP socket, which tasks write to and one sends from.
///
/// ```
/// use creel::{Pool, net::{SendQueue, UdpSocket}};
/// use std::sync::Arc;
///
/// let pool = Pool::builder().workers(1).build()?;
/// let receiver = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let to = receiver.local_addr()?;
/// let socket = UdpSocket::bind("127.0.0.1:0".parse()?)?;
/// let queue = Arc::new(SendQueue::new(Arc::new(socket), 1_000));
/// for _ in 0..3 {
///     let queue = Arc::clone(&queue);
///     pool.spawn(async move { queue.push(b"a buffer", [to]) }).detach();
/// }
/// let sends = Arc::clone(&queue);
/// pool.spawn(async move { sends.run().await }).detach();
/// for _ in 0..3 {
///     assert_eq!(receiver.recv(&mut [0; 100])?, 8);
/// }
/// queue.close();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SendQueue {
    socket: Arc<UdpSocket>,
    /// Datagrams at most.
    capacity: usize,
    written: Mutex<Written>,
    /// Relaxed counters: nothing else depends on them.
    dropped: AtomicU64,
    failed: AtomicU64,
    /// Why the first was refused.
    error: OnceLock<io::Error>,
}

#[derive(Default)]
struct Written {
    outgoing: Outgoing,
    sender: Option<StoredWaker>,
    closed: bool,
}

thread_local! {
    /// Memory for the receivers of a datagram, kept so that writing one allocates nothing.
    static RECEIVERS: RefCell<Vec<SocketAddr>> = const { RefCell::new(Vec::new()) };
}

impl SendQueue {
    /// An empty queue of at most `capacity` datagrams before `socket`.
    pub fn new(socket: Arc<UdpSocket>, capacity: usize) -> Self {
        SendQueue {
            socket,
            capacity,
            written: Mutex::new(Written::default()),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            error: OnceLock::new(),
        }
    }

    /// The socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Writes a datagram for each receiver, copied once; drops them all if there is no room for
    /// them, or the queue is closed. Never waits.
    pub fn push<I>(&self, datagram: &[u8], to: I)
    where
        I: IntoIterator<Item = SocketAddr, IntoIter: ExactSizeIterator>,
    {
        // The iterator is the program's, and may use this queue: it runs before the lock is taken.
        let mut receivers = local(&RECEIVERS, RefCell::take).unwrap_or_default();
        receivers.extend(to);
        let mut written = lock(&self.written);
        let sender = if written.closed || written.outgoing.len() + receivers.len() > self.capacity {
            let count = receivers.len() as u64;
            self.dropped.fetch_add(count, Ordering::Relaxed);
            receivers.clear();
            None
        } else {
            written.outgoing.push_to_many(datagram, receivers.drain(..));
            written.sender.take()
        };
        drop(written);
        local(&RECEIVERS, |kept| kept.replace(receivers));
        if let Some(waker) = sender {
            waker.wake();
        }
    }

    /// Sends what is written until the queue is closed and empty; one task's work.
    ///
    /// A datagram that the system refuses is left out and counted; the others go on.
    ///
    /// # Cancel safety
    ///
    /// Not safe: cancelled, the datagrams that it has taken from the queue and not sent are lost. What
    /// is still in the queue stays there for the next call.
    pub async fn run(&self) {
        let mut batch = Outgoing::new();
        while self.take(&mut batch).await {
            let sent = self.socket.send_batch(&mut batch).await;
            self.failed.fetch_add(sent.failed as u64, Ordering::Relaxed);
            if let Some(error) = sent.error {
                self.error.get_or_init(|| error);
            }
        }
    }

    /// Waits until something is written, lets the other tasks of this turn write, too, and takes
    /// all. False: closed and empty.
    async fn take(&self, batch: &mut Outgoing) -> bool {
        let mut let_others = false;
        poll_fn(|cx| {
            let mut written = lock(&self.written);
            let mut fresh = None;
            while written.outgoing.is_empty() {
                if written.closed {
                    return Poll::Ready(false);
                }
                let known = written.sender.as_ref();
                if known.is_some_and(|known| known.will_wake(cx.waker())) {
                    return Poll::Pending;
                }
                if fresh.is_some() {
                    std::mem::swap(&mut written.sender, &mut fresh);
                    drop(written);
                    return Poll::Pending;
                }
                drop(written);
                fresh = Some(StoredWaker::new(cx.waker()));
                written = lock(&self.written);
            }
            if !std::mem::replace(&mut let_others, true) && !written.closed {
                drop(written);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            std::mem::swap(&mut written.outgoing, batch);
            Poll::Ready(true)
        })
        .await
    }

    /// Nothing will be written any more: [`run`](Self::run) ends when all is sent.
    pub fn close(&self) {
        let mut written = lock(&self.written);
        written.closed = true;
        let sender = written.sender.take();
        drop(written);
        if let Some(waker) = sender {
            waker.wake();
        }
    }

    /// Datagrams that were dropped because the queue was full, or closed.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Datagrams that the system refused.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Why the first of them was.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.get()
    }
}

impl fmt::Debug for SendQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendQueue")
            .field("socket", &self.socket)
            .field("capacity", &self.capacity)
            .field("waiting", &lock(&self.written).outgoing.len())
            .finish_non_exhaustive()
    }
}
