//! A queue in which many tasks collect datagrams for one socket. The datagrams that they wrote in
//! one turn of the worker are then sent together. On Linux, this takes one system call for up to 64
//! messages, instead of one call per datagram.
//!
//! Tasks never wait when they write. If the buffer of the socket stays full, the queue fills up. It
//! then drops and counts further datagrams, because live audio is worth nothing if it arrives late.

use crate::wakers::{StoredWaker, lock};
use creel::net::{Outgoing, UdpSocket};
use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;

/// A bounded queue of datagrams in front of a UDP socket. Many tasks write to the queue, and one
/// task sends its content by calling [`run`](Self::run).
///
/// ```
/// use creel::{Pool, net::UdpSocket};
/// use creel_media::SendQueue;
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
    /// The maximum number of datagrams in the queue.
    capacity: usize,
    written: Mutex<Written>,
    /// The number of dropped datagrams. The counters are relaxed, because nothing else depends on
    /// them.
    dropped: AtomicU64,
    failed: AtomicU64,
    /// The error for the first datagram that the operating system rejected.
    error: OnceLock<io::Error>,
}

#[derive(Default)]
struct Written {
    outgoing: Outgoing,
    sender: Option<StoredWaker>,
    closed: bool,
}

thread_local! {
    /// Memory for the receivers of a datagram, which we keep so that writing a datagram does not
    /// allocate.
    static RECEIVERS: RefCell<Vec<SocketAddr>> = const { RefCell::new(Vec::new()) };
}

impl SendQueue {
    /// Creates an empty queue that holds up to `capacity` datagrams for `socket`.
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

    /// Returns the socket that the queue sends with.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Adds one datagram with the content `datagram` for each address in `to`. Copies the bytes
    /// only once. If the queue is closed or has no room for all of these datagrams, it drops and
    /// counts all of them. Never waits.
    pub fn push<I>(&self, datagram: &[u8], to: I)
    where
        I: IntoIterator<Item = SocketAddr, IntoIter: ExactSizeIterator>,
    {
        // The iterator is code of the program and may use this queue. Therefore we run it before we
        // take the lock.
        let mut receivers = RECEIVERS.try_with(RefCell::take).unwrap_or_default();
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
        // We ignore an error, because access fails only while the thread is ending. The memory is
        // then freed.
        let _ = RECEIVERS.try_with(|kept| kept.replace(receivers));
        if let Some(waker) = sender {
            waker.wake();
        }
    }

    /// Sends the datagrams of the queue until the queue is closed and empty. Call it in one task.
    ///
    /// If the operating system rejects a datagram, this method skips and counts it, and sends the
    /// others.
    ///
    /// # Cancel safety
    ///
    /// Not safe. If the future is dropped before it is ready, the datagrams that it has taken from
    /// the queue and not sent are lost. Datagrams that are still in the queue stay there for the
    /// next call.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [documentation of `creel::net`](creel::net).
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

    /// Waits until a datagram is written, lets the other tasks of this turn write as well, and then
    /// takes all datagrams. Returns false if the queue is closed and empty.
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

    /// Closes the queue. It drops all datagrams that are written later, and [`run`](Self::run)
    /// returns when it has sent the others.
    pub fn close(&self) {
        let mut written = lock(&self.written);
        written.closed = true;
        let sender = written.sender.take();
        drop(written);
        if let Some(waker) = sender {
            waker.wake();
        }
    }

    /// Returns the number of datagrams that were dropped because the queue was full or closed.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns the number of datagrams that the operating system rejected.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Returns the error for the first datagram that the operating system rejected, if there is
    /// one.
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
