//! UDP as a source and as a sink.
//!
//! The streams of a context send through one socket: a sink writes its datagram into the
//! context's *outbox*, and the outbox's own task sends what the streams of this turn have
//! written, many datagrams a system call. A client's datagrams are never waited for: when the
//! socket's buffer stays full, the outbox fills, and what is too much is dropped and counted.

use crate::buffer::Buffer;
use crate::framing::Framing;
use crate::machine::Flow;
use crate::sink::Sink;
use crate::source::Source;
use creel::net::{Outgoing, Received, UdpSocket};
use creel::time::Clock;
use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

/// Datagrams that an outbox holds at most.
const OUTBOX_MAX: usize = 8_192;
/// Room for a datagram with 10 ms of samples and every header.
pub const DATAGRAM_BYTES: usize = 1_536;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The receivers of a stream, listed, added, removed and cleared while it runs. Clones share
/// the list.
#[derive(Debug, Clone, Default)]
pub struct Clients(Arc<Mutex<Vec<SocketAddr>>>);

impl Clients {
    /// These receivers.
    pub fn new(clients: impl IntoIterator<Item = SocketAddr>) -> Self {
        let list = Clients::default();
        for client in clients {
            list.add(client);
        }
        list
    }

    /// All receivers, in the order in which they were added.
    pub fn list(&self) -> Vec<SocketAddr> {
        lock(&self.0).clone()
    }

    /// Adds a receiver; false if it was there.
    pub fn add(&self, client: SocketAddr) -> bool {
        let mut clients = lock(&self.0);
        let is_new = !clients.contains(&client);
        if is_new {
            clients.push(client);
        }
        is_new
    }

    /// Removes a receiver; false if it was not there.
    pub fn remove(&self, client: SocketAddr) -> bool {
        let mut clients = lock(&self.0);
        let before = clients.len();
        clients.retain(|other| *other != client);
        clients.len() < before
    }

    /// Removes all receivers.
    pub fn clear(&self) {
        lock(&self.0).clear();
    }
}

/// What an outbox has done. Relaxed counters: nothing else depends on them.
#[derive(Debug, Default)]
pub struct Counters {
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

impl Counters {
    /// Datagrams that the system took.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Datagrams that the system refused.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Datagrams dropped because the outbox was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// What the streams of a context have to send.
#[derive(Debug, Default)]
pub struct Outbox {
    inner: Mutex<Written>,
    /// What has become of it.
    pub counters: Counters,
}

#[derive(Debug, Default)]
struct Written {
    outgoing: Outgoing,
    sender: Option<Waker>,
    closed: bool,
}

impl Outbox {
    /// Writes a datagram for all `clients`.
    fn write(&self, datagram: &[u8], clients: &Clients) {
        let mut written = lock(&self.inner);
        let clients = lock(&clients.0);
        if written.outgoing.len() + clients.len() > OUTBOX_MAX {
            let dropped = clients.len() as u64;
            self.counters.dropped.fetch_add(dropped, Ordering::Relaxed);
            return;
        }
        written
            .outgoing
            .push_to_many(datagram, clients.iter().copied());
        let sender = written.sender.take();
        drop((clients, written));
        if let Some(sender) = sender {
            sender.wake();
        }
    }

    /// Drops what has not been sent.
    pub fn flush(&self) {
        lock(&self.inner).outgoing.clear();
    }

    /// No stream will write any more: [`send`](Self::send) ends when all is sent.
    pub fn close(&self) {
        let mut written = lock(&self.inner);
        written.closed = true;
        let sender = written.sender.take();
        drop(written);
        if let Some(sender) = sender {
            sender.wake();
        }
    }

    /// The outbox's task: sends what is written until the outbox is closed and empty. Returns
    /// the first error that the system refused a datagram with.
    pub async fn send(&self, socket: &UdpSocket) -> Option<std::io::Error> {
        let mut batch = Outgoing::new();
        let mut first_error = None;
        while self.take(&mut batch).await {
            let sent = socket.send_batch(&mut batch).await;
            let counters = &self.counters;
            counters.sent.fetch_add(sent.sent as u64, Ordering::Relaxed);
            counters
                .failed
                .fetch_add(sent.failed as u64, Ordering::Relaxed);
            first_error = first_error.or(sent.error);
        }
        first_error
    }

