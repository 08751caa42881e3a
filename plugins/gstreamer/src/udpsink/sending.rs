//! The receivers of `creel-udpsink`, and sending to them.

use creel::net::{Outgoing, UdpSocket};
use gst::subclass::prelude::*;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use super::{CAT, UdpSink, lock};
use crate::socket;
use crate::stream::{defer, in_step};

/// The time after which a thread that belongs to no context tries to send again, if the socket's
/// buffer was full.
const RETRY_AFTER: Duration = Duration::from_micros(500);

/// The sockets and the receivers.
pub(super) struct Sending {
    pub(super) clients: Vec<SocketAddr>,
    pub(super) v4: Option<Arc<UdpSocket>>,
    pub(super) v6: Option<Arc<UdpSocket>>,
    /// The datagrams that have not been sent yet, for each socket.
    pub(super) out_v4: Outgoing,
    pub(super) out_v6: Outgoing,
}

impl UdpSink {
    pub(super) fn add(&self, host: &str, port: i32) {
        if let Some(client) = client(self, host, port) {
            let mut sending = lock(&self.sending);
            if !sending.clients.contains(&client) {
                sending.clients.push(client);
                self.membership(&sending, client, true);
            }
        }
    }

    pub(super) fn remove(&self, host: &str, port: i32) {
        if let Some(client) = client(self, host, port) {
            let mut sending = lock(&self.sending);
            if let Some(at) = sending.clients.iter().position(|known| *known == client) {
                sending.clients.remove(at);
                self.membership(&sending, client, false);
            }
        }
    }

    pub(super) fn set_clients(&self, clients: Vec<SocketAddr>) {
        let mut sending = lock(&self.sending);
        let before = std::mem::take(&mut sending.clients);
        for client in before.iter().filter(|client| !clients.contains(client)) {
            self.membership(&sending, *client, false);
        }
        for client in clients.iter().filter(|client| !before.contains(client)) {
            self.membership(&sending, *client, true);
        }
        sending.clients = clients;
    }

    /// Joins or leaves the multicast group `client`. Does nothing if the address is not a multicast
    /// address, if there is no socket for its family, or if the property `auto-multicast` is off.
    pub(super) fn membership(&self, sending: &Sending, client: SocketAddr, join: bool) {
        let socket = if client.is_ipv4() {
            &sending.v4
        } else {
            &sending.v6
        };
        let (true, Some(socket)) = (client.ip().is_multicast(), socket) else {
            return;
        };
        if !self.settings.get::<bool>("auto-multicast") {
            return;
        }
        let interfaces = self.settings.string("multicast-iface");
        let done = match join {
            true => socket::join(socket.as_std(), client.ip(), None, &interfaces),
            false => socket::leave(socket.as_std(), client.ip(), &interfaces),
        };
        if let Err(error) = done {
            gst::warning!(
                CAT,
                imp = self,
                "cannot change the membership of {client}: {error}"
            );
        }
    }

