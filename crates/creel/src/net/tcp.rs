//! TCP: listener and stream.

use super::io::{Io, Left};
use super::source::Direction;
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{self, Shutdown, SocketAddr};
use std::task::{Context, Poll};

/// The queue of connections not yet accepted.
const BACKLOG: i32 = 1024;

/// Takes TCP connections.
pub struct TcpListener {
    io: Io<net::TcpListener>,
}

impl TcpListener {
    /// Listens on `address`; port 0 takes any free one. Does not block.
    ///
    /// # Errors
    ///
    /// If the address is not this machine's, the port is in use, or too many files are open.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        // On Windows this would let two listeners share the port.
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener {
            io: Io::new(socket.into()),
        })
    }

    /// The address it listens on.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.socket().local_addr()
    }

    /// Takes the next connection. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The system's: too many open files among them, after which the listener is still good.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let accept = |listener: &net::TcpListener| Ok((listener.accept()?, Left::Unknown));
        let (stream, from) = self.io.run(Direction::Read, accept).await?;
        Ok((TcpStream::from_std(stream)?, from))
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TcpListener")
            .field(self.io.socket())
            .finish()
    }
}

/// A TCP connection.
///
/// All verbs take `&self`, so that one task may read while another writes.
pub struct TcpStream {
    io: Io<net::TcpStream>,
}

impl TcpStream {
    /// Connects to `to`. Dropping the future closes the connection again.
    ///
    /// # Errors
    ///
    /// If nobody listens there, the way is barred, or too many files are open.
    pub async fn connect(to: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        match socket.connect(&to.into()) {
            Err(error) if !is_under_way(&error) => return Err(error),
            _ => {}
        }
        let io = Io::<net::TcpStream>::new(socket.into());
        io.run(Direction::Write, |stream| {
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            // Until it stands there is no peer, and the event tells when to look again.
            match stream.peer_addr() {
                Ok(_) => Ok(((), Left::More)),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                Err(error) => Err(error),
            }
        })
        .await?;
        Ok(TcpStream { io })
    }

    /// Takes over a connection that the program has made its own way.
    ///
    /// # Errors
    ///
    /// If it cannot be made non-blocking.
    pub fn from_std(stream: net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(TcpStream {
            io: Io::new(stream),
        })
    }

    /// The connection itself, for its options. Leave it non-blocking.
    pub fn as_std(&self) -> &net::TcpStream {
        self.io.socket()
    }

    /// Reads what there is, at least one byte; 0 at the other side's end. Cancel-safe.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub async fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = |stream: &net::TcpStream| read_some(stream, bytes);
        self.io.run(Direction::Read, read).await
    }

    /// As [`read`](Self::read), for futures written by hand: `cx` is woken when there is
    /// something, unless another such future has polled since.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub fn poll_read(&self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io
            .poll(cx, Direction::Read, |stream| read_some(stream, bytes))
    }

    /// Reads until `bytes` is full. Cancelled, what had been read is lost.
    ///
    /// # Errors
    ///
    /// If the connection is broken, or ends before that.
    pub async fn read_exact(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.read(&mut bytes[filled..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(())
    }

    /// Writes what the socket's buffer has room for, at least one byte. Cancel-safe.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.io
            .run(Direction::Write, |mut stream| {
                let written = stream.write(bytes)?;
                let left = if written < bytes.len() {
                    Left::Nothing
                } else {
                    Left::More
                };
                Ok((written, left))
            })
            .await
    }

    /// Writes all of `bytes`. Cancelled, it is unknown how much has been written.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            match self.write(&bytes[written..]).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                more => written += more,
            }
        }
        Ok(())
    }

    /// Ends one or both directions; the other side reads the end.
    ///
    /// # Errors
    ///
    /// If the connection is broken already.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.as_std().shutdown(how)
    }
}

fn read_some(mut stream: &net::TcpStream, bytes: &mut [u8]) -> io::Result<(usize, Left)> {
    let read = stream.read(bytes)?;
    // Less than asked for empties the buffer, but the end may lie behind it, told of by the same
    // edge.
    let left = if read < bytes.len() {
        Left::Unknown
    } else {
        Left::More
    };
    Ok((read, left))
}

/// A connect that goes on after the call has returned.
fn is_under_way(error: &io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(libc::EINPROGRESS) {
        return true;
    }
    error.kind() == io::ErrorKind::WouldBlock
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TcpStream").field(self.as_std()).finish()
    }
}
