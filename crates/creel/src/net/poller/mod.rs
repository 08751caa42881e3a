//! The system's poller: what a driver asks which sockets can go on.
//!
//! On Linux it is epoll itself (`epoll.rs`): a wait is one system call, and an event tells whether
//! the other side has ended, so that a stream which was read empty need not be tried once more.
//! Elsewhere it is the `polling` crate's (`portable.rs`), which tells less.
//!
//! Left out: who waits for what (`readiness.rs`), and which socket a key is (`driver.rs`).

#[cfg(target_os = "linux")]
mod epoll;
#[cfg(any(all(test, not(any(loom, shuttle))), not(target_os = "linux")))]
mod portable;

#[cfg(target_os = "linux")]
pub(super) use epoll::{Events, Poller};
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{Events, Poller};

/// What a poller can look at.
#[cfg(unix)]
pub(super) use std::os::fd::AsFd as AsSource;
#[cfg(windows)]
pub(super) use std::os::windows::io::AsSocket as AsSource;

/// How a socket is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Each time the poller is asked while it is ready.
    Level,
    /// Once for each arrival.
    Edge,
    /// Once, until it is armed again: where the system knows neither of these.
    Oneshot,
}

/// The directions of a socket that are looked at, and what it is reported by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interest {
    pub(super) key: usize,
    pub(super) read: bool,
    pub(super) write: bool,
}

/// A report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) key: usize,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// The other side's end or an error lies behind what there is to read, or may: this system
    /// does not tell.
    pub(super) ended: bool,
}
