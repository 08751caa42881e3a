//! A connection, of whatever kind: what TCP and Unix streams have in common.

use super::io::{Io, Left};
use super::poller::AsSource;
use super::source::Direction;
use socket2::SockRef;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Where the other side is gone, an error is enough.
#[cfg(target_os = "linux")]
const SEND_FLAGS: i32 = libc::MSG_NOSIGNAL;
/// The sockets of `std` are made so that they send no signal.
#[cfg(not(target_os = "linux"))]
const SEND_FLAGS: i32 = 0;

/// The system's connection in a [`Stream`]: TCP's or, on Unix, that of a path.
pub trait Connection: sealed::Connection + fmt::Debug + Send + Sync + 'static {
    /// Where its ends are.
    type Address: fmt::Debug + Send + Sync + 'static;

    #[doc(hidden)]
    fn make_nonblocking(&self) -> io::Result<()>;
    /// What is written goes out at once, as it does in all but TCP.
    #[doc(hidden)]
    fn without_delay(&self) -> io::Result<()>;
    #[doc(hidden)]
    fn own_address(&self) -> io::Result<Self::Address>;
    #[doc(hidden)]
    fn others_address(&self) -> io::Result<Self::Address>;
}

pub(super) mod sealed {
    /// Only this crate has any.
    pub trait Connection: super::AsSource {}
}

/// A connection: [`TcpStream`](super::TcpStream) or, on Unix, `UnixStream`.
///
/// All verbs take `&self`, so that one task may read while another writes.
pub struct Stream<S: Connection> {
    pub(super) io: Io<S>,
}

