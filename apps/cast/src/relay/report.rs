//! The reports of a relay's ports and clients.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// What one client has got of one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientReport {
    /// Its address.
    pub to: SocketAddr,
    /// Packets that were sent to it, or tried.
    pub sent: u64,
    /// Packets that waited too long, the oldest ones.
    pub dropped: u64,
}

/// What has come to one port and gone on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortReport {
    /// The port.
    pub port: u16,
    /// Packets that came.
    pub packets: u64,
    /// Reports that came, from either side.
    pub rtcp: u64,
    /// Packets that the system refused to send.
    pub refused: u64,
    /// Why it refused the first.
    pub why: Option<String>,
    /// Of those who hear now, and who heard.
    pub clients: Vec<ClientReport>,
}

/// A port's figures, between its task and those who ask.
pub(super) type Shared = Arc<Mutex<PortReport>>;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
