//! Connections of any kind: what TCP and Unix streams have in common.
//!
//! The streams of the standard library have the same methods, but no trait in common. Therefore
//! [`Stream`] is generic over a trait of ours, [`Connection`], which other crates cannot implement.
//! `tcp.rs` and `unix.rs` add the operations that only one kind has.

use super::io::{Io, Left};
use super::poller::AsSource;
use super::source::Direction;
use super::stream_calls::{self, PIECES_MAX};
use socket2::SockRef;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A connection of the standard library that can be used in a [`Stream`]: a TCP stream or, on Unix,
/// a Unix stream. You cannot implement this trait for other types.
pub trait Connection: sealed::Connection + fmt::Debug + Send + Sync + 'static {
    /// The address type of the two ends of the connection.
    type Address: fmt::Debug + Send + Sync + 'static;

    #[doc(hidden)]
    fn make_nonblocking(&self) -> io::Result<()>;
    /// Makes the operating system send written bytes immediately. Only TCP needs this, because all
    /// other kinds do so anyway.
    #[doc(hidden)]
    fn without_delay(&self) -> io::Result<()>;
    /// Limits the number of written bytes that the operating system has not sent yet. Only TCP on
    /// Linux supports this. Other connections ignore it.
    #[doc(hidden)]
    fn limit_unsent(&self, bytes: u32) -> io::Result<()>;
    #[doc(hidden)]
    fn own_address(&self) -> io::Result<Self::Address>;
    #[doc(hidden)]
    fn others_address(&self) -> io::Result<Self::Address>;
}

pub(super) mod sealed {
    /// Prevents implementations in other crates, because other crates cannot name this trait.
    pub trait Connection: super::AsSource {}
}

/// A connection. Use it as [`TcpStream`](super::TcpStream) or, on Unix, as `UnixStream`.
///
/// All methods except [`into_split`](Self::into_split) take `&self`, so that one task can read
/// while another one writes.
pub struct Stream<S: Connection> {
    pub(super) io: Io<S>,
}

impl<S: Connection> Stream<S> {
    /// Creates a stream from a connection of the standard library, for example one that you
    /// configured yourself. Makes it non-blocking.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection cannot be made non-blocking.
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

    /// Returns the connection of the standard library, for example to set its options. Do not make
    /// it blocking, because the `async` methods would then block their thread.
    pub fn as_std(&self) -> &S {
        self.io.socket()
    }

    /// Returns the local address of the connection.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    pub fn local_addr(&self) -> io::Result<S::Address> {
        self.as_std().own_address()
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, for example if the connection is broken.
    pub fn peer_addr(&self) -> io::Result<S::Address> {
        self.as_std().others_address()
    }

    /// Reads the bytes that have arrived into `bytes` and returns their number. Waits until there
    /// is at least one byte. Returns 0 when the peer has closed its side of the connection, or if
    /// `bytes` is empty.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been read.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
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

    /// Reads like [`read`](Self::read), for futures written by hand. If nothing has arrived, it
    /// arranges that the task of `cx` is woken when something does. If several such futures wait,
    /// only the last one that polled is woken.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    #[track_caller]
    pub fn poll_read(&self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io
            .poll(cx, Direction::Read, |stream| read(stream, bytes))
    }