impl<S: Connection> Stream<S> {
    /// Takes over a connection that the program has made its own way.
    ///
    /// # Errors
    ///
    /// If it cannot be made non-blocking.
    ///
    /// ```
    /// use creel::net::TcpStream;
    ///
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = std::net::TcpStream::connect(listener.local_addr()?)?;
    /// let stream = TcpStream::from_std(stream)?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn from_std(stream: S) -> io::Result<Self> {
        stream.make_nonblocking()?;
        Ok(Stream {
            io: Io::new_stream(stream),
        })
    }

    /// The connection itself, for its options. Leave it non-blocking.
    pub fn as_std(&self) -> &S {
        self.io.socket()
    }

    /// The address of this side.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn local_addr(&self) -> io::Result<S::Address> {
        self.as_std().own_address()
    }

    /// The address of the other side.
    ///
    /// # Errors
    ///
    /// The system's: the connection is broken.
    pub fn peer_addr(&self) -> io::Result<S::Address> {
        self.as_std().others_address()
    }

    /// Reads what there is, at least one byte; 0 at the other side's end.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has read nothing.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    ///
    /// ```
    /// use creel::net::{TcpListener, TcpStream};
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// pool.block_on(async {
    ///     let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
    ///     let client = TcpStream::connect(listener.local_addr()?).await?;
    ///     let (server, _) = listener.accept().await?;
    ///     client.write_all(b"hello").await?;
    ///     let mut bytes = [0; 16];
    ///     assert_eq!(server.read(&mut bytes).await?, 5);
    ///     drop(client);
    ///     assert_eq!(server.read(&mut bytes).await?, 0);
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = |stream: &S| read(stream, bytes);
        self.io.run(Direction::Read, read).await
    }

    /// As [`read`](Self::read), for futures written by hand: `cx` is woken when there is
    /// something, unless another such future has polled since.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    #[track_caller]
    pub fn poll_read(&self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io
            .poll(cx, Direction::Read, |stream| read(stream, bytes))
    }

    /// As [`poll_read`](Self::poll_read), into memory that need not be initialized: as many bytes as
    /// it says are, from the first on.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    #[track_caller]
    pub fn poll_read_uninit(
        &self,
        cx: &mut Context<'_>,
        bytes: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll(cx, Direction::Read, |stream| {
            let asked = bytes.len();
            if asked == 0 {
                return Ok((0, Left::More));
            }
            Ok(told(SockRef::from(stream).recv(bytes)?, asked))
        })
    }

    /// As [`poll_read`](Self::poll_read), into several places, one after the other.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    #[track_caller]
    pub fn poll_read_vectored(
        &self,
        cx: &mut Context<'_>,
        places: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let asked = places.iter().map(|place| place.len()).sum();
        if asked == 0 {
            return Poll::Ready(Ok(0));
        }
        self.io.poll(cx, Direction::Read, |stream| {
            let read = (&*SockRef::from(stream)).read_vectored(places)?;
            Ok(told(read, asked))
        })
    }

    /// Reads until `bytes` is full.
    ///
    /// # Cancel safety
    ///
    /// Not safe: cancelled, an unknown number of bytes has been read, and they are lost. Use
    /// [`read`](Self::read) in a loop where that matters.
    ///
    /// # Errors
    ///
    /// If the connection is broken, or ends before that.
    pub async fn read_exact(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.read(&mut bytes[filled..]).await? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(())
    }

    /// Writes what the socket's buffer has room for, at least one byte.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has written nothing.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let write = |stream: &S| write(stream, bytes);
        self.io.run(Direction::Write, write).await
    }

    /// As [`write`](Self::write), for futures written by hand: `cx` is woken when there is room,
    /// unless another such future has polled since.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    #[track_caller]
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.io
            .poll(cx, Direction::Write, |stream| write(stream, bytes))
    }

    /// As [`write`](Self::write), of several pieces, one after the other, in one call.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has written nothing.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub async fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let write = |stream: &S| write_pieces(stream, pieces);
        self.io.run(Direction::Write, write).await
    }

    /// As [`poll_write`](Self::poll_write), of several pieces, one after the other.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    #[track_caller]
    pub fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io
            .poll(cx, Direction::Write, |stream| write_pieces(stream, pieces))
    }

    /// Writes all of `bytes`.
    ///
    /// # Cancel safety
    ///
    /// Not safe: cancelled, an unknown part of `bytes` has been written. Use [`write`](Self::write) in
    /// a loop where that matters.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            match self.write(&bytes[written..]).await? {
                0 => return Err(ErrorKind::WriteZero.into()),
                more => written += more,
            }
        }
        Ok(())
    }

    /// Waits until there may be something to read, or the other side's end. Takes nothing:
    /// [`try_read`](Self::try_read) does.
    ///
    /// # Cancel safety
    ///
    /// Safe: it takes nothing.
    ///
    /// # Errors
    ///
    /// If the system's poller refuses the connection.
    ///
    /// ```
    /// use creel::net::{TcpListener, TcpStream};
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// pool.block_on(async {
    ///     let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
    ///     let client = TcpStream::connect(listener.local_addr()?).await?;
    ///     let (server, _) = listener.accept().await?;
    ///     let mut bytes = [0; 16];
    ///     let early = server.try_read(&mut bytes).unwrap_err();
    ///     assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
    ///     client.writable().await?;
    ///     assert_eq!(client.try_write(b"hello")?, 5);
    ///     server.readable().await?;
    ///     assert_eq!(server.try_read(&mut bytes)?, 5);
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Direction::Read).await
    }

    /// Waits until there may be room to write, or the connection is broken, as
    /// [`readable`](Self::readable) does.
    ///
    /// # Cancel safety
    ///
    /// Safe: it writes nothing.
    ///
    /// # Errors
    ///
    /// If the system's poller refuses the connection.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await
    }

    /// Reads what there is, if there is anything; never waits.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](ErrorKind::WouldBlock) if there is nothing; or the connection is broken.
    pub fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.io
            .try_now(Direction::Read, |stream| read(stream, bytes))
    }

    /// Writes what there is room for, if there is any; never waits.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](ErrorKind::WouldBlock) if there is none; or the connection is broken.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.io
            .try_now(Direction::Write, |stream| write(stream, bytes))
    }

    /// Ends one or both directions; the other side reads the end.
    ///
    /// # Errors
    ///
    /// If the connection is broken already.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        SockRef::from(self.as_std()).shutdown(how)
    }

    /// Ends the direction that writes, as the traits of other crates have it: the other side may
    /// have been faster.
    #[cfg(any(feature = "futures-io", feature = "tokio-io"))]
    pub(super) fn close(&self) -> Poll<io::Result<()>> {
        match self.shutdown(Shutdown::Write) {
            Err(error) if error.kind() == ErrorKind::NotConnected => Poll::Ready(Ok(())),
            done => Poll::Ready(done),
        }
    }

    /// Takes it apart into a half that reads and one that writes, for two tasks that own theirs.
    ///
    /// All verbs take `&self`, so where one task does both, or an `Arc` will do, it need not be taken
    /// apart.
    ///
    /// ```
    /// use creel::net::{TcpListener, TcpStream};
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// pool.block_on(async {
    ///     let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
    ///     let client = TcpStream::connect(listener.local_addr()?).await?;
    ///     let (server, _) = listener.accept().await?;
    ///     let (reads, writes) = client.into_split();
    ///     writes.write_all(b"all of it").await?;
    ///     drop(writes); // the other side reads the end
    ///     let mut bytes = [0; 16];
    ///     server.read_exact(&mut bytes[..9]).await?;
    ///     assert_eq!(server.read(&mut bytes).await?, 0);
    ///     server.write_all(b"thanks").await?;
    ///     assert_eq!(reads.read(&mut bytes).await?, 6);
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_split(self) -> (ReadHalf<S>, WriteHalf<S>) {
        let stream = Arc::new(self);
        let reads = ReadHalf(Arc::clone(&stream));
        (reads, WriteHalf(stream))
    }
}

