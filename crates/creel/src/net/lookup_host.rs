//! Host name lookup. A lookup can block, so it runs on other threads than the workers of the pool.

use super::tcp::TcpStream;
use crate::blocking::look_up;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Looks up a host name with the resolver of the operating system and returns its addresses. The
/// lookup runs on one of up to 32 threads that are reserved for lookups. Therefore it does not wait
/// for [blocking](crate::blocking) calls of your program.
///
/// # Cancel safety
///
/// Safe. A lookup that has already started continues in the background, and its answer is lost.
///
/// # Errors
///
/// Returns the error of the operating system, for example if the name does not exist or if no name
/// server responds.
///
/// ```
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let found = pool.block_on(creel::net::lookup_host("localhost:80"))?;
/// assert!(found.iter().all(|address| address.port() == 80));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn lookup_host(name: impl ToSocketAddrs + Send + 'static) -> io::Result<Vec<SocketAddr>> {
    look_up(move || Ok(name.to_socket_addrs()?.collect())).await
}

impl TcpStream {
    /// Looks up a host name and connects to the first of its addresses that accepts the connection.
    /// Tries the addresses one after the other.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, the connection is closed, if there is
    /// one.
    ///
    /// # Errors
    ///
    /// Returns the error of [`lookup_host`], or the error of the last address if no address accepts
    /// the connection. Returns an error of kind [`NotFound`](io::ErrorKind::NotFound) if the name
    /// has no address.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    ///
    /// ```
    /// use creel::net::TcpStream;
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let port = listener.local_addr()?.port();
    /// let stream = pool.block_on(TcpStream::connect_to(("localhost", port)))?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn connect_to(name: impl ToSocketAddrs + Send + 'static) -> io::Result<Self> {
        let mut last = None;
        for address in lookup_host(name).await? {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        Err(last.unwrap_or_else(none))
    }
}
