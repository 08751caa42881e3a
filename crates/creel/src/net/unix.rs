//! Unix sockets: streams and listeners as TCP's, and datagrams.

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

/// Takes connections at a path.
pub type UnixListener = Listener<net::UnixListener>;

/// A connection by a path.
pub type UnixStream = Stream<net::UnixStream>;

listener::kind!(net::UnixListener, net::UnixStream, SocketAddr, |_| Ok(()));

impl UnixListener {
    /// Listens at `path`, which must not exist yet. Does not block.
    ///
    /// On Linux and Android, a path that begins with a NUL byte is an *abstract* name: it has no
    /// file, and the system frees it with the socket. [`UnixStream::connect`] takes it, too.
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
    /// If the path exists, is too long or cannot be made, or too many files are open.
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

/// The address of a path, or of the abstract name after a NUL byte.
///
/// # Errors
///
/// If it is too long, or a path has a NUL inside.
fn address(path: &Path) -> io::Result<SocketAddr> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let [0, name @ ..] = path.as_os_str().as_bytes() {
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(path)
}

/// The same as `socket2` has it.
fn at(path: &Path) -> io::Result<SockAddr> {
    // It cuts a path at a NUL inside, which this refuses.
    address(path)?;
    SockAddr::unix(path)
}

impl UnixStream {
    /// Connects to the listener at `path`; see [`UnixListener::bind`] for abstract names.
    ///
    /// # Cancel safety
    ///
    /// Safe: the connection is closed, if there is one.
    ///
    /// # Errors
    ///
    /// If nobody does, or too many files are open.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        let path = path.as_ref();
        match socket.connect(&at(path)?) {
            Ok(()) => Self::from_std(OwnedFd::from(socket).into()),
            // The listener's queue is full, and no poller tells when there is room.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let at = address(path)?;
                let connected = blocking(move || net::UnixStream::connect_addr(&at)).await;
                Self::from_std(connected?)
            }
            Err(error) => Err(error),
        }
    }

    /// Two that are connected to each other.
    ///
    /// # Errors
    ///
    /// If too many files are open.
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

/// A socket of datagrams at a path, or without one.
///
/// All verbs take `&self`; none blocks the thread.
pub struct UnixDatagram {
    io: Io<net::UnixDatagram>,
}

impl UnixDatagram {
    /// Opens a socket at `path`, which must not exist yet. As for a [`UnixListener`], it may be an
    /// abstract name.
    ///
    /// # Errors
    ///
    /// If the path exists or cannot be made, or too many files are open.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(net::UnixDatagram::bind_addr(&address(path.as_ref())?)?)
    }

    /// Opens a socket without a path: it sends, and nobody can answer.
    ///
    /// # Errors
    ///
    /// If too many files are open.
    pub fn unbound() -> io::Result<Self> {
        Self::from_std(net::UnixDatagram::unbound()?)
    }

    /// Two that are connected to each other.
    ///
    /// # Errors
    ///
    /// If too many files are open.
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

    /// Takes over a socket that the program has made its own way.
    ///
    /// # Errors
    ///
    /// If it cannot be made non-blocking.
    pub fn from_std(socket: net::UnixDatagram) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(UnixDatagram {
            io: Io::new(socket),
        })
    }

    /// The socket itself, for its options. Leave it non-blocking.
    pub fn as_std(&self) -> &net::UnixDatagram {
        self.io.socket()
    }

    /// Sets where [`send`](Self::send) sends to.
    ///
    /// # Errors
    ///
    /// If nobody is there.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.as_std().connect_addr(&address(path.as_ref())?)
    }

    /// Sends a datagram to where it is connected; waits while the receiver's buffer is full.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has sent nothing.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let send = |socket: &net::UnixDatagram| Ok((socket.send(bytes)?, Left::More));
        self.io.run(Direction::Write, send).await
    }

    /// Sends a datagram to `path`; waits while the receiver's buffer is full. No poller tells of
    /// room there, so it tries again after 1 ms, then 2, and every 16 in the end; where that is too
    /// late, connect.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has sent nothing.
    ///
    /// # Errors
    ///
    /// The system's.
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

    /// Receives a datagram; what does not fit into `bytes` is lost.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has received nothing.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn recv(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let recv = |socket: &net::UnixDatagram| Ok((socket.recv(bytes)?, Left::Unknown));
        self.io.run(Direction::Read, recv).await
    }

    /// As [`recv`](Self::recv), for futures written by hand: `cx` is woken when there is a
    /// datagram, unless another such future has polled since.
    ///
    /// # Errors
    ///
    /// The system's.
    #[track_caller]
    pub fn poll_recv(&self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io.poll(cx, Direction::Read, |socket| {
            Ok((socket.recv(bytes)?, Left::Unknown))
        })
    }

    /// Waits until there may be a datagram, and takes none.
    ///
    /// # Cancel safety
    ///
    /// Safe: it takes nothing.
    ///
    /// # Errors
    ///
    /// If the system's poller refuses the socket.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Direction::Read).await
    }

    /// Waits until there may be room to send.
    ///
    /// # Cancel safety
    ///
    /// Safe: it sends nothing.
    ///
    /// # Errors
    ///
    /// If the system's poller refuses the socket.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await
    }

    /// Receives a datagram and tells its sender; what does not fit into `bytes` is lost.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has received nothing.
    ///
    /// # Errors
    ///
    /// The system's.
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
