//! Relaying between two connections in both directions, as a proxy does.

use ::futures_io::{AsyncRead, AsyncWrite};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The size of the buffer for each direction, in bytes.
const ROOM: usize = 16 << 10;
/// The maximum number of consecutive reads in one direction. Afterwards other tasks get a turn.
const ROUNDS: usize = 32;

/// Copies bytes between two connections in both directions until both directions have ended.
/// Returns the number of bytes copied from `a` to `b` and from `b` to `a`.
///
/// When one direction ends, it closes the writing side of the other connection, while the opposite
/// direction continues. If one side does not read, this function stops reading from the other side,
/// so that it never buffers more than 16 KiB per direction. Note that it has no time limit. Use
/// [`timeout`](crate::time::timeout) if you need one, for example because a peer may leave its
/// connection half open.
///
/// # Cancel safety
///
/// Not safe. If the future is dropped before it is ready, up to 16 KiB per direction have been read
/// and not written, and they are lost.
///
/// # Errors
///
/// Returns an error if one of the connections is broken. Bytes that have not been written at that
/// time are lost.
///
/// ```
/// use creel::net::{TcpListener, TcpStream, relay};
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let counts = pool.block_on(async {
///     let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
///     let address = listener.local_addr()?;
///     let client = TcpStream::connect(address).await?;
///     let (mut front, _) = listener.accept().await?;
///     let mut back = TcpStream::connect(address).await?;
///     let (server, _) = listener.accept().await?;
///     let proxy = creel::task::spawn(async move { relay(&mut front, &mut back).await });
///     client.write_all(b"hello").await?;
///     client.shutdown_with(std::net::Shutdown::Write)?;
///     let mut bytes = [0; 16];
///     server.read_exact(&mut bytes[..5]).await?;
///     assert_eq!(server.read(&mut bytes).await?, 0);
///     server.write_all(b"and to you").await?;
///     drop(server);
///     client.read_exact(&mut bytes[..10]).await?;
///     assert_eq!(client.read(&mut bytes).await?, 0);
///     proxy.await.unwrap()
/// })?;
/// assert_eq!(counts, (5, 10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn relay<A, B>(a: &mut A, b: &mut B) -> io::Result<(u64, u64)>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let (mut there, mut back) = (Way::default(), Way::default());
    poll_fn(|cx| {
        let went = there.poll(cx, a, b)?;
        let came = back.poll(cx, b, a)?;
        match (went, came) {
            (Poll::Ready(()), Poll::Ready(())) => Poll::Ready(Ok((there.passed, back.passed))),
            _ => Poll::Pending,
        }
    })
    .await
}

/// The state of one direction, from one connection to the other.
struct Way {
    held: Box<[u8]>,
    /// The number of bytes of `held` that have been written. The bytes up to `read` have been read.
    written: usize,
    read: usize,
    /// Whether the writer has been flushed since the last write. Otherwise bytes may still be in a
    /// buffer of the writer.
    flushed: bool,
    state: State,
    passed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The reader has returned the end of the stream, but the writer is not closed yet.
    Ending,
    Ended,
}

impl Default for Way {
    fn default() -> Self {
        Way {
            held: vec![0; ROOM].into(),
            written: 0,
            read: 0,
            flushed: true,
            state: State::Open,
            passed: 0,
        }
    }
}

impl Way {
    /// Copies bytes in this direction. It is ready once it has closed the writer.
    fn poll<F, T>(&mut self, cx: &mut Context<'_>, from: &mut F, to: &mut T) -> Poll<io::Result<()>>
    where
        F: AsyncRead + Unpin + ?Sized,
        T: AsyncWrite + Unpin + ?Sized,
    {
        for _ in 0..ROUNDS {
            while self.written < self.read {
                let left = &self.held[self.written..self.read];
                let more = ready!(Pin::new(&mut *to).poll_write(cx, left))?;
                if more == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.written += more;
                self.passed += more as u64;
                self.flushed = false;
            }
            match self.state {
                State::Open => {}
                State::Ending => {
                    ready!(Pin::new(&mut *to).poll_close(cx))?;
                    self.state = State::Ended;
                    return Poll::Ready(Ok(()));
                }
                State::Ended => return Poll::Ready(Ok(())),
            }
            match Pin::new(&mut *from).poll_read(cx, &mut self.held)? {
                Poll::Ready(0) => self.state = State::Ending,
                Poll::Ready(read) => (self.written, self.read) = (0, read),
                Poll::Pending if self.flushed => return Poll::Pending,
                Poll::Pending => {
                    ready!(Pin::new(&mut *to).poll_flush(cx))?;
                    self.flushed = true;
                    return Poll::Pending;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