impl<S: Connection> fmt::Debug for Stream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(self.as_std()).finish()
    }
}

/// The half of a [`Stream`] that reads.
#[derive(Debug)]
pub struct ReadHalf<S: Connection>(pub(super) Arc<Stream<S>>);

impl<S: Connection> ReadHalf<S> {
    /// As [`Stream::read`].
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has read nothing.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub async fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes).await
    }

    /// As [`Stream::read_exact`].
    ///
    /// # Cancel safety
    ///
    /// Not safe: cancelled, an unknown number of bytes has been read, and they are lost. Use
    /// [`read`](Self::read) in a loop where that matters.
    ///
    /// # Errors
    ///
    /// If the connection is broken, or ends before that.
    pub async fn read_exact(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(bytes).await
    }

    /// The whole of it.
    pub fn stream(&self) -> &Stream<S> {
        &self.0
    }
}

/// The half of a [`Stream`] that writes. Dropped, it ends its direction: the other side reads the
/// end.
#[derive(Debug)]
pub struct WriteHalf<S: Connection>(pub(super) Arc<Stream<S>>);

impl<S: Connection> WriteHalf<S> {
    /// As [`Stream::write`].
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has written nothing.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).await
    }

    /// As [`Stream::write_all`].
    ///
    /// # Cancel safety
    ///
    /// Not safe: cancelled, an unknown part of `bytes` has been written. Use [`write`](Self::write) in
    /// a loop where that matters.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }

    /// The whole of it.
    pub fn stream(&self) -> &Stream<S> {
        &self.0
    }
}

impl<S: Connection> Drop for WriteHalf<S> {
    fn drop(&mut self) {
        // It may be broken already.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

fn read<S: Connection>(stream: &S, bytes: &mut [u8]) -> io::Result<(usize, Left)> {
    let asked = bytes.len();
    if asked == 0 {
        return Ok((0, Left::More));
    }
    let read = (&*SockRef::from(stream)).read(bytes)?;
    Ok(told(read, asked))
}

/// Less than asked for empties the buffer.
fn told(read: usize, asked: usize) -> (usize, Left) {
    match read < asked {
        true => (read, Left::Drained),
        false => (read, Left::More),
    }
}

fn write<S: Connection>(stream: &S, bytes: &[u8]) -> io::Result<(usize, Left)> {
    let written = SockRef::from(stream).send_with_flags(bytes, SEND_FLAGS)?;
    Ok(taken(written, bytes.len()))
}

fn write_pieces<S: Connection>(stream: &S, pieces: &[IoSlice<'_>]) -> io::Result<(usize, Left)> {
    let asked = pieces.iter().map(|piece| piece.len()).sum();
    let written = SockRef::from(stream).send_vectored_with_flags(pieces, SEND_FLAGS)?;
    Ok(taken(written, asked))
}

/// Less than was to be written fills the buffer.
fn taken(written: usize, asked: usize) -> (usize, Left) {
    match written < asked {
        true => (written, Left::Nothing),
        false => (written, Left::More),
    }
}