    /// Reads like [`poll_read`](Self::poll_read) into memory that need not be initialized. If it
    /// returns `n`, the first `n` bytes are initialized.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
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
            Ok(with_remainder(stream_calls::receive(stream, bytes)?, asked))
        })
    }

    /// Reads like [`poll_read`](Self::poll_read) into several buffers, which it fills one after the
    /// other.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    #[track_caller]
    pub fn poll_read_vectored(
        &self,
        cx: &mut Context<'_>,
        places: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let count = places.len().min(PIECES_MAX);
        let places = &mut places[..count];
        let asked = places.iter().map(|place| place.len()).sum();
        if asked == 0 {
            return Poll::Ready(Ok(0));
        }
        self.io.poll(cx, Direction::Read, |stream| {
            let read = (&*SockRef::from(stream)).read_vectored(places)?;
            Ok(with_remainder(read, asked))
        })
    }

    /// Reads until `bytes` is full.
    ///
    /// # Cancel safety
    ///
    /// Not safe. If the future is dropped before it is ready, an unknown number of bytes has been
    /// read, and they are lost. If you need to cancel, call [`read`](Self::read) in a loop instead.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken. Returns an error of kind
    /// [`UnexpectedEof`](ErrorKind::UnexpectedEof) if the connection ends before `bytes` is full.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
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

    /// Writes the part of `bytes` that fits into the buffer of the socket, and returns the number
    /// of bytes written. Waits until there is room for at least one byte.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been written.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let write = |stream: &S| write(stream, bytes);
        self.io.run(Direction::Write, write).await
    }

    /// Writes like [`write`](Self::write), for futures written by hand. If the buffer of the socket
    /// is full, it arranges that the task of `cx` is woken when there is room. If several such
    /// futures wait, only the last one that polled is woken.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    #[track_caller]
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.io
            .poll(cx, Direction::Write, |stream| write(stream, bytes))
    }

    /// Writes several buffers one after the other in one system call, like [`write`](Self::write).
    /// Returns the number of bytes written, which can be less than the total.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been written.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let write = |stream: &S| write_pieces(stream, pieces);
        self.io.run(Direction::Write, write).await
    }

    /// Writes several buffers one after the other in one system call, like
    /// [`poll_write`](Self::poll_write).
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    #[track_caller]
    pub fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io
            .poll(cx, Direction::Write, |stream| write_pieces(stream, pieces))
    }

    /// Writes all of `bytes`. Waits while the buffer of the socket is full.
    ///
    /// # Cancel safety
    ///
    /// Not safe. If the future is dropped before it is ready, an unknown part of `bytes` has been
    /// written. If you need to cancel, call [`write`](Self::write) in a loop instead.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
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

    /// Waits until there may be something to read, or the peer has closed its side. It reads
    /// nothing. Call [`try_read`](Self::try_read) to read.
    ///
    /// # Cancel safety
    ///
    /// Safe. It reads nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot poll the connection.
    ///
    /// # Panics
    ///
    /// May panic on a thread that is neither a worker of a pool nor inside `block_on`. See the
    /// [module documentation](crate::net).
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

    /// Waits until there may be room to write, or the connection is broken. It writes nothing. Call
    /// [`try_write`](Self::try_write) to write.
    ///
    /// # Cancel safety
    ///
    /// Safe. It writes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot poll the connection.
    ///
    /// # Panics
    ///
    /// May panic on a thread that is neither a worker of a pool nor inside `block_on`. See the
    /// [module documentation](crate::net).
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await
    }

    /// Reads the bytes that have arrived into `bytes` and returns their number, like
    /// [`read`](Self::read). Never waits.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`WouldBlock`](ErrorKind::WouldBlock) if nothing has arrived.
    /// Returns another error if the connection is broken.
    pub fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.io
            .try_now(Direction::Read, |stream| read(stream, bytes))
    }

    /// Writes the part of `bytes` that fits into the buffer of the socket, and returns the number
    /// of bytes written. Never waits.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`WouldBlock`](ErrorKind::WouldBlock) if the buffer is full.
    /// Returns another error if the connection is broken.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.io
            .try_now(Direction::Write, |stream| write(stream, bytes))
    }

    /// Shuts down reading, writing or both, like the method `shutdown` of the standard library.
    /// After you shut down writing, the peer reads the end of the stream.
    ///
    /// The name differs, so that the method `shutdown` of `tokio::io::AsyncWriteExt` is usable with
    /// the feature `tokio-io`.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is already broken.
    pub fn shutdown_with(&self, how: Shutdown) -> io::Result<()> {
        SockRef::from(self.as_std()).shutdown(how)
    }

    /// Shuts down writing for the traits of other crates. A connection that the peer has already
    /// closed is not an error here.
    #[cfg(any(feature = "futures-io", feature = "tokio-io"))]
    pub(super) fn close(&self) -> Poll<io::Result<()>> {
        match self.shutdown_with(Shutdown::Write) {
            Err(error) if error.kind() == ErrorKind::NotConnected => Poll::Ready(Ok(())),
            done => Poll::Ready(done),
        }
    }

    /// Splits the stream into a half that reads and a half that writes, so that each can be owned
    /// by a task of its own.
    ///
    /// You do not need to split a stream if one task does both or if the tasks can share an `Arc`,
    /// because all other methods take `&self`.
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

