//! The pipes of a child's standard streams.
//!
//! A pipe is a descriptor that the pool's poller can watch. Therefore each type here is an
//! [`AsyncFd`] with methods that read or write.

use crate::net::{AsyncFd, Direction};
use std::fmt;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::{self, Stdio};
use std::task::{Context, Poll};

/// The minimum size of the buffer for one read of [`read_to_end`](ChildStdout::read_to_end), in
/// bytes.
const READ_MIN: usize = 8 << 10;

/// Sets whether operations on a descriptor block. This applies to all copies of the descriptor, but
/// not to the other end of a pipe.
fn set_nonblocking(fd: BorrowedFd<'_>, nonblocking: bool) -> io::Result<()> {
    let mut nonblocking = libc::c_int::from(nonblocking);
    // SAFETY: The descriptor is open during the call, and the system reads the integer during the
    // call only.
    let set = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &raw mut nonblocking) };
    match set {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Implements the part that all pipes have in common.
macro_rules! pipe {
    ($(#[$doc:meta])* $name:ident: $end:ident, $std:ty) => {
        $(#[$doc])*
        pub struct $name {
            fd: AsyncFd<$end>,
        }

        impl $name {
            pub(super) fn new(pipe: $std) -> io::Result<Self> {
                let pipe = OwnedFd::from(pipe);
                set_nonblocking(pipe.as_fd(), true)?;
                Ok($name {
                    fd: AsyncFd::new(pipe.into()),
                })
            }

            /// Turns the pipe into a standard stream for another child. It makes the pipe blocking,
            /// because most programs expect that.
            ///
            /// # Errors
            ///
            /// Returns an error if the process has too many open files.
            pub fn into_stdio(self) -> io::Result<Stdio> {
                let pipe = self.fd.as_fd().try_clone_to_owned()?;
                set_nonblocking(pipe.as_fd(), false)?;
                Ok(pipe.into())
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.fd.as_fd()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(self.fd.get_ref()).finish()
            }
        }
    };
}

/// Implements the methods of the pipes from which the program reads.
macro_rules! reads {
    ($name:ident) => {
        impl $name {
            /// Reads the bytes that have arrived into `bytes` and returns their number. Waits until
            /// there is at least one byte. Returns 0 when all writers have closed the pipe, or if
            /// `bytes` is empty.
            ///
            /// # Cancel safety
            ///
            /// Safe. If the future is dropped before it is ready, nothing has been read.
            ///
            /// # Errors
            ///
            /// Returns the error of the operating system.
            ///
            /// # Panics
            ///
            /// May panic if it has to wait on a thread that is neither a worker of a pool nor
            /// inside `block_on`. See the [documentation of sockets](crate::net).
            pub async fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
                let read = |mut pipe: &PipeReader| pipe.read(bytes);
                self.fd.async_io(Direction::Read, read).await
            }

            /// Reads like [`read`](Self::read), for futures written by hand. If several such
            /// futures wait, only the last one that polled is woken.
            ///
            /// # Errors
            ///
            /// Returns the error of the operating system.
            ///
            /// # Panics
            ///
            /// Panics in the same cases as [`read`](Self::read).
            #[track_caller]
            pub fn poll_read(
                &self,
                cx: &mut Context<'_>,
                bytes: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                let read = |mut pipe: &PipeReader| pipe.read(bytes);
                self.fd.poll_io(cx, Direction::Read, read)
            }

            /// Appends all bytes to `bytes` until all writers have closed the pipe, and returns
            /// their number.
            ///
            /// # Cancel safety
            ///
            /// Safe. If the future is dropped before it is ready, the bytes that it has read are in
            /// `bytes`.
            ///
            /// # Errors
            ///
            /// Returns the error of the operating system.
            ///
            /// # Panics
            ///
            /// Panics in the same cases as [`read`](Self::read).
            pub async fn read_to_end(&self, bytes: &mut Vec<u8>) -> io::Result<usize> {
                let before = bytes.len();
                loop {
                    let filled = bytes.len();
                    // The vector grows geometrically, so growth moves each byte only a few times.
                    let room = READ_MIN.max(filled - before);
                    let read = |mut pipe: &PipeReader| {
                        bytes.resize(filled + room, 0);
                        let read = pipe.read(&mut bytes[filled..]);
                        bytes.truncate(filled + *read.as_ref().unwrap_or(&0));
                        read
                    };
                    if self.fd.async_io(Direction::Read, read).await? == 0 {
                        return Ok(bytes.len() - before);
                    }
                }
            }
        }

        #[cfg(feature = "futures-io")]
        impl ::futures_io::AsyncRead for $name {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                $name::poll_read(&self, cx, bytes)
            }
        }

        #[cfg(feature = "tokio-io")]
        impl ::tokio::io::AsyncRead for $name {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut Context<'_>,
                into: &mut ::tokio::io::ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let read = $name::poll_read(&self, cx, into.initialize_unfilled());
                read.map(|read| {
                    into.advance(read?);
                    Ok(())
                })
            }
        }
    };
}

pipe! {
    /// A pipe to the standard input of a child. After you drop the pipe, the child reads the end of
    /// its input.
    ChildStdin: PipeWriter, process::ChildStdin
}

pipe! {
    /// A pipe from the standard output of a child.
    ///
    /// With the feature `futures-io` or `tokio-io`, it implements `AsyncRead`. For example, you can
    /// then read lines with the `BufReader` of `futures-util`.
    ChildStdout: PipeReader, process::ChildStdout
}

pipe! {
    /// A pipe from the standard error of a child. It has the same methods as [`ChildStdout`].
    ChildStderr: PipeReader, process::ChildStderr
}

reads!(ChildStdout);
reads!(ChildStderr);

impl ChildStdin {
    /// Writes the part of `bytes` that fits into the pipe, and returns the number of bytes written.
    /// Waits until there is room for at least one byte.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been written.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`BrokenPipe`](io::ErrorKind::BrokenPipe) if the child has closed
    /// its standard input or has ended.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [documentation of sockets](crate::net).
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let write = |mut pipe: &PipeWriter| pipe.write(bytes);
        self.fd.async_io(Direction::Write, write).await
    }

    /// Writes like [`write`](Self::write), for futures written by hand. If several such futures
    /// wait, only the last one that polled is woken.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`write`](Self::write).
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`write`](Self::write).
    #[track_caller]
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = |mut pipe: &PipeWriter| pipe.write(bytes);
        self.fd.poll_io(cx, Direction::Write, write)
    }

    /// Writes all of `bytes`.
    ///
    /// # Cancel safety
    ///
    /// Not safe. If the future is dropped before it is ready, an unknown part of `bytes` has been
    /// written.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`write`](Self::write).
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`write`](Self::write).
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
        Ok(())
    }
}

#[cfg(feature = "futures-io")]
impl ::futures_io::AsyncWrite for ChildStdin {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ChildStdin::poll_write(&self, cx, bytes)
    }

    fn poll_flush(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing, because a pipe is closed only when it is dropped.
    fn poll_close(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(feature = "tokio-io")]
impl ::tokio::io::AsyncWrite for ChildStdin {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ChildStdin::poll_write(&self, cx, bytes)
    }

    fn poll_flush(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing, because a pipe is closed only when it is dropped.
    fn poll_shutdown(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
