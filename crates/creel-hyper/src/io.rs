//! Adapters between Creel's connections, hyper and the crate `futures-io`.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use creel::net::{Connection, Stream};
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

/// Makes a connection of Creel usable for hyper. You create it with `Io(stream)`.
///
/// ```
/// use creel::net::TcpStream;
///
/// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let stream = std::net::TcpStream::connect(listener.local_addr()?)?;
/// let io = creel_hyper::Io(TcpStream::from_std(stream)?);
/// assert_eq!(io.0.peer_addr()?, listener.local_addr()?);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Io<S: Connection>(pub Stream<S>);

impl<S: Connection> Read for Io<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: Only initialized bytes are written to the buffer, so no byte becomes
        // uninitialized.
        let place = unsafe { into.as_mut() };
        let read = ready!(self.0.poll_read_uninit(cx, place))?;
        // SAFETY: `poll_read` has just initialized the first `read` bytes of the buffer.
        unsafe { into.advance(read) };
        Poll::Ready(Ok(()))
    }
}

impl<S: Connection> Write for Io<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0.shutdown_with(Shutdown::Write) {
            // The error `NotConnected` means that the other side has already closed the connection,
            // so there is nothing left to shut down.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            done => Poll::Ready(done),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_vectored(cx, pieces)
    }
}

/// Converts between the traits of hyper and those of the crate `futures-io`, in both directions.
///
/// Use it to pass a stream of `futures-io` to hyper, for example TLS or a pipe. Use it also to pass
/// a stream of hyper to crates on `futures-io`, for example after an [upgrade](hyper::upgrade) to
/// WebSocket.
#[derive(Debug)]
pub struct FuturesIo<T>(pub T);

impl<T: Read + Unpin> futures_io::AsyncRead for FuturesIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut place = ReadBuf::new(bytes);
        ready!(Pin::new(&mut self.0).poll_read(cx, place.unfilled()))?;
        Poll::Ready(Ok(place.filled().len()))
    }
}

impl<T: Write + Unpin> futures_io::AsyncWrite for FuturesIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, pieces)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl<T: futures_io::AsyncRead + Unpin> Read for FuturesIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: We only write initialized bytes to the buffer, so no byte becomes uninitialized.
        let place = unsafe { into.as_mut() };
        // The stream's `poll_read` gets an ordinary slice, whose bytes it may read. Therefore we
        // initialize the buffer first.
        place.fill(std::mem::MaybeUninit::new(0));
        let bytes = std::ptr::from_mut(place) as *mut [u8];
        // SAFETY: The buffer is valid because it was initialized above. Nothing aliases it, because
        // `place` is not used again.
        let bytes = unsafe { &mut *bytes };
        let (room, read) = (bytes.len(), Pin::new(&mut self.0).poll_read(cx, bytes));
        let read = ready!(read)?;
        assert!(
            read <= room,
            "the stream reported more bytes than the buffer can hold"
        );
        // SAFETY: The whole buffer is initialized.
        unsafe { into.advance(read) };
        Poll::Ready(Ok(()))
    }
}

impl<T: futures_io::AsyncWrite + Unpin> Write for FuturesIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