    /// Sends buffers to all clients.
    pub(super) fn send<'a>(
        &self,
        buffers: impl IntoIterator<Item = &'a gst::BufferRef>,
    ) -> Result<gst::FlowSuccess, gst::FlowError> {
        let mut guard = lock(&self.sending);
        let sending = &mut *guard;
        let (mut count, mut bytes) = (0, 0);
        for buffer in buffers {
            let map = buffer.map_readable().map_err(|_| gst::FlowError::Error)?;
            let clients = |v4| {
                sending
                    .clients
                    .iter()
                    .filter(move |c| c.is_ipv4() == v4)
                    .copied()
            };
            sending.out_v4.push_to_many(&map, clients(true));
            sending.out_v6.push_to_many(&map, clients(false));
            count += 1;
            bytes += map.len() as u64;
        }
        self.counters.buffers.fetch_add(count, Ordering::Relaxed);
        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.flush(sending);
        if sending.is_done() {
            return Ok(gst::FlowSuccess::Ok);
        }
        drop(guard);
        if in_step() {
            self.defer_rest();
        } else {
            self.block_for_rest()?;
        }
        Ok(gst::FlowSuccess::Ok)
    }

    /// Sends as much as the sockets take.
    fn flush(&self, sending: &mut Sending) {
        for (socket, out) in [
            (&sending.v4, &mut sending.out_v4),
            (&sending.v6, &mut sending.out_v6),
        ] {
            let Some(socket) = socket else {
                self.counters
                    .failed
                    .fetch_add(out.len() as u64, Ordering::Relaxed);
                out.clear();
                continue;
            };
            if out.is_empty() {
                out.clear();
                continue;
            }
            let sent = socket.try_send_batch(out);
            self.counters
                .datagrams
                .fetch_add(sent.sent as u64, Ordering::Relaxed);
            if sent.failed > 0 {
                self.counters
                    .failed
                    .fetch_add(sent.failed as u64, Ordering::Relaxed);
                gst::debug!(
                    CAT,
                    imp = self,
                    "cannot send {} datagrams: {:?}",
                    sent.failed,
                    sent.error
                );
            }
        }
    }

    /// Makes the stream wait until the rest has been sent.
    fn defer_rest(&self) {
        let weak = self.obj().downgrade();
        let mut writable: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send>>> = None;
        defer(Box::new(move |cx| {
            let Some(element) = weak.upgrade() else {
                return Poll::Ready(());
            };
            let sink = element.imp();
            loop {
                if let Some(waiting) = &mut writable {
                    let _ = std::task::ready!(waiting.as_mut().poll(cx));
                    writable = None;
                }
                let mut sending = lock(&sink.sending);
                if sink.closed.load(Ordering::SeqCst) {
                    sending.out_v4.clear();
                    sending.out_v6.clear();
                }
                sink.flush(&mut sending);
                let socket = match (sending.out_v4.is_empty(), sending.out_v6.is_empty()) {
                    (true, true) => return Poll::Ready(()),
                    (false, _) => sending.v4.clone(),
                    (true, false) => sending.v6.clone(),
                };
                let Some(socket) = socket else {
                    return Poll::Ready(());
                };
                writable = Some(Box::pin(async move { socket.writable().await }));
            }
        }));
    }

    /// Blocks until the rest has been sent.
    fn block_for_rest(&self) -> Result<(), gst::FlowError> {
        loop {
            std::thread::sleep(RETRY_AFTER);
            let mut sending = lock(&self.sending);
            if self.closed.load(Ordering::SeqCst) {
                sending.out_v4.clear();
                sending.out_v6.clear();
                return Err(gst::FlowError::Flushing);
            }
            self.flush(&mut sending);
            if sending.is_done() {
                return Ok(());
            }
        }
    }
}

impl Default for Sending {
    fn default() -> Self {
        Self {
            clients: vec![SocketAddr::from(([127, 0, 0, 1], 5_004))],
            v4: None,
            v6: None,
            out_v4: Outgoing::new(),
            out_v6: Outgoing::new(),
        }
    }
}

impl Sending {
    fn is_done(&self) -> bool {
        self.out_v4.is_empty() && self.out_v6.is_empty()
    }
}

/// Returns the address of a receiver, or logs why there is none.
fn client(sink: &UdpSink, host: &str, port: i32) -> Option<SocketAddr> {
    let port = u16::try_from(port).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let address: io::Result<(IpAddr, u16)> =
        port.and_then(|port| Ok((socket::resolve(host)?, port)));
    match address {
        Ok((ip, port)) => Some(SocketAddr::new(ip, port)),
        Err(error) => {
            gst::error!(CAT, imp = sink, "cannot use the client {host}: {error}");
            None
        }
    }
}

/// Parses a list of receivers.
pub(super) fn parse_clients(sink: &UdpSink, list: &str) -> Vec<SocketAddr> {
    let parts = list
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let of = |part: &str| {
        if let Ok(address) = part.parse() {
            return Some(address);
        }
        let (host, port) = part.rsplit_once(':').unwrap_or((part, ""));
        match port.parse() {
            Ok(port) => client(sink, host, port),
            Err(_) => {
                gst::error!(
                    CAT,
                    imp = sink,
                    "cannot use the client {part}: expected HOST:PORT"
                );
                None
            }
        }
    };
    parts.filter_map(of).collect()
}
