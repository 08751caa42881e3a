//! Signals of the operating system, as futures. Use them to shut down in an orderly way, for
//! example on Ctrl-C.
//!
//! A signal handler may do very little, because it interrupts a thread at any place. Ours writes
//! one byte to a socket, and the task that waits for the signal reads from the other end.

use crate::net::UnixStream;
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::net;

pub use libc::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

/// Registers a handler for a signal. From now on the signal no longer ends the process, even after
/// the returned [`Signal`] has been dropped.
///
/// # Errors
///
/// Returns an error if the system refuses the handler, or if the process has too many open files.
///
/// # Panics
///
/// Panics if the signal cannot be handled. This applies to signals that report a fault of the
/// program, for example `SIGSEGV`, and to `SIGKILL` and `SIGSTOP`.
///
/// ```
/// use creel::signal::{SIGUSR1, signal};
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let mut signals = signal(SIGUSR1)?;
/// let own = std::process::id().to_string();
/// pool.block_on(async {
///     let kill = move || std::process::Command::new("kill").args(["-USR1", &own]).status();
///     creel::blocking(kill).await?;
///     signals.recv().await
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn signal(number: i32) -> io::Result<Signal> {
    // The crate that registers handlers would also refuse these signals, but its panic would not
    // point to our caller.
    assert!(
        number != libc::SIGBUS && !signal_hook_registry::FORBIDDEN.contains(&number),
        "cannot receive signal {number}: it reports a fault of the program, or always stops or \
         kills the program"
    );
    let (sends, receives) = net::UnixStream::pair()?;
    sends.set_nonblocking(true)?;
    let on_signal = move || {
        let byte = [0_u8];
        // We ignore errors. If the socket's buffer is full, the receiver has bytes to read, so it
        // learns of the signal anyway.
        // SAFETY: `send` may be called in a signal handler. The closure owns the descriptor, and
        // the byte lives during the call.
        unsafe { libc::send(sends.as_raw_fd(), byte.as_ptr().cast(), 1, 0) };
    };
    // SAFETY: The closure only does what a signal handler may do, which is one `send`. It takes no
    // lock and does not allocate.
    let id = unsafe { signal_hook_registry::register(number, on_signal) }?;
    Ok(Signal {
        id,
        receives: UnixStream::from_std(receives)?,
    })
}

/// Waits for SIGINT, which the user sends with Ctrl-C.
///
/// # Errors
///
/// Returns the same errors as [`signal`] and [`Signal::recv`].
pub async fn ctrl_c() -> io::Result<()> {
    signal(SIGINT)?.recv().await
}

/// A signal that the program handles. [`signal`] creates it.
pub struct Signal {
    id: signal_hook_registry::SigId,
    receives: UnixStream,
}

impl Signal {
    /// Waits for the signal. Returns at once if the signal has arrived since the last call. Several
    /// signals may be reported as one. This method is cancel-safe.
    ///
    /// # Errors
    ///
    /// Returns an error if the system's poller cannot watch the socket.
    pub async fn recv(&mut self) -> io::Result<()> {
        match self.receives.read(&mut [0; 64]).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        signal_hook_registry::unregister(self.id);
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").finish_non_exhaustive()
    }
}
