//! Sockets that wait without a thread: UDP in batches, TCP, Unix sockets; names.
//!
//! An operation is tried first; only if it would have to wait, the socket joins the
//! driver of the pool on which it is awaited.
//!
//! # Cancel safety
//!
//! A future is cancelled when it is dropped before it is ready, for example by
//! [`timeout`](crate::time::timeout). Most operations here are one system call, which either has
//! happened, and then the future is ready, or has not. The others are not safe to cancel, because
//! they make several calls:
//!
//! | operation | after it was cancelled |
//! |---|---|
//! | `read`, `write`, `write_vectored`, `accept`, `send`, `send_to`, `recv`, `recv_from`, `recv_batch`, `readable`, `writable` | **safe**: nothing has been taken or sent, and you can call it again |
//! | `send_batch` | **safe**: what has been sent is gone from the [`Outgoing`], and you can call it again; the counts of the [`Sent`] are lost |
//! | `lookup_host` | **safe**: the look-up goes on in the background, and its answer is lost |
//! | `connect`, `connect_to` | **safe**: the connection is closed, if there is one, and you can call it again |
//! | `read_exact` | **not safe**: bytes that were read are lost |
//! | `write_all` | **not safe**: an unknown part of the bytes has been written |
//! | `relay` | **not safe**: bytes that were read and not yet written are lost |
//! | [`SendQueue::run`] | **not safe**: datagrams that it has taken from the queue are lost |
//!
//! To give up an operation that is not safe to cancel, close the connection; or use `read` and
//! `write` in a loop, and keep count where cancelling does not drop it.
//!
//! A socket is no pool's: tasks of several may share it, and it outlives them. When the pool it has
//! joined ends, it joins that of the next one who has to wait for it.
//!
//! An operation that has to wait panics on a thread that neither is a pool's worker nor in its
//! `block_on`; where that pool has ended meanwhile (a worker's last steps), it is an error of kind
//! [`Other`](std::io::ErrorKind::Other).
//!
//! The `poll_` verbs, for futures written by hand, cannot know when such a future is given up: of
//! several that wait for one socket and direction by these, the last that polled is woken. The
//! `async` verbs wake all who wait.
//!
//! Left out: TLS and what else is spoken over a stream: other crates' by the features `futures-io`
//! and `tokio-io`, with which streams have the traits of those names.

#[cfg(feature = "futures-io")]
mod as_futures_io;
#[cfg(feature = "tokio-io")]
mod as_tokio_io;
mod batch;
pub(crate) mod driver;
pub(crate) mod io;
mod listener;
mod lookup_host;
#[cfg(target_os = "linux")]
mod mmsg;
mod poller;
mod readiness;
#[cfg(feature = "futures-io")]
mod relay;
mod retry;
mod send_queue;
#[cfg(any(test, not(target_os = "linux")))]
mod single;
mod source;
mod stream;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;
#[cfg(unix)]
mod unix;

#[cfg(not(target_os = "linux"))]
use single as mmsg;

pub use batch::{Datagram, Outgoing, Received, Sent};
pub use listener::{Accepted, AddressOf, Listen, Listener};
pub use lookup_host::lookup_host;
#[cfg(feature = "futures-io")]
pub use relay::relay;
pub use send_queue::SendQueue;
pub use stream::{Connection, ReadHalf, Stream, WriteHalf};
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
#[cfg(unix)]
pub use unix::{UnixDatagram, UnixListener, UnixStream};
