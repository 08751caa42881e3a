//! Replaces the remote control on systems without Unix sockets.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use creel::Pool;

use super::session::PlayerSession;

const UNAVAILABLE: &str = "the remote control needs Unix sockets, which this system does not have";

/// Returns an error.
///
/// # Errors
///
/// Always, because there are no sockets.
pub fn default_socket() -> Result<PathBuf, String> {
    Err(UNAVAILABLE.into())
}

/// Returns an error.
///
/// # Errors
///
/// Always, because there are no sockets.
pub fn connect(_: &Path, _: Duration) -> io::Result<io::Empty> {
    Err(io::Error::new(io::ErrorKind::Unsupported, UNAVAILABLE))
}

/// A listening socket. This type has no values, because the system has no Unix sockets.
pub enum Remote {}

impl Remote {
    /// Returns an error.
    ///
    /// # Errors
    ///
    /// Always, because there are no sockets.
    pub fn listen(_: &Path, _: &Arc<PlayerSession>, _: &Pool) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, UNAVAILABLE))
    }
}
