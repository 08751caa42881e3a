//! The reports of a relay's ports and clients.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// The report about one client of one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientReport {
    /// The address of the client.
    pub to: SocketAddr,
    /// The number of packets that were sent to the client, including failed attempts.
    pub sent: u64,
    /// The number of packets for the client that were dropped because the queue was full. The
    /// oldest are dropped first.
    pub dropped: u64,
}

/// The report about one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortReport {
    /// The port number.
    pub port: u16,
    /// The number of packets that arrived.
    pub packets: u64,
    /// The number of RTCP packets that arrived, from either side.
    pub rtcp: u64,
    /// The number of packets that the system refused to send.
    pub refused: u64,
    /// The reason why the system refused the first of these packets.
    pub why: Option<String>,
    /// The reports about the current clients, and about former ones.
    pub clients: Vec<ClientReport>,
}

/// The figures of a port, which its task updates and others read.
pub(super) type Shared = Arc<Mutex<PortReport>>;
