//! The poller of the operating system, which the driver uses to find out which sockets are ready.
//!
//! On Linux, we use epoll directly (`epoll.rs`). A wait is one system call, and an event says
//! whether the peer has ended the stream. Therefore a task that has read all bytes does not need to
//! try once more. On other systems, we use the `polling` crate (`portable.rs`), which does not
//! report the end.
//!
//! This module does not know which tasks wait (`readiness.rs`) or which socket a key belongs to
//! (`driver.rs`).

#[cfg(target_os = "linux")]
mod epoll;
#[cfg(any(
    all(test, not(any(creel_loom, creel_shuttle))),
    not(target_os = "linux")
))]
mod portable;

#[cfg(target_os = "linux")]
pub(super) use epoll::{Events, Poller};
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{Events, Poller};

/// The trait of sockets that a poller can report.
#[cfg(unix)]
pub(super) use std::os::fd::AsFd as AsSource;
#[cfg(windows)]
pub(super) use std::os::windows::io::AsSocket as AsSource;

/// The way in which the poller reports a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The poller reports the socket in each poll while it is ready.
    Level,
    /// The poller reports each arrival once. This needs no system call to arm the socket again.
    Edge,
    /// The poller reports the socket once, and then not until it is armed again. We use it in place
    /// of `Edge` on systems that do not support edges, for example Windows.
    Oneshot,
}

/// The directions of a socket that the poller reports, and the key under which it reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interest {
    pub(super) key: usize,
    pub(super) read: bool,
    pub(super) write: bool,
}

/// An event that the poller reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) key: usize,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Whether the end of the stream or an error follows the bytes to read. It is always true on
    /// systems that do not report this.
    pub(super) ended: bool,
}
