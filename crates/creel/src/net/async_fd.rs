//! Waits for file descriptors that are not sockets of this crate, such as pipes, timers of the
//! system, and connections of C libraries.

use super::io::{Io, Left};
pub use super::source::Direction;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

/// Waits for a file descriptor that this crate does not know. The descriptor may be of any kind
/// that the system's poller supports. Examples are a pipe, a terminal, an eventfd, a timerfd, an
/// inotify instance, and a socket of a C library. Regular files are not supported, because they are
/// always ready.
///
/// The descriptor must be **non-blocking** (`O_NONBLOCK`). We do not change this setting, because
/// it also applies to all copies of the descriptor, for example in other processes.
///
/// For example, this reads from a pipe:
///
/// ```
/// use creel::net::{AsyncFd, Direction};
/// use std::io::{Read, Write};
///
/// let (reader, mut writer) = std::io::pipe()?;
/// # #[cfg(target_os = "linux")]
/// rustix::io::ioctl_fionbio(&reader, true)?; // non-blocking
/// let reader = AsyncFd::new(reader);
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let task = pool.spawn(async move {
///     let mut bytes = [0; 16];
///     let read = |mut pipe: &std::io::PipeReader| pipe.read(&mut bytes);
///     let count = reader.async_io(Direction::Read, read).await?;
///     std::io::Result::Ok(bytes[..count].to_vec())
/// });
/// writer.write_all(b"hello")?;
/// assert_eq!(pool.block_on(task)??, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Rules for the operations
///
/// The poller reports each arrival only once. Therefore the runtime must learn when an operation
/// has found nothing. Make all reads and writes through [`async_io`](Self::async_io),
/// [`try_io`](Self::try_io) or [`poll_io`](Self::poll_io), and let the closure return an error of
/// kind [`WouldBlock`](io::ErrorKind::WouldBlock) if and only if the operation would block. If you
/// instead use the descriptor through [`get_ref`](Self::get_ref), `readable` may return at once
/// although there is nothing to read.
///
/// Several tasks may wait for one `AsyncFd`. An event wakes all of them, and those that find
/// nothing wait again. In contrast, a second `AsyncFd` for the same descriptor returns an error
/// when it has to wait on the same pool. To use the descriptor elsewhere at the same time, pass an
/// `Arc` of it to [`new`](Self::new).
///
/// # Pools
///
/// Like a socket, an `AsyncFd` belongs to no pool. See the [module documentation](crate::net),
/// which also explains when waiting panics.
pub struct AsyncFd<T: AsFd + Send + Sync + 'static> {
    io: Io<T>,
}

impl<T: AsFd + Send + Sync + 'static> AsyncFd<T> {
    /// Creates an `AsyncFd`. It registers with the poller when an operation has to wait for the
    /// first time. When you drop it, it first removes the descriptor from the poller and then drops
    /// `fd`.
    pub fn new(fd: T) -> Self {
        AsyncFd {
            // The poller reports the descriptor by edge, as it does for a stream. By level, a
            // descriptor that nobody reads would end each sleep of the worker.
            io: Io::new_stream(fd),
        }
    }

    /// Returns the value that owns the descriptor.
    pub fn get_ref(&self) -> &T {
        self.io.socket()
    }

    /// Runs `operation`, waits if it would block, and runs it again until it does not.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, each call of `operation` has returned
    /// [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// # Errors
    ///
    /// Returns the error of `operation`. Also returns an error if the system's poller does not
    /// support the descriptor, for example because it is a regular file.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn async_io<R>(
        &self,
        direction: Direction,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let operation = |fd: &T| Ok((operation(fd)?, Left::More));
        self.io.run(direction, operation).await
    }

    /// Runs `operation` once if it is worth trying. Never waits.
    ///
    /// Together with [`readable`](Self::readable), you can use it for code that cannot run inside a
    /// closure of [`async_io`](Self::async_io):
    ///
    /// ```no_run
    /// # async fn example(fd: creel::net::AsyncFd<std::io::PipeReader>) -> std::io::Result<()> {
    /// use creel::net::Direction;
    /// use std::io::{ErrorKind, Read};
    ///
    /// let mut bytes = [0; 1024];
    /// let count = loop {
    ///     fd.readable().await?;
    ///     match fd.try_io(Direction::Read, |mut pipe| pipe.read(&mut bytes)) {
    ///         Err(error) if error.kind() == ErrorKind::WouldBlock => {} // wait again
    ///         read => break read?,
    ///     }
    /// };
    /// # drop(count);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`WouldBlock`](io::ErrorKind::WouldBlock) if the operation would
    /// block, or if the poller has reported nothing since it did. In the second case, `operation`
    /// does not run. Otherwise returns the error of `operation`.
    pub fn try_io<R>(
        &self,
        direction: Direction,
        operation: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let operation = |fd: &T| Ok((operation(fd)?, Left::More));
        self.io.try_now(direction, operation)
    }

    /// Runs `operation` like [`async_io`](Self::async_io), for futures written by hand. If it would
    /// block, it arranges that the task of `cx` is woken when it is worth another try. If several
    /// such futures wait for the same direction, only the last one that polled is woken.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`async_io`](Self::async_io).
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    #[track_caller]
    pub fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let operation = |fd: &T| Ok((operation(fd)?, Left::More));
        self.io.poll(cx, direction, operation)
    }

    /// Waits until there may be something to read, or until the other side has closed. It reads
    /// nothing.
    ///
    /// # Cancel safety
    ///
    /// Safe. It reads nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the system's poller does not support the descriptor, for example because
    /// it is a regular file.
    ///
    /// # Panics
    ///
    /// May panic on a thread that is neither a worker of a pool nor inside `block_on`. See the
    /// [module documentation](crate::net).
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Direction::Read).await
    }

    /// Waits until there may be room to write, or until the other side has closed. It writes
    /// nothing.
    ///
    /// # Cancel safety
    ///
    /// Safe. It writes nothing.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`readable`](Self::readable).
    ///
    /// # Panics
    ///
    /// May panic on a thread that is neither a worker of a pool nor inside `block_on`. See the
    /// [module documentation](crate::net).
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await
    }
}

impl<T: AsFd + Send + Sync + 'static> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl<T: AsFd + fmt::Debug + Send + Sync + 'static> fmt::Debug for AsyncFd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncFd").field(self.get_ref()).finish()
    }
}
