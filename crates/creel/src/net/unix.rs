//! Unix sockets: listeners, streams and datagram sockets. Use them between processes of one
//! machine.
//!
//! `listener.rs` and `stream.rs` have most operations. This file adds paths, abstract names, and
//! datagram sockets.

use super::io::{Io, Left};
use super::listener::{self, BACKLOG, Listen, Listener};
use super::source::Direction;
use super::stream::{self, Connection, Stream};
use crate::{blocking::blocking, time::sleep};
use socket2::{Domain, SockAddr, Socket, Type};
use std::fmt;
use std::io::{self, ErrorKind};
#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::task::{Context, Poll};
use std::time::Duration;

/// A socket that accepts connections at a path. [`UnixListener::bind`] creates it.
pub type UnixListener = Listener<net::UnixListener>;

/// A connection to a Unix socket. [`UnixStream::connect`] or [`UnixStream::pair`] creates it, or a
/// [`UnixListener`] accepts it. You read and write with the methods of [`Stream`].
pub type UnixStream = Stream<net::UnixStream>;

listener::kind!(
    net::UnixListener,
    net::UnixStream,
    SocketAddr,
    |_| Ok(()),
    |_, _| Ok(())
);

impl UnixListener {
    /// Creates a listener at `path`, which must not exist yet. Does not block.
    ///
    /// On Linux and Android, a path that begins with a NUL byte is an *abstract* name. It has no
    /// file, and the operating system frees it when the socket is closed. You can pass it to
    /// [`UnixStream::connect`] as well.
    ///
    /// ```
    /// # #[cfg(any(target_os = "linux", target_os = "android"))]
    /// # {
    /// use creel::net::{UnixListener, UnixStream};
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let name = format!("\0creel-{}", std::process::id());
    /// let listener = UnixListener::bind(&name)?;
    /// pool.block_on(UnixStream::connect(&name))?;
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the path exists, is too long or cannot be created, or if the process has
    /// too many open files.
    ///
    /// ```
    /// use creel::net::{UnixListener, UnixStream};
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let path = std::env::temp_dir().join(format!("creel-{}", std::process::id()));
    /// let (bound, at) = (path.clone(), path.clone());
    /// pool.block_on(async move {
    ///     let listener = UnixListener::bind(bound)?;
    ///     let client = UnixStream::connect(&at).await?;
    ///     let (server, _) = listener.accept().await?;
    ///     client.write_all(b"hello").await?;
    ///     let mut bytes = [0; 5];
    ///     server.read_exact(&mut bytes).await?;
    ///     assert_eq!(&bytes, b"hello");
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&at(path.as_ref())?)?;
        socket.listen(BACKLOG)?;
        Self::from_std(OwnedFd::from(socket).into())
    }
}

/// Returns the address of a path, or of the abstract name that follows a NUL byte.
///
/// # Errors
///
/// Returns an error if the path is too long, or if a path that is not an abstract name contains a
/// NUL byte.
fn address(path: &Path) -> io::Result<SocketAddr> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let [0, name @ ..] = path.as_os_str().as_bytes() {
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(path)
}

/// Returns the address of a path or abstract name in the type of `socket2`.
fn at(path: &Path) -> io::Result<SockAddr> {
    // `socket2` would cut the path at a NUL byte, so we first check that the path is valid.
    address(path)?;
    SockAddr::unix(path)
}

impl UnixStream {
    /// Connects to the listener at `path`. See [`UnixListener::bind`] for abstract names.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, the connection is closed, if there is
    /// one.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing listens at the path, or if the process has too many open files.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        let path = path.as_ref();
        match socket.connect(&at(path)?) {
            Ok(()) => Self::from_std(OwnedFd::from(socket).into()),
            // The queue of the listener is full, and no poller can report when there is room. We
            // therefore connect on a thread for blocking calls.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let at = address(path)?;
                let connected = blocking(move || net::UnixStream::connect_addr(&at)).await;
                Self::from_std(connected?)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates two streams that are connected to each other.
    ///
    /// # Errors
    ///
    /// Returns an error if the process has too many open files.
    ///
    /// ```
    /// use creel::net::UnixStream;
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let (a, b) = UnixStream::pair()?;
    /// pool.block_on(async {
    ///     a.write_all(b"hello").await?;
    ///     let mut bytes = [0; 5];
    ///     b.read_exact(&mut bytes).await
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = net::UnixStream::pair()?;
        Ok((Self::from_std(a)?, Self::from_std(b)?))
    }
}

/// A Unix datagram socket, with or without a path. Use [`UdpSocket`](super::UdpSocket) instead if
/// the other side may be on another machine.
///
/// All methods take `&self`, so that several tasks can share a socket. No method blocks the thread.
pub struct UnixDatagram {
    io: Io<net::UnixDatagram>,
}

