//! Names: looked up where that may block, off the pool's workers.

use super::tcp::TcpStream;
use crate::blocking::look_up;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Looks a name up, as the system does, on one of up to 32 threads for names. It does not wait for
/// the program's [blocking](crate::blocking) calls.
///
/// # Cancel safety
///
/// Safe: the look-up goes on in the background, and its answer is lost.
///
/// # Errors
///
/// The system's: there is no such name, or nobody answers.
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
    /// Looks a name up and connects to the first of its addresses that takes it.
    ///
    /// # Cancel safety
    ///
    /// Safe: the connection is closed, if there is one.
    ///
    /// # Errors
    ///
    /// Those of [`lookup_host`], or that of the last address.
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
