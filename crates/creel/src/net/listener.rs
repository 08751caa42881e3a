//! What takes connections, of whatever kind.

use super::io::{Io, Left};
use super::poller::AsSource;
use super::source::Direction;
use super::stream::{Connection, Stream};
use std::fmt;
use std::io;
use std::task::{Context, Poll};

/// The queue of connections not yet accepted.
pub(super) const BACKLOG: i32 = 1024;

/// The system's listener in a [`Listener`]: TCP's or, on Unix, that of a path.
pub trait Listen: sealed::Listen + fmt::Debug + Send + Sync + 'static {
    /// What it takes.
    type Connection: Connection;

    #[doc(hidden)]
    fn make_nonblocking(&self) -> io::Result<()>;
    #[doc(hidden)]
    fn address(&self) -> io::Result<AddressOf<Self>>;
    #[doc(hidden)]
    fn take(&self) -> io::Result<(Self::Connection, AddressOf<Self>)>;
}

/// Where the ends of a listener's connections are.
pub type AddressOf<L> = <<L as Listen>::Connection as Connection>::Address;

/// A connection that was taken, and where it comes from.
pub type Accepted<L> = (Stream<<L as Listen>::Connection>, AddressOf<L>);

pub(super) mod sealed {
    /// Only this crate has any.
    pub trait Listen: super::AsSource {}
}

/// The listeners and connections of `std` are alike, kind by kind, but have no trait in common.
macro_rules! kind {
    ($listener:ty, $connection:ty, $address:ty, $without_delay:expr) => {
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

/// Takes connections: [`TcpListener`](super::TcpListener) or, on Unix, `UnixListener`.
pub struct Listener<L: Listen> {
    pub(super) io: Io<L>,
}

impl<L: Listen> Listener<L> {
    /// Takes over a listener that the program has made its own way, or was given.
    ///
    /// # Errors
    ///
    /// If it cannot be made non-blocking.
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

    /// The listener itself, for its options. Leave it non-blocking.
    pub fn as_std(&self) -> &L {
        self.io.socket()
    }

    /// The address it listens on.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn local_addr(&self) -> io::Result<AddressOf<L>> {
        self.as_std().address()
    }

    /// Takes the next connection.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has taken no connection.
    ///
    /// # Errors
    ///
    /// The system's: too many open files among them, after which the listener is still good, but
    /// tells the same at once as long as that lasts: wait a little before the next try.
    pub async fn accept(&self) -> io::Result<Accepted<L>> {
        let taken = self.io.run(Direction::Read, accept).await?;
        stream(taken)
    }

    /// As [`accept`](Self::accept), for futures written by hand: `cx` is woken when there is a
    /// connection, unless another such future has polled since.
    ///
    /// # Errors
    ///
    /// As for [`accept`](Self::accept).
    #[track_caller]
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted<L>>> {
        let taken = self.io.poll(cx, Direction::Read, accept);
        taken.map(|taken| stream(taken?))
    }
}

/// A connection of the system's, and where it comes from.
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
