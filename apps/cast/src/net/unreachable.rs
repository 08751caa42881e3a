//! Clients whose ports are closed.
//!
//! A host without a program at a port answers with an ICMP message. The kernel reports the message
//! to an unconnected socket only if the socket asks for it. It does so in two ways: the next call
//! fails, and the address of the client waits in the socket's error queue. We read the queue
//! several times per second.
//!
//! Source: Linux manual page ip(7), `IP_RECVERR`.

use crate::lock::lock;
use creel::net::UdpSocket;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often we read the error queue.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);
/// The maximum number of clients that we remember.
const CLIENTS_MAX: usize = 65_536;
/// A client was closed from the beginning if its first error arrives within this time after the
/// sockets of the context were opened. A client that is added later never counts as such.
const BEGINNING: Duration = Duration::from_secs(1);

/// A client whose host answered that its port is closed or that it cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClosedPort {
    pub(crate) client: SocketAddr,
    /// The number of answers. A host limits how many it sends per second.
    pub(crate) answers: u64,
    /// Whether the client was closed from the beginning, so that it has probably received nothing.
    pub(crate) from_beginning: bool,
}

/// Collects the errors of the sockets of a context.
#[derive(Debug)]
pub(crate) struct Unreachable {
    begin: Instant,
    clients: Mutex<BTreeMap<SocketAddr, ClosedPort>>,
}

impl Default for Unreachable {
    fn default() -> Self {
        Unreachable {
            begin: Instant::now(),
            clients: Mutex::default(),
        }
    }
}

impl Unreachable {
    fn clients(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, ClosedPort>> {
        lock(&self.clients)
    }

    /// Reads the errors of a socket that have arrived.
    pub(crate) fn read(&self, socket: &UdpSocket) {
        for client in errors(socket) {
            let mut clients = self.clients();
            if clients.len() >= CLIENTS_MAX && !clients.contains_key(&client) {
                continue;
            }
            let closed = clients.entry(client).or_insert_with(|| ClosedPort {
                client,
                answers: 0,
                from_beginning: self.begin.elapsed() < BEGINNING,
            });
            closed.answers += 1;
        }
    }

    /// Returns the clients, ordered by address.
    pub(crate) fn closed_ports(&self) -> Vec<ClosedPort> {
        self.clients().values().copied().collect()
    }
}

/// Returns whether an error of a socket is an answer to a datagram that was sent before, so that
/// the socket itself is fine. Windows reports a closed port as a reset connection.
pub(crate) fn is_about_a_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
    match error.kind() {
        ConnectionRefused | HostUnreachable | NetworkUnreachable => true,
        ConnectionReset => cfg!(windows),
        _ => false,
    }
}

/// Makes the kernel report errors. Returns false if the system cannot.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn request(socket: &UdpSocket) -> bool {
    use nix::sys::socket::{setsockopt, sockopt};
    let socket = socket.as_std();
    let is_ipv4 = socket.local_addr().is_ok_and(|address| address.is_ipv4());
    match is_ipv4 {
        true => setsockopt(socket, sockopt::Ipv4RecvErr, &true).is_ok(),
        false => setsockopt(socket, sockopt::Ipv6RecvErr, &true).is_ok(),
    }
}

/// Makes the kernel report errors. Returns false if the system cannot.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn request(_: &UdpSocket) -> bool {
    false
}

/// Returns the addresses to which datagrams could not be delivered, and removes them from the error
/// queue.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn errors(socket: &UdpSocket) -> impl Iterator<Item = SocketAddr> {
    use nix::sys::socket::MsgFlags;
    let socket = socket2::SockRef::from(socket.as_std());
    // We clear the error that waits for the next call, because it is one of those in the queue.
    let _ = socket.take_error();
    let flags = (MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT).bits();
    std::iter::from_fn(move || {
        let mut bytes = [std::mem::MaybeUninit::uninit(); 1];
        let (_, client) = socket.recv_from_with_flags(&mut bytes, flags).ok()?;
        Some(client.as_socket())
    })
    .flatten()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn errors(_: &UdpSocket) -> impl Iterator<Item = SocketAddr> {
    std::iter::empty()
}
