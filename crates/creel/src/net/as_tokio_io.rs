//! Implements tokio's `AsyncRead` and `AsyncWrite` for TCP and Unix streams, so that you can use
//! them with libraries that require these traits. The streams do not need a tokio runtime.
//!
//! We implement them for the stream and for its halves. If several tasks poll in the same
//! direction, only the last one that polled is woken.

use super::stream::{Connection, ReadHalf, Stream, WriteHalf};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

fn read<S: Connection>(
    stream: &Stream<S>,
    cx: &mut Context<'_>,
    into: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    // SAFETY: nothing is written to this buffer except the bytes that were read.
    let place = unsafe { into.unfilled_mut() };
    let read = ready!(stream.poll_read_uninit(cx, place))?;
    // SAFETY: the call has just read this number of bytes into the buffer.
    unsafe { into.assume_init(read) };
    into.advance(read);
    Poll::Ready(Ok(()))
}

impl<S: Connection> AsyncRead for Stream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        read(&self, cx, into)
    }
}

impl<S: Connection> AsyncRead for ReadHalf<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        read(self.stream(), cx, into)
    }
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
                $stream.poll_write(cx, bytes)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                pieces: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let $own = &*self;
                $stream.poll_write_vectored(cx, pieces)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $own = &*self;
                $stream.close()
            }
        }
    };
}

write!(Stream, stream => stream);
write!(WriteHalf, half => half.stream());
