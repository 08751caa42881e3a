//! Replaces `pcap.rs` if the feature `formats` is off. Captures can then not be read or written.

use crate::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// A datagram of a capture. No value of it is created, because no capture can be read.
pub(crate) struct CapturedDatagram<'a> {
    pub(crate) at: u64,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: &'a [u8],
    pub(crate) missing: usize,
}

/// The counters of a capture. This type has no values, because no capture can be read.
pub(crate) struct CaptureSummary {
    pub(crate) others: u64,
    never: Never,
}

#[derive(Debug, Clone, Copy)]
enum Never {}

impl CaptureSummary {
    /// Cannot be called, because this type has no values.
    pub(crate) fn warnings(&self, _: &Path) -> Vec<String> {
        match self.never {}
    }
}

/// Returns an error, because the library was built without captures.
///
/// # Errors
///
/// Always returns [`Error::Malformed`].
pub(crate) fn read(
    path: &Path,
    _: impl FnMut(&CapturedDatagram<'_>),
) -> Result<CaptureSummary, Error> {
    Err(needs_formats(path))
}

/// Writes datagrams to a capture. This type has no values, because no capture can be created.
#[derive(Debug, Clone)]
pub(crate) struct CaptureWriter(Never);

impl CaptureWriter {
    /// Returns an error, because the library was built without captures.
    ///
    /// # Errors
    ///
    /// Always returns [`Error::Malformed`].
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        Err(needs_formats(path))
    }

    /// Cannot be called, because this type has no values.
    pub(crate) fn write(&self, _: Duration, _: &[u8], _: SocketAddr, _: SocketAddr) {
        match self.0 {}
    }

    /// Cannot be called, because this type has no values.
    pub(crate) fn finish(self) -> Option<String> {
        match self.0 {}
    }
}

fn needs_formats(path: &Path) -> Error {
    let reason = "captures need the feature `formats`, without which this program was built";
    Error::Malformed(path.into(), reason.into())
}
