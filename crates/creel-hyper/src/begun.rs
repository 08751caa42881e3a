//! A server's connection: what was read of it before hyper, and what goes on there.
//!
//! Who speaks HTTP/2 without TLS begins with a preface that is no request of HTTP/1. So the first
//! bytes are read here, and given to hyper again.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use creel::net::{Connection, Stream};
use hyper::rt::{Read, ReadBufCursor, Write};

use crate::Io;
use crate::activity::Activity;

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection and what was read of it already.
pub(crate) struct Begun<C: Connection> {
    io: Io<C>,
    first: Vec<u8>,
    /// Of `first`: what hyper has taken.
    taken: usize,
    activity: Arc<Activity>,
}

impl<C: Connection> Begun<C> {
    /// With what was read of it in the past.
    pub(crate) fn new(stream: Stream<C>, first: Vec<u8>, activity: Arc<Activity>) -> Self {
        Begun {
            io: Io(stream),
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
            match ready!(self.io.0.poll_read(cx, &mut bytes[..room]))? {
                0 => break,
                more => self.first.extend_from_slice(&bytes[..more]),
            }
        }
        Poll::Ready(Ok(()))
    }

    #[cfg(feature = "http2")]
    pub(crate) fn is_http2(&self) -> bool {
        self.first == PREFACE
    }

    /// The connection, all that was read before having been taken.
    pub(crate) fn into_stream(self) -> Stream<C> {
        debug_assert!(self.first.is_empty(), "what hyper has not taken is lost");
        self.io.0
    }
}

impl<C: Connection> Read for Begun<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let begun = &mut *self;
        if begun.first.is_empty() {
            ready!(Pin::new(&mut begun.io).poll_read(cx, into))?;
            begun.activity.has_read();
            return Poll::Ready(Ok(()));
        }
        let left = &begun.first[begun.taken..];
        let more = left.len().min(into.remaining());
        into.put_slice(&left[..more]);
        begun.taken += more;
        if begun.taken == begun.first.len() {
            begun.first = Vec::new();
        }
        begun.activity.has_read();
        Poll::Ready(Ok(()))
    }
}

impl<C: Connection> Write for Begun<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
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
        Pin::new(&mut self.io).poll_write_vectored(cx, pieces)
    }
}