impl UnixDatagram {
    /// Creates a socket at `path`, which must not exist yet. Like the path of a [`UnixListener`],
    /// it can be an abstract name.
    ///
    /// # Errors
    ///
    /// Returns an error if the path exists or cannot be created, or if the process has too many
    /// open files.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(net::UnixDatagram::bind_addr(&address(path.as_ref())?)?)
    }

    /// Creates a socket without a path. It can send, but receivers cannot reply to it.
    ///
    /// # Errors
    ///
    /// Returns an error if the process has too many open files.
    pub fn unbound() -> io::Result<Self> {
        Self::from_std(net::UnixDatagram::unbound()?)
    }

    /// Creates two sockets that are connected to each other.
    ///
    /// # Errors
    ///
    /// Returns an error if the process has too many open files.
    ///
    /// ```
    /// use creel::net::UnixDatagram;
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let (a, b) = UnixDatagram::pair()?;
    /// pool.block_on(async {
    ///     a.send(b"hello").await?;
    ///     assert_eq!(b.recv(&mut [0; 16]).await?, 5);
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = net::UnixDatagram::pair()?;
        Ok((Self::from_std(a)?, Self::from_std(b)?))
    }

    /// Creates a socket from one of the standard library, for example one that you configured
    /// yourself. Makes it non-blocking.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be made non-blocking.
    pub fn from_std(socket: net::UnixDatagram) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(UnixDatagram {
            io: Io::new(socket),
        })
    }

    /// Returns the socket of the standard library, for example to set its options. Do not make it
    /// blocking, because the `async` methods would then block their thread.
    pub fn as_std(&self) -> &net::UnixDatagram {
        self.io.socket()
    }

    /// Sets the path to which [`send`](Self::send) sends.
    ///
    /// # Errors
    ///
    /// Returns an error if the path is not valid, or the error of the operating system, for example
    /// if there is no socket at the path.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.as_std().connect_addr(&address(path.as_ref())?)
    }

    /// Sends a datagram to the connected socket and returns the number of bytes sent. Waits while
    /// the buffer of the receiver is full.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been sent.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let send = |socket: &net::UnixDatagram| Ok((socket.send(bytes)?, Left::More));
        self.io.run(Direction::Write, send).await
    }

    /// Sends a datagram to the socket at `path` and returns the number of bytes sent. Waits while
    /// the buffer of the receiver is full.
    ///
    /// No poller can report that there is room in the buffer of another socket. Therefore this
    /// method sleeps and tries again, first after 1 ms, then after 2 ms, and finally every 16 ms.
    /// If you need a shorter delay, use [`connect`](Self::connect) and [`send`](Self::send).
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been sent.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        let to = address(path.as_ref())?;
        let mut pause = Duration::from_millis(1);
        loop {
            match self.as_std().send_to_addr(bytes, &to) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    sleep(pause).await;
                    pause = (2 * pause).min(Duration::from_millis(16));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                sent => return sent,
            }
        }
    }

    /// Receives a datagram into `bytes` and returns its length. Waits until there is one. Bytes
    /// that do not fit into `bytes` are lost.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been received.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn recv(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let recv = |socket: &net::UnixDatagram| Ok((socket.recv(bytes)?, Left::Unknown));
        self.io.run(Direction::Read, recv).await
    }

    /// Receives a datagram like [`recv`](Self::recv), for futures written by hand. If there is
    /// none, it arranges that the task of `cx` is woken when one arrives. If several such futures
    /// wait, only the last one that polled is woken.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    #[track_caller]
    pub fn poll_recv(&self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io.poll(cx, Direction::Read, |socket| {
            Ok((socket.recv(bytes)?, Left::Unknown))
        })
    }

    /// Waits until there may be a datagram. It receives nothing.
    ///
    /// # Cancel safety
    ///
    /// Safe. It receives nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot poll the socket.
    ///
    /// # Panics
    ///
    /// May panic on a thread that is neither a worker of a pool nor inside `block_on`. See the
    /// [module documentation](crate::net).
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Direction::Read).await
    }

    /// Waits until there may be room to send. It sends nothing.
    ///
    /// # Cancel safety
    ///
    /// Safe. It sends nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot poll the socket.
    ///
    /// # Panics
    ///
    /// May panic on a thread that is neither a worker of a pool nor inside `block_on`. See the
    /// [module documentation](crate::net).
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await
    }

    /// Receives a datagram into `bytes` and returns its length and its sender. Waits until there is
    /// one. Bytes that do not fit into `bytes` are lost.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been received.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn recv_from(&self, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let recv = |socket: &net::UnixDatagram| Ok((socket.recv_from(bytes)?, Left::Unknown));
        self.io.run(Direction::Read, recv).await
    }
}

impl fmt::Debug for UnixDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnixDatagram").field(self.as_std()).finish()
    }
}
