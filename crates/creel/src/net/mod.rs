//! Async sockets that wait without blocking a thread: TCP, Unix sockets, and UDP in batches. This
//! module also looks up host names, and waits for file descriptors of other crates.
//!
//! | you need | use |
//! |---|---|
//! | a TCP server or client | [`TcpListener`], [`TcpStream`] |
//! | datagrams, one at a time or in batches | [`UdpSocket`], with [`Outgoing`] and [`Received`] |
//! | sockets between processes of one machine | `UnixListener`, `UnixStream`, `UnixDatagram` |
//! | any other descriptor, for example a pipe | `AsyncFd` |
//! | the addresses of a host name | [`lookup_host`] |
//! | to copy bytes between two connections | `relay`, with the feature `futures-io` |
//!
//! For example, this program sends a greeting over a TCP connection:
//!
//! ```
//! use creel::net::{TcpListener, TcpStream};
//!
//! let pool = creel::Pool::builder().workers(1).build()?;
//! let greeting = pool.block_on(async {
//!     let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
//!     let client = TcpStream::connect(listener.local_addr()?).await?;
//!     let (server, _) = listener.accept().await?;
//!     server.write_all(b"hello").await?;
//!     let mut bytes = [0; 5];
//!     client.read_exact(&mut bytes).await?;
//!     Ok::<_, std::io::Error>(bytes)
//! })?;
//! assert_eq!(&greeting, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every operation first tries its system call. Only if the call would block does the socket
//! register with the I/O driver of the pool on which you await the operation.
//!
//! # Cancel safety
//!
//! A future is cancelled when it is dropped before it is ready, for example by
//! [`timeout`](crate::time::timeout). Most operations here make one system call. If the call has
//! happened, the future is ready. Otherwise cancelling it has no effect on the socket. However,
//! some operations make several calls, and not all of these are safe to cancel:
//!
//! | operation | after it was cancelled |
//! |---|---|
//! | `read`, `write`, `write_vectored`, `accept`, `send`, `send_to`, `recv`, `recv_from`, `recv_batch`, `async_io`, `readable`, `writable` | **safe**: nothing has been taken or sent, and you can call it again |
//! | `send_batch` | **safe**: datagrams that were sent have left the [`Outgoing`], and you can call it again; the counts of the [`Sent`] are lost |
//! | `lookup_host` | **safe**: a lookup that has started continues in the background, and its answer is lost |
//! | `connect`, `connect_to` | **safe**: the connection is closed, if there is one, and you can call it again |
//! | `read_exact` | **not safe**: bytes that were read are lost |
//! | `write_all` | **not safe**: an unknown part of the bytes has been written |
//! | `relay` | **not safe**: bytes that were read and not yet written are lost |
//!
//! If you cancel an operation that is not safe to cancel, close the connection. Alternatively, call
//! `read` and `write` in a loop, and keep the number of bytes in a variable that outlives the
//! cancelled future.
//!
//! # Pools
//!
//! A socket does not belong to a pool. Tasks of several pools may share it, and it may outlive
//! them. When the pool in whose driver it is registered ends, the socket registers with the pool of
//! the next task that has to wait for it.
//!
//! An operation that has to wait panics if the thread is neither a worker of a pool nor inside
//! `block_on`. The only exception is a socket that is already registered with a pool that has not
//! ended. If the pool has already ended, for example during the last steps of a worker, the
//! operation returns an error of kind [`Other`](std::io::ErrorKind::Other) instead.
//!
//! # Methods that poll
//!
//! The `poll_` methods are for futures written by hand. They cannot know when such a future is
//! dropped. Therefore, if several futures wait for the same socket and direction with `poll_`
//! methods, only the last one that polled is woken. The `async` methods wake every task that waits.
//!
//! # Left out
//!
//! We leave out TLS and all other protocols on top of a stream, because other crates provide them.
//! With the features `futures-io` and `tokio-io`, our streams implement the traits that these
//! crates expect.

#[cfg(feature = "futures-io")]
mod as_futures_io;
#[cfg(feature = "stream")]
mod as_stream;
#[cfg(feature = "tokio-io")]
mod as_tokio_io;
#[cfg(unix)]
mod async_fd;
mod batch;
pub(crate) mod driver;
pub(crate) mod io;
mod listener;
mod lookup_host;
#[cfg(target_os = "linux")]
mod mmsg;
mod part;
mod poller;
mod readiness;
#[cfg(feature = "futures-io")]
mod relay;
mod retry;
#[cfg(any(test, not(target_os = "linux")))]
mod single;
mod source;
mod stream;
mod stream_calls;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;
#[cfg(unix)]
mod unix;

#[cfg(not(target_os = "linux"))]
use single as mmsg;

#[cfg(unix)]
pub use async_fd::{AsyncFd, Direction};
pub use batch::{Datagram, DatagramInfo, Outgoing, Received, ReceivedIter, Sent};
pub use listener::{Accepted, AddressOf, Listen, Listener};
pub use lookup_host::lookup_host;
#[cfg(feature = "futures-io")]
pub use relay::relay;
pub use stream::{Connection, ReadHalf, Stream, WriteHalf};
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
#[cfg(unix)]
pub use unix::{UnixDatagram, UnixListener, UnixStream};
