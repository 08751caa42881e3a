//! Connections whose first bytes were looked at: do they speak HTTP/2?
//!
//! Who speaks HTTP/2 without TLS begins with a preface that is no request of HTTP/1. It is read as
//! far as it goes, and given to hyper again with what was read beyond it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use creel::net::{Connection, Stream};
use hyper::rt::{Read, ReadBufCursor, Write};

use crate::Io;

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection and what was read of it already.
pub(crate) struct Begun<C: Connection> {
    io: Io<C>,
    first: [u8; PREFACE.len()],
    /// Of `first`: what hyper has taken, and what was read.
    taken: usize,
    read: usize,
}

impl<C: Connection> Begun<C> {
    /// Reads until it is clear what they speak: the preface in whole, or something else.
    pub(crate) async fn new(stream: Stream<C>) -> io::Result<Self> {
        let mut begun = Begun {
            io: Io(stream),
            first: [0; PREFACE.len()],
            taken: 0,
            read: 0,
        };
        while begun.read < PREFACE.len() && begun.may_be_http2() {
            match begun.io.0.read(&mut begun.first[begun.read..]).await? {
                0 => break,
                more => begun.read += more,
            }
        }
        Ok(begun)
    }

    pub(crate) fn is_http2(&self) -> bool {
        self.read == PREFACE.len() && self.may_be_http2()
    }

    fn may_be_http2(&self) -> bool {
        PREFACE.starts_with(&self.first[..self.read])
    }
}

impl<C: Connection> Read for Begun<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let begun = &mut *self;
        if begun.taken == begun.read {
            return Pin::new(&mut begun.io).poll_read(cx, into);
        }
        let left = &begun.first[begun.taken..begun.read];
        let more = left.len().min(into.remaining());
        into.put_slice(&left[..more]);
        begun.taken += more;
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

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
