//! TCP: what it has that other streams have not.

use super::io::{Io, Left};
use super::listener::{self, BACKLOG, Listen, Listener};
use super::source::Direction;
use super::stream::{self, Connection, Stream};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{self, SocketAddr};

/// Takes TCP connections.
pub type TcpListener = Listener<net::TcpListener>;

/// A TCP connection.
pub type TcpStream = Stream<net::TcpStream>;

listener::kind!(net::TcpListener, net::TcpStream, SocketAddr, |it| it
    .set_nodelay(true));

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
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Self::from_std(socket.into())
    }
}

impl TcpStream {
    /// Connects to `to`.
    ///
    /// # Cancel safety
    ///
    /// Safe: the connection is closed, if there is one.
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
        let io = Io::<net::TcpStream>::new_stream(socket.into());
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
        Ok(Stream { io })
    }

    /// Sends small pieces at once instead of waiting for more, if `on`.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.as_std().set_nodelay(on)
    }

    /// Whether small pieces are sent at once.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.as_std().nodelay()
    }
}

/// A connect that goes on after the call has returned.
fn is_under_way(error: &io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(libc::EINPROGRESS) {
        return true;
    }
    error.kind() == io::ErrorKind::WouldBlock
}
