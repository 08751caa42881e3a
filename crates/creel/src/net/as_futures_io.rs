//! Implements the traits of the `futures-io` crate for TCP and Unix streams, so that you can use
//! them with libraries for TLS, WebSockets or codecs.
//!
//! We implement them for the stream, for a reference to it (so that one task can read while another
//! one writes), and for its halves. If several tasks poll in the same direction, only the last one
//! that polled is woken.

use super::stream::{Connection, ReadHalf, Stream, WriteHalf};
use ::futures_io::{AsyncRead, AsyncWrite};
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll};

impl<S: Connection> AsyncRead for &Stream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Stream::poll_read(&self, cx, bytes)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        places: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        Stream::poll_read_vectored(&self, cx, places)
    }
}

impl<S: Connection> AsyncWrite for &Stream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Stream::poll_write(&self, cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Stream::poll_write_vectored(&self, cx, pieces)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close()
    }
}

/// Implements the trait by calling the implementation of a reference to the stream. `$stream` is
/// the expression that returns the stream.
macro_rules! read {
    ($type:ident, $own:ident => $stream:expr) => {
        impl<S: Connection> AsyncRead for $type<S> {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                let $own = &*self;
                let mut stream = $stream;
                Pin::new(&mut stream).poll_read(cx, bytes)
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                places: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                let $own = &*self;
                let mut stream = $stream;
                Pin::new(&mut stream).poll_read_vectored(cx, places)
            }
        }
    };
}

macro_rules! write {
    ($type:ident, $own:ident => $stream:expr) => {
        impl<S: Connection> AsyncWrite for $type<S> {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                let $own = &*self;
                let mut stream = $stream;
                Pin::new(&mut stream).poll_write(cx, bytes)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                pieces: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let $own = &*self;
                let mut stream = $stream;
                Pin::new(&mut stream).poll_write_vectored(cx, pieces)
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $own = &*self;
                $stream.close()
            }
        }
    };
}

read!(Stream, stream => stream);
write!(Stream, stream => stream);
read!(ReadHalf, half => half.stream());
write!(WriteHalf, half => half.stream());