/// The half of a [`Stream`] that reads. [`Stream::into_split`] creates it.
#[derive(Debug)]
pub struct ReadHalf<S: Connection>(pub(super) Arc<Stream<S>>);

impl<S: Connection> ReadHalf<S> {
    /// Reads the bytes that have arrived, like [`Stream::read`].
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been read.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes).await
    }

    /// Reads until `bytes` is full, like [`Stream::read_exact`].
    ///
    /// # Cancel safety
    ///
    /// Not safe. If the future is dropped before it is ready, an unknown number of bytes has been
    /// read, and they are lost. If you need to cancel, call [`read`](Self::read) in a loop instead.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken or ends before `bytes` is full.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn read_exact(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(bytes).await
    }

    /// Returns the stream that both halves share.
    pub fn stream(&self) -> &Stream<S> {
        &self.0
    }
}

/// The half of a [`Stream`] that writes. [`Stream::into_split`] creates it. Dropping it shuts down
/// writing, so that the peer reads the end of the stream.
#[derive(Debug)]
pub struct WriteHalf<S: Connection>(pub(super) Arc<Stream<S>>);

impl<S: Connection> WriteHalf<S> {
    /// Writes a part of `bytes`, like [`Stream::write`].
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been written.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).await
    }

    /// Writes all of `bytes`, like [`Stream::write_all`].
    ///
    /// # Cancel safety
    ///
    /// Not safe. If the future is dropped before it is ready, an unknown part of `bytes` has been
    /// written. If you need to cancel, call [`write`](Self::write) in a loop instead.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is broken.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }

    /// Returns the stream that both halves share.
    pub fn stream(&self) -> &Stream<S> {
        &self.0
    }
}

impl<S: Connection> Drop for WriteHalf<S> {
    fn drop(&mut self) {
        // We ignore the error, because the connection may already be broken.
        let _ = self.0.shutdown_with(Shutdown::Write);
    }
}

fn read<S: Connection>(stream: &S, bytes: &mut [u8]) -> io::Result<(usize, Left)> {
    let asked = bytes.len();
    if asked == 0 {
        return Ok((0, Left::More));
    }
    let place = std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>];
    // SAFETY: validity: a slice of bytes is also a slice of bytes that need not be initialized.
    // Aliasing: the slice is not used again. `receive` writes only initialized bytes to it.
    let place = unsafe { &mut *place };
    Ok(with_remainder(stream_calls::receive(stream, place)?, asked))
}

/// Returns the result of a read. A read that returned less than it asked for has emptied the buffer
/// of the socket.
fn with_remainder(read: usize, asked: usize) -> (usize, Left) {
    match read < asked {
        true => (read, Left::Drained),
        false => (read, Left::More),
    }
}

fn write<S: Connection>(stream: &S, bytes: &[u8]) -> io::Result<(usize, Left)> {
    let written = stream_calls::send(stream, bytes)?;
    Ok(taken(written, bytes.len()))
}

fn write_pieces<S: Connection>(stream: &S, pieces: &[IoSlice<'_>]) -> io::Result<(usize, Left)> {
    let pieces = &pieces[..pieces.len().min(PIECES_MAX)];
    let asked = pieces.iter().map(|piece| piece.len()).sum();
    let written = stream_calls::send_vectored(stream, pieces, asked)?;
    Ok(taken(written, asked))
}

/// Returns the result of a write. A write that took less than it was given has filled the buffer of
/// the socket.
fn taken(written: usize, asked: usize) -> (usize, Left) {
    match written < asked {
        true => (written, Left::Nothing),
        false => (written, Left::More),
    }
}
