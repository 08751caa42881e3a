//! Sockets that wait without a thread: UDP in batches, TCP.
//!
//! An operation is tried first; only if it would have to wait, the socket joins the
//! driver of the pool on which it is awaited. Every future here is cancel-safe:
//! dropped before it is ready, it has neither taken nor sent anything (of a batch: nothing
//! that it has not counted).
//!
//! Left out: name resolution (it blocks: `std::net::ToSocketAddrs` on a pool made for
//! that), TLS, Unix sockets.

mod batch;
pub(crate) mod driver;
mod habit;
pub(crate) mod io;
#[cfg(target_os = "linux")]
mod mmsg;
#[cfg(any(test, not(target_os = "linux")))]
mod single;
mod source;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;

#[cfg(not(target_os = "linux"))]
use single as mmsg;

pub use batch::{Datagram, Outgoing, Received, Sent};
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
