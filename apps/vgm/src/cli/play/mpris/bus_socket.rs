//! A D-Bus socket that uses Creel's network types. By default, zbus starts an event loop on a
//! thread of its own. It does not if we give it a socket that reads and writes by itself.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream as StdStream};
use std::sync::Arc;

use async_trait::async_trait;
use creel::net::UnixStream;
use zbus::Address;
use zbus::address::transport::{Transport, UnixSocket};
use zbus::connection::socket::{ReadHalf, Socket, Split, WriteHalf};

/// A connection to a bus.
#[derive(Clone)]
pub struct BusSocket(Arc<UnixStream>);

impl BusSocket {
    /// Connects to the session bus. This blocks only as long as connecting to a local socket takes.
    ///
    /// # Errors
    ///
    /// Fails if there is no session bus, or if it does not use a Unix socket.
    pub fn to_session() -> io::Result<BusSocket> {
        let address = Address::session().map_err(io::Error::other)?;
        let Transport::Unix(unix) = address.transport() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let address = match unix.path() {
            UnixSocket::File(path) => SocketAddr::from_pathname(path)?,
            #[cfg(target_os = "linux")]
            UnixSocket::Abstract(name) => SocketAddr::from_abstract_name(name.as_encoded_bytes())?,
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let stream = StdStream::connect_addr(&address)?;
        Ok(BusSocket(Arc::new(UnixStream::from_std(stream)?)))
    }
}

impl fmt::Debug for BusSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BusSocket")
    }
}

impl Socket for BusSocket {
    type ReadHalf = BusSocket;
    type WriteHalf = BusSocket;

    fn split(self) -> Split<BusSocket, BusSocket> {
        Split::new(self.clone(), self)
    }
}

#[async_trait]
impl ReadHalf for BusSocket {
    async fn recvmsg(&mut self, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        Ok((self.0.read(bytes).await?, Vec::new()))
    }
}

#[async_trait]
impl WriteHalf for BusSocket {
    async fn sendmsg(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        if !fds.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.0.write(bytes).await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.0.shutdown_with(std::net::Shutdown::Both)
    }
}
