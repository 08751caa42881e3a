//! The tasks of a TCP port. One task accepts connections, and each connection has a task that reads
//! it.
//!
//! The connections of a port share a demultiplexer, like the sources of a UDP port. They run on one
//! context, so its lock is never contended.
//!
//! Left out: sending reports over the connections.
//!
//! Source: RFC 4571 section 2. Two bytes with the length precede each packet.

use super::counters::{Published, ReceiveCounters};
use super::demux::Demux;
use super::live::{Live, Publisher};
use super::rtp_source::Times;
use crate::lock::lock;
use creel::net::{TcpListener, TcpStream};
use creel::task::{JoinSet, yield_now};
use creel::time::Clock;
use creel_media::control::{Flow, Work};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

/// The number of bytes that we read at once. A packet may be longer.
const READ_BYTES: usize = 1 << 16;
/// The maximum number of connections per port. Further connections wait until one ends.
const CONNECTIONS_MAX: usize = 16_384;

thread_local! {
    /// The read buffer, which all connections of a context share.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// The future that accepts the next connection.
type Accepting = Pin<Box<dyn Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send>>;

/// The part that the connections of a port share. The demultiplexer is `None` once the port is
/// closed.
#[derive(Debug)]
struct Shared {
    demux: Mutex<Option<(Demux, Published)>>,
    counters: ReceiveCounters,
}

/// A TCP port with all its connections.
pub(super) struct TcpReader {
    listener: Arc<TcpListener>,
    accepting: Option<Accepting>,
    connections: JoinSet<()>,
    /// Whether we have run out of descriptors. We accept the next connection when one ends.
    full: bool,
    shared: Arc<Shared>,
    /// Publishes the figures for the live view, if there is one.
    publisher: Option<Box<Publisher>>,
}

impl TcpReader {
    pub(super) fn new(listener: TcpListener, demux: Demux, counters: ReceiveCounters) -> Self {
        TcpReader {
            listener: Arc::new(listener),
            accepting: None,
            connections: JoinSet::new(),
            full: false,
            shared: Arc::new(Shared {
                demux: Mutex::new(Some((demux, Published::default()))),
                counters,
            }),
            publisher: None,
        }
    }

    /// Publishes the figures of this port while it receives.
    pub(super) fn publish_to(&mut self, live: Option<&Live>, port: usize) {
        self.publisher = live.map(|live| Box::new(Publisher::new(live, port)));
    }

    /// Closes the port and returns its demultiplexer.
    pub(super) fn into_demux(self) -> Option<Demux> {
        let mut demux = lock(&self.shared.demux);
        demux.take().map(|(demux, _)| demux)
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Flow>> {
        let listener = &self.listener;
        let accepting = self.accepting.get_or_insert_with(|| {
            let listener = Arc::clone(listener);
            Box::pin(async move { listener.accept().await })
        });
        let accepted = ready!(accepting.as_mut().poll(cx));
        self.accepting = None;
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(_) if self.connections.is_empty() => return Poll::Ready(Err(Flow::Failed)),
            Err(error) => {
                self.full = error.kind() != io::ErrorKind::ConnectionAborted;
                return Poll::Ready(Ok(()));
            }
        };
        let connection = Connection {
            stream,
            from,
            partial: Vec::new(),
            shared: Arc::clone(&self.shared),
        };
        self.connections.spawn(connection.run());
        Poll::Ready(Ok(()))
    }
}

impl Work for TcpReader {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Flow>> {
        if let Some(publisher) = &mut self.publisher
            && let Some((demux, _)) = &*lock(&self.shared.demux)
        {
            publisher.poll(cx, demux);
        }
        // Connections that have ended make room for new ones.
        while let Poll::Ready(Some(_)) = self.connections.poll_join_next(cx) {
            self.full = false;
        }
        self.full &= !self.connections.is_empty();
        if self.full || self.connections.len() >= CONNECTIONS_MAX {
            return Poll::Pending;
        }
        self.poll_accept(cx)
    }
}

impl std::fmt::Debug for TcpReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpReader")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

/// A connection of a TCP port.
struct Connection {
    stream: TcpStream,
    from: SocketAddr,
    /// The beginning of a packet whose end has not arrived yet.
    partial: Vec<u8>,
    shared: Arc<Shared>,
}

impl Connection {
    /// Reads packets until either side closes the connection.
    async fn run(mut self) {
        while let Some(read) = poll_fn(|cx| self.poll_receive(cx)).await {
            if read == READ_BYTES {
                // There is more to read, but the other connections must get their turn first.
                yield_now().await;
            }
        }
    }

    /// Reads the available bytes. Returns their number, or `None` at the end of the stream, after
    /// an error, or if the port is closed.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        READ.with_borrow_mut(|bytes| match ready!(self.stream.poll_read(cx, bytes)) {
            Ok(read @ 1..) => Poll::Ready(self.receive(&bytes[..read]).then_some(read)),
            Ok(0) | Err(_) => Poll::Ready(None),
        })
    }

    /// Processes the complete packets. Returns false if the port is closed.
    fn receive(&mut self, read: &[u8]) -> bool {
        let mut demux = lock(&self.shared.demux);
        let Some((demux, published)) = demux.as_mut() else {
            return false;
        };
        let now = Clock::monotonic().nanos();
        let mut each = |packet: &[u8]| demux.receive(packet, self.from, Times::at(now));
        if self.partial.is_empty() {
            self.partial.extend_from_slice(split(read, &mut each));
        } else {
            self.partial.extend_from_slice(read);
            let left = split(&self.partial, &mut each).len();
            self.partial.drain(..self.partial.len() - left);
        }
        self.shared.counters.add(demux, published);
        true
    }
}

/// Passes each complete packet to `each`, and returns the bytes after the last one.
fn split<'a>(mut bytes: &'a [u8], mut each: impl FnMut(&'a [u8])) -> &'a [u8] {
    while let Some((length, after)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        let Some((packet, after)) = after.split_at_checked(length) else {
            break;
        };
        each(packet);
        bytes = after;
    }
    bytes
}
