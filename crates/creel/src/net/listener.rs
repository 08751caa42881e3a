//! Listeners, which accept connections of any kind.
//!
//! As for [`Stream`], a trait of ours covers the listener types of the standard library. `tcp.rs`
//! and `unix.rs` add the operations that only one kind has, such as binding.

use super::io::{Io, Left};
use super::poller::AsSource;
use super::source::Direction;
use super::stream::{Connection, Stream};
use std::fmt;
use std::io;
use std::task::{Context, Poll};

/// The maximum length of the kernel's queue of connections that are not accepted yet.
pub(super) const BACKLOG: i32 = 1024;

/// A listener of the standard library that can be used in a [`Listener`]: a TCP listener or, on
/// Unix, a Unix socket listener. You cannot implement this trait for other types.
pub trait Listen: sealed::Listen + fmt::Debug + Send + Sync + 'static {
    /// The connection type that the listener accepts.
    type Connection: Connection;

    #[doc(hidden)]
    fn make_nonblocking(&self) -> io::Result<()>;
    #[doc(hidden)]
    fn address(&self) -> io::Result<AddressOf<Self>>;
    #[doc(hidden)]
    fn take(&self) -> io::Result<(Self::Connection, AddressOf<Self>)>;
}

/// The address type of the connections of the listener `L`.
pub type AddressOf<L> = <<L as Listen>::Connection as Connection>::Address;

/// An accepted connection and the address of its peer.
pub type Accepted<L> = (Stream<<L as Listen>::Connection>, AddressOf<L>);

pub(super) mod sealed {
    /// Prevents implementations in other crates, because other crates cannot name this trait.
    pub trait Listen: super::AsSource {}
}

/// Implements the traits for one kind of listener and its connection. A macro does this because the
/// types of `std` have the same methods, but no trait in common.
macro_rules! kind {
    ($listener:ty, $connection:ty, $address:ty, $without_delay:expr, $limit_unsent:expr) => {
        impl stream::sealed::Connection for $connection {}

        impl Connection for $connection {
            type Address = $address;

            fn make_nonblocking(&self) -> io::Result<()> {
                self.set_nonblocking(true)
            }

            fn without_delay(&self) -> io::Result<()> {
                let without_delay: fn(&$connection) -> io::Result<()> = $without_delay;
                without_delay(self)
            }

            fn limit_unsent(&self, bytes: u32) -> io::Result<()> {
                let limit_unsent: fn(&$connection, u32) -> io::Result<()> = $limit_unsent;
                limit_unsent(self, bytes)
            }

            fn own_address(&self) -> io::Result<$address> {
                self.local_addr()
            }

            fn others_address(&self) -> io::Result<$address> {
                self.peer_addr()
            }
        }

        impl listener::sealed::Listen for $listener {}

        impl Listen for $listener {
            type Connection = $connection;

            fn make_nonblocking(&self) -> io::Result<()> {
                self.set_nonblocking(true)
            }

            fn address(&self) -> io::Result<$address> {
                self.local_addr()
            }

            fn take(&self) -> io::Result<($connection, $address)> {
                self.accept()
            }
        }
    };
}
pub(super) use kind;

/// A socket that accepts connections. Use it as [`TcpListener`](super::TcpListener) or, on Unix, as
/// `UnixListener`.
pub struct Listener<L: Listen> {
    pub(super) io: Io<L>,
}

impl<L: Listen> Listener<L> {
    /// Creates a listener from one of the standard library, for example one that you configured
    /// yourself or that another process passed to you. Makes it non-blocking.
    ///
    /// # Errors
    ///
    /// Returns an error if the listener cannot be made non-blocking.
    ///
    /// ```
    /// use creel::net::TcpListener;
    ///
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let address = listener.local_addr()?;
    /// assert_eq!(TcpListener::from_std(listener)?.local_addr()?, address);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn from_std(listener: L) -> io::Result<Self> {
        listener.make_nonblocking()?;
        Ok(Listener {
            io: Io::new(listener),
        })
    }

    /// Returns the listener of the standard library, for example to set its options. Do not make it
    /// blocking, because the `async` methods would then block their thread.
    pub fn as_std(&self) -> &L {
        self.io.socket()
    }

    /// Returns the address on which the listener accepts connections.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    pub fn local_addr(&self) -> io::Result<AddressOf<L>> {
        self.as_std().address()
    }

    /// Accepts the next connection. Waits until there is one.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, no connection has been accepted.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, for example if the process has too many open
    /// files. The listener remains usable after an error. However, the next call fails at once
    /// while the cause persists, so wait a little before you call it again.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn accept(&self) -> io::Result<Accepted<L>> {
        let taken = self.io.run(Direction::Read, accept).await?;
        stream(taken)
    }

    /// Accepts the next connection if there is one, for futures written by hand. Otherwise it
    /// arranges that the task of `cx` is woken when there is a connection. If several such futures
    /// wait, only the last one that polled is woken.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`accept`](Self::accept).
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    #[track_caller]
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted<L>>> {
        let taken = self.io.poll(cx, Direction::Read, accept);
        taken.map(|taken| stream(taken?))
    }
}

/// A connection of the standard library and the address of its peer.
type Taken<L> = (<L as Listen>::Connection, AddressOf<L>);

fn accept<L: Listen>(listener: &L) -> io::Result<(Taken<L>, Left)> {
    Ok((listener.take()?, Left::Unknown))
}

fn stream<C: Connection>((taken, from): (C, C::Address)) -> io::Result<(Stream<C>, C::Address)> {
    Ok((Stream::from_std(taken)?, from))
}

impl<L: Listen> fmt::Debug for Listener<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(self.as_std()).finish()
    }
}
