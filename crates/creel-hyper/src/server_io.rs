//! A server's connection: what was read of it before hyper, and what goes on there.
//!
//! Who speaks HTTP/2 without TLS begins with a preface that is no request of HTTP/1. So the first
//! bytes are read here, and given to hyper again.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use crate::activity::{Activity, BYTES_A_TURN};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection and what was read of it already.
pub(crate) struct Begun<T> {
    io: T,
    first: Vec<u8>,
    /// Of `first`: what hyper has taken.
    taken: usize,
    activity: Arc<Activity>,
}

impl<T: Read + Unpin> Begun<T> {
    /// With what was read of it in the past.
    pub(crate) fn new(io: T, first: Vec<u8>, activity: Arc<Activity>) -> Self {
        Begun {
            io,
            first,
            taken: 0,
            activity,
        }
    }

    /// Reads until there is something and it is clear what it is: the preface in whole, or a
    /// beginning of something else. At the stream's end, there may be nothing.
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

    #[cfg(feature = "http2")]
    pub(crate) fn is_http2(&self) -> bool {
        self.first == PREFACE
    }

    /// The connection, all that was read before having been taken.
    pub(crate) fn into_io(self) -> T {
        debug_assert!(self.first.is_empty(), "what hyper has not taken is lost");
        self.io
    }
}

impl<T: Read + Unpin> Read for Begun<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let begun = &mut *self;
        if begun.activity.has_had_its_turn() {
            // The others first.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if begun.first.is_empty() {
            // SAFETY: nothing is taken away from what is initialized.
            let place = unsafe { into.as_mut() };
            let most = place.len().min(BYTES_A_TURN);
            let mut part = ReadBuf::uninit(&mut place[..most]);
            ready!(Pin::new(&mut begun.io).poll_read(cx, part.unfilled()))?;
            let read = part.filled().len();
            // SAFETY: the part is its beginning, and so many bytes of that are filled.
            unsafe { into.advance(read) };
            begun.activity.has_read(read);
            return Poll::Ready(Ok(()));
        }
        let left = &begun.first[begun.taken..];
        let more = left.len().min(into.remaining());
        into.put_slice(&left[..more]);
        begun.taken += more;
        if begun.taken == begun.first.len() {
            begun.first = Vec::new();
        }
        begun.activity.has_read(more);
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for Begun<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.activity.has_written(written.is_ready());
        written
    }

    /// hyper asks for this when it has written all that it had.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.activity.has_sent();
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
        self.activity.has_written(written.is_ready());
        written
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// There is always more of it.
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
    fn a_turn_of_reading_ends_and_the_next_begins() {
        let activity = Arc::new(Activity::default());
        let mut begun = Begun::new(Endless, Vec::new(), Arc::clone(&activity));
        let cx = &mut Context::from_waker(Waker::noop());
        let mut bytes = vec![0; 10 * BYTES_A_TURN];
        for _ in 0..3 {
            let mut read = 0;
            loop {
                let mut place = ReadBuf::new(&mut bytes);
                match Pin::new(&mut begun).poll_read(cx, place.unfilled()) {
                    Poll::Ready(done) => done.unwrap(),
                    Poll::Pending => break,
                }
                assert!(place.filled().iter().all(|byte| *byte == 7));
                read += place.filled().len();
                assert!(read < 2 * BYTES_A_TURN, "it goes on");
            }
            assert!(read >= BYTES_A_TURN);
        }
    }
}