    /// Waits until something is written, lets the other streams of this turn write, too, and
    /// takes all. False: closed and empty.
    async fn take(&self, batch: &mut Outgoing) -> bool {
        let mut let_others = false;
        poll_fn(|cx| {
            let mut written = lock(&self.inner);
            if written.outgoing.is_empty() {
                if written.closed {
                    return Poll::Ready(false);
                }
                written.sender = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if !std::mem::replace(&mut let_others, true) && !written.closed {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            std::mem::swap(&mut written.outgoing, batch);
            Poll::Ready(true)
        })
        .await
    }
}

/// Sends each buffer to a list of clients.
#[derive(Debug)]
pub struct UdpSink {
    outbox: Arc<Outbox>,
    clients: Clients,
    framing: Framing,
    ssrc: u32,
}

impl UdpSink {
    /// Writes into `outbox` for `clients`, as the stream `ssrc`.
    pub fn new(outbox: Arc<Outbox>, clients: Clients, framing: Framing, ssrc: u32) -> Self {
        UdpSink {
            outbox,
            clients,
            framing,
            ssrc,
        }
    }
}

thread_local! {
    /// Where a datagram is laid out before it is copied into the outbox.
    static DATAGRAM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Sink for UdpSink {
    fn take(&mut self, buffer: &Buffer) -> Result<(), Flow> {
        DATAGRAM.with_borrow_mut(|datagram| {
            self.framing.write(buffer, self.ssrc, datagram);
            self.outbox.write(datagram, &self.clients);
        });
        Ok(())
    }
}

/// Receives one stream, or several on one port.
#[derive(Debug)]
pub struct UdpSource {
    socket: UdpSocket,
    framing: Framing,
    batch: Option<Box<Batch>>,
    clock: Clock,
    /// Datagrams given out: the number of one that has none itself.
    given: u64,
    /// Datagrams that were not what the framing says.
    pub malformed: u64,
}

/// What one system call has received of several streams.
#[derive(Debug)]
struct Batch {
    received: Received,
    /// The slot of `received` and the datagram in it that is given out next.
    next: (usize, usize),
    received_at: u64,
}

impl Batch {
    /// The next datagram at hand.
    fn next(&mut self) -> Option<&[u8]> {
        let (slot, n) = self.next;
        if self.received.get(slot, n).is_some() {
            self.next.1 += 1;
        } else {
            self.next = (slot + 1, 1);
        }
        let (slot, next) = self.next;
        Some(self.received.get(slot, next - 1)?.bytes)
    }
}

impl UdpSource {
    /// Receives one stream: a datagram at a time. While one comes a turn, that takes less than a
    /// call for several does, and the thread's streams share the memory for it.
    pub fn new(socket: UdpSocket, framing: Framing) -> Self {
        UdpSource {
            socket,
            framing,
            batch: None,
            clock: Clock::monotonic(),
            given: 0,
            malformed: 0,
        }
    }

    /// Receives several streams: up to `slots` datagrams (1 to 64) a system call.
    pub fn batched(socket: UdpSocket, framing: Framing, slots: usize) -> Self {
        let batch = Some(Box::new(Batch {
            received: Received::new(slots, DATAGRAM_BYTES),
            next: (0, 0),
            received_at: 0,
        }));
        UdpSource {
            batch,
            ..UdpSource::new(socket, framing)
        }
    }

    /// The datagram as a buffer, if it is well-formed.
    fn buffer(&mut self, datagram: &[u8], received_at: u64) -> Option<Buffer> {
        let mut buffer = Buffer::new(0);
        if self.framing.read(datagram, &mut buffer).is_err() {
            self.malformed += 1;
            return None;
        }
        if self.framing == Framing::Raw {
            buffer.sequence = self.given;
        }
        self.given += 1;
        buffer.made = received_at;
        buffer.due = received_at;
        Some(buffer)
    }

    fn poll_one(&mut self, cx: &mut Context<'_>) -> Poll<Result<Buffer, Flow>> {
        RECEIVED.with_borrow_mut(|bytes| {
            loop {
                let received = ready!(self.socket.poll_recv(cx, bytes));
                let len = received.map_err(|_| Flow::Failed)?;
                let now = self.clock.nanos();
                if let Some(buffer) = self.buffer(&bytes[..len], now) {
                    return Poll::Ready(Ok(buffer));
                }
            }
        })
    }

    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut Batch,
    ) -> Poll<Result<Buffer, Flow>> {
        loop {
            let received_at = batch.received_at;
            while let Some(datagram) = batch.next() {
                if let Some(buffer) = self.buffer(datagram, received_at) {
                    return Poll::Ready(Ok(buffer));
                }
            }
            batch.received.clear();
            batch.next = (0, 0);
            let received = ready!(self.socket.poll_recv_batch(cx, &mut batch.received));
            received.map_err(|_| Flow::Failed)?;
            batch.received_at = self.clock.nanos();
        }
    }
}

thread_local! {
    /// Where a datagram lies until it is a buffer.
    static RECEIVED: RefCell<[u8; DATAGRAM_BYTES]> = const { RefCell::new([0; DATAGRAM_BYTES]) };
}

impl Source for UdpSource {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Buffer, Flow>> {
        let Some(mut batch) = self.batch.take() else {
            return self.poll_one(cx);
        };
        let next = self.poll_batch(cx, &mut batch);
        self.batch = Some(batch);
        next
    }
}
