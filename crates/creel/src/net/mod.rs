//! Sockets that wait without a thread: UDP in batches, TCP, Unix sockets; names.
//!
//! An operation is tried first; only if it would have to wait, the socket joins the
//! driver of the pool on which it is awaited. Every future here is cancel-safe:
//! dropped before it is ready, it has neither taken nor sent anything (of a batch: nothing
//! that it has not counted).
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
#[cfg(target_os = "linux")]
mod mmsg;
mod poller;
mod readiness;
#[cfg(feature = "futures-io")]
mod relay;
mod resolve;
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
#[cfg(feature = "futures-io")]
pub use relay::relay;
pub use resolve::resolve;
pub use send_queue::SendQueue;
pub use stream::{Connection, ReadHalf, Stream, WriteHalf};
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
#[cfg(unix)]
pub use unix::{UnixDatagram, UnixListener, UnixStream};
