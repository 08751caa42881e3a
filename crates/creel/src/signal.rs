//! The system's signals, awaited.

use crate::net::UnixStream;
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::net;

pub use libc::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

/// Takes a signal from now on: it no longer ends the process, in all of its life.
///
/// # Errors
///
/// If the system does not let it be taken, or too many files are open.
///
/// # Panics
///
/// For a signal that nobody may take: a fault of the program's own, or one that stops or kills it.
///
/// ```
/// use creel::signal::{SIGUSR1, signal};
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let mut told = signal(SIGUSR1)?;
/// let own = std::process::id().to_string();
/// pool.block_on(async {
///     let kill = move || std::process::Command::new("kill").args(["-USR1", &own]).status();
///     creel::blocking(kill).await?;
///     told.recv().await
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn signal(number: i32) -> io::Result<Signal> {
    // The registry refuses the other ones, too, but its panic would point to itself.
    assert!(
        number != libc::SIGBUS && !signal_hook_registry::FORBIDDEN.contains(&number),
        "signal {number} cannot be taken: it is a fault of the program, or stops or kills it"
    );
    let (sends, receives) = net::UnixStream::pair()?;
    sends.set_nonblocking(true)?;
    let tell = move || {
        let byte = [0_u8];
        // What is full tells already.
        // SAFETY: a call that a signal's handler may make, on a descriptor that the closure owns
        // and a byte that lives meanwhile.
        unsafe { libc::send(sends.as_raw_fd(), byte.as_ptr().cast(), 1, 0) };
    };
    // SAFETY: it does no more than what a handler may: one `send`, no lock and no allocation.
    let id = unsafe { signal_hook_registry::register(number, tell) }?;
    Ok(Signal {
        id,
        receives: UnixStream::from_std(receives)?,
    })
}

/// Waits for SIGINT, which a user sends by Ctrl-C.
///
/// # Errors
///
/// As for [`signal`].
pub async fn ctrl_c() -> io::Result<()> {
    signal(SIGINT)?.recv().await
}

/// A signal that the program takes; see [`signal`].
pub struct Signal {
    id: signal_hook_registry::SigId,
    receives: UnixStream,
}

impl Signal {
    /// Waits for the signal; at once if it came since the last time. Several may be one.
    /// Cancel-safe.
    ///
    /// # Errors
    ///
    /// If the system's poller refuses to wait for it.
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
