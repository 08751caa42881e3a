//! The stream of a server's connection, with the bytes that were read before hyper got it.
//!
//! A client that uses HTTP/2 begins with a preface that is not an HTTP/1 request. We therefore read
//! the first bytes ourselves, and pass them to hyper when hyper reads.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use crate::activity::{Activity, BYTES_PER_TURN};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The stream of a connection, and the bytes that we have already read.
pub(crate) struct ServerIo<T> {
    io: T,
    first: Vec<u8>,
    /// The number of bytes of `first` (the bytes that we read before) that hyper has read.
    taken: usize,
    activity: Arc<Activity>,
}

impl<T: Read + Unpin> ServerIo<T> {
    /// Creates a stream from `io` and the bytes that were already read from it.
    pub(crate) fn new(io: T, first: Vec<u8>, activity: Arc<Activity>) -> Self {
        ServerIo {
            io,
            first,
            taken: 0,
            activity,
        }
    }

    /// Reads until it is clear how the connection begins: with the complete preface, or with
    /// something else. At the end of the stream there may be no bytes.
    pub(crate) fn poll_begin(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; PREFACE.len()];
        while self.first.len() < PREFACE.len() && PREFACE.starts_with(&self.first) {
            let room = PREFACE.len() - self.first.len();
            let mut place = ReadBuf::new(&mut bytes[..room]);
            ready!(Pin::new(&mut self.io).poll_read(cx, place.unfilled()))?;
            match place.filled() {
                [] => break,
                more => self.first.extend_from_slice(more),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Returns whether the connection begins with the preface of HTTP/2.
    #[cfg(feature = "http2")]
    pub(crate) fn is_http2(&self) -> bool {
        self.first == PREFACE
    }

    /// Returns the stream. hyper must have read all first bytes.
    pub(crate) fn into_io(self) -> T {
        debug_assert!(self.first.is_empty(), "hyper has not read all first bytes");
        self.io
    }
}

impl<T: Read + Unpin> Read for ServerIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.activity.end_turn_if_over() {
            // The connection's task has read enough for one turn, so we let other tasks run before
            // it continues.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if this.first.is_empty() {
            // SAFETY: We only write initialized bytes to the buffer, so no byte becomes
            // uninitialized.
            let place = unsafe { into.as_mut() };
            let most = place.len().min(BYTES_PER_TURN as usize);
            let mut part = ReadBuf::uninit(&mut place[..most]);
            ready!(Pin::new(&mut this.io).poll_read(cx, part.unfilled()))?;
            let read = part.filled().len();
            // SAFETY: `part` is the beginning of the buffer, and its first `read` bytes are
            // initialized.
            unsafe { into.advance(read) };
            this.activity.record_read(read);
            return Poll::Ready(Ok(()));
        }
        let left = &this.first[this.taken..];
        let more = left.len().min(into.remaining());
        into.put_slice(&left[..more]);
        this.taken += more;
        if this.taken == this.first.len() {
            this.first = Vec::new();
        }
        this.activity.record_read(more);
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for ServerIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.activity.record_write(written.is_ready());
        written
    }

    /// Flushes the stream. hyper calls this method after it has written all of its output, so we
    /// record that hyper's output buffer is empty.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.activity.record_flush();
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, pieces);
        self.activity.record_write(written.is_ready());
        written
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A stream that never ends.
    struct Endless;

    impl Read for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            mut into: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            let most = into.remaining().min(1000);
            into.put_slice(&[7; 1000][..most]);
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn each_turn_of_reading_ends_after_a_bounded_number_of_bytes() {
        let activity = Arc::new(Activity::default());
        let mut server_io = ServerIo::new(Endless, Vec::new(), Arc::clone(&activity));
        let cx = &mut Context::from_waker(Waker::noop());
        let mut bytes = vec![0; 10 * BYTES_PER_TURN as usize];
        for _ in 0..3 {
            let mut read = 0;
            loop {
                let mut place = ReadBuf::new(&mut bytes);
                match Pin::new(&mut server_io).poll_read(cx, place.unfilled()) {
                    Poll::Ready(done) => done.unwrap(),
                    Poll::Pending => break,
                }
                assert!(place.filled().iter().all(|byte| *byte == 7));
                read += place.filled().len();
                assert!(read < 2 * BYTES_PER_TURN as usize, "the turn does not end");
            }
            assert!(read >= BYTES_PER_TURN as usize);
        }
    }
}
