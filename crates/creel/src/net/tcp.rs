//! TCP listeners and connections: the operations that only TCP has, such as binding to a port and
//! connecting.
//!
//! `listener.rs` and `stream.rs` have the operations that TCP and Unix sockets have in common, for
//! example accepting, reading and writing.

use super::io::{Io, Left};
use super::listener::{self, BACKLOG, Listen, Listener};
use super::source::Direction;
use super::stream::{self, Connection, Stream};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{self, SocketAddr};

/// A socket that accepts TCP connections. [`TcpListener::bind`] creates it, and
/// [`accept`](Listener::accept) returns the next connection. The [module documentation](super) has
/// an example.
pub type TcpListener = Listener<net::TcpListener>;

/// A TCP connection. [`TcpStream::connect`] creates it, or a [`TcpListener`] accepts it. You read
/// and write with the methods of [`Stream`].
pub type TcpStream = Stream<net::TcpStream>;

listener::kind!(
    net::TcpListener,
    net::TcpStream,
    SocketAddr,
    |it| it.set_nodelay(true),
    limit_unsent
);

/// Sets the option `TCP_NOTSENT_LOWAT`. Source: Linux manual page tcp(7).
#[cfg(target_os = "linux")]
fn limit_unsent(stream: &net::TcpStream, bytes: u32) -> io::Result<()> {
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(bytes)
}

#[cfg(not(target_os = "linux"))]
fn limit_unsent(_: &net::TcpStream, _: u32) -> io::Result<()> {
    Ok(())
}

impl TcpListener {
    /// Creates a listener on `address`. If you pass port 0, the operating system chooses a free
    /// port. Does not block.
    ///
    /// # Errors
    ///
    /// Returns an error if the address does not belong to this machine, if the port is in use, or
    /// if the process has too many open files.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::bind_with(address, |_| Ok(()))
    }

    /// Creates `count` listeners that share an address, for example one for each pool of a server.
    /// If you pass port 0, the operating system chooses a free port for all of them.
    ///
    /// On Linux and Android, each listener has a queue of its own (`SO_REUSEPORT`), and the kernel
    /// distributes new connections among the queues by a hash of their addresses. Connections that
    /// wait in the queue of a listener are closed when you drop it. Another process of the same
    /// user may bind the address as well.
    ///
    /// On other systems, all listeners share one queue, and the first to accept gets a connection.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`bind`](Self::bind).
    ///
    /// ```
    /// use creel::net::TcpListener;
    ///
    /// let listeners = TcpListener::bind_each("127.0.0.1:0".parse()?, 2)?;
    /// assert_eq!(listeners[0].local_addr()?, listeners[1].local_addr()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bind_each(address: SocketAddr, count: usize) -> io::Result<Vec<Self>> {
        let mut listeners = Vec::with_capacity(count);
        if count > 0 {
            listeners.push(Self::bind_with(address, share_port)?);
        }
        for _ in 1..count {
            let first: &Self = &listeners[0];
            #[cfg(any(target_os = "linux", target_os = "android"))]
            let next = Self::bind_with(first.local_addr()?, share_port)?;
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            let next = Self::from_std(first.as_std().try_clone()?)?;
            listeners.push(next);
        }
        Ok(listeners)
    }

    /// Creates a listener. `set` sets further options before it is bound.
    fn bind_with(
        address: SocketAddr,
        set: impl FnOnce(&Socket) -> io::Result<()>,
    ) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        // On Windows, this option would let two listeners share the port.
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        set(&socket)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Self::from_std(socket.into())
    }
}

/// Lets listeners share a port, if the kernel then distributes connections among them.
fn share_port(_socket: &Socket) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    _socket.set_reuse_port(true)?;
    Ok(())
}

impl TcpStream {
    /// Connects to the listener at the address `to`. Waits until the connection is established.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, the connection is closed, if there is
    /// one.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing listens at the address, if the network or a firewall blocks the
    /// connection, or if the process has too many open files.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn connect(to: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        match socket.connect(&to.into()) {
            Err(error) if !is_under_way(&error) => return Err(error),
            _ => {}
        }
        let io = Io::<net::TcpStream>::new_stream(socket.into());
        io.run(Direction::Write, |stream| {
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            // Until the connection is established, it has no peer address. We then wait for the
            // event and check again.
            match stream.peer_addr() {
                Ok(_) => Ok(((), Left::More)),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                Err(error) => Err(error),
            }
        })
        .await?;
        Ok(Stream { io })
    }

    /// Sets whether the operating system sends small writes immediately (`TCP_NODELAY`), instead of
    /// waiting for more data to send with them.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.as_std().set_nodelay(on)
    }

    /// Returns whether the operating system sends small writes immediately (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.as_std().nodelay()
    }
}

/// Returns whether `error` means that the connect continues in the background.
fn is_under_way(error: &io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(libc::EINPROGRESS) {
        return true;
    }
    error.kind() == io::ErrorKind::WouldBlock
}
