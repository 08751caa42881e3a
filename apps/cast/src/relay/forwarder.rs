//! The task that serves one port of a relay. It sends the packets that arrive to all clients, with
//! one system call if possible.

use super::plan::Plan;
use super::report::{ClientReport, Shared};
use super::rewrite::Rewrite;
use super::translate::{Translator, translate};
use crate::lock::lock;
use crate::net::rtp::{self, is_rtcp};
use crate::net::session::Rtcp;
use crate::net::udp::Clients;
use creel::net::{Outgoing, Received, Sent, UdpSocket};
use creel::task::yield_now;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll};

/// The number of datagrams per system call, and the room for each.
const BATCH: usize = 64;
const DATAGRAM_BYTES: usize = 1 << 16;
/// The number of batches that we receive while a send is pending, before other tasks get their
/// turn.
const BATCHES_PER_SEND: usize = 16;
/// The maximum number of sources whose addresses we remember, in order to send them the clients'
/// reports.
const SOURCES_MAX: usize = 32_768;

/// The maximum number of sources to which we send one RTCP packet of a client.
const RECEIVERS_MAX: usize = 64;

/// Collects the SSRCs that RTCP names.
#[derive(Debug, Default)]
struct Named {
    senders: Vec<u32>,
    media: Vec<u32>,
}

impl Translator for Named {
    fn sender(&mut self, ssrc: u32) -> u32 {
        self.senders.push(ssrc);
        ssrc
    }

    fn media(&mut self, ssrc: u32) -> u32 {
        self.media.push(ssrc);
        ssrc
    }
}

/// A port and the clients of its packets.
#[derive(Debug)]
pub(super) struct Forwarder {
    socket: UdpSocket,
    /// The socket for clients whose addresses have another family (IPv4 or IPv6) than the port.
    other: Option<UdpSocket>,
    state: ForwardState,
}

/// The state of a forwarder, except its sockets.
#[derive(Debug)]
struct ForwardState {
    clients: Clients,
    /// The offset of the clients' ports. It is one if this is the port for reports.
    offset: u16,
    rtcp: Rtcp,
    is_ipv4: bool,
    rewrite: Option<Rewrite>,
    rewritten: Vec<u8>,
    /// The current clients, and what was sent to them.
    current: Vec<ClientReport>,
    departed: Vec<ClientReport>,
    sources: HashMap<u32, SocketAddr>,
    /// Packets that wait while the socket's buffer is full.
    queued: VecDeque<Vec<u8>>,
    queue: usize,
    packets: u64,
    reports: u64,
    refused: u64,
    /// The packets for clients whose addresses have the family of the port, and those for all other
    /// clients.
    outgoing: [Outgoing; 2],
    shared: Shared,
}

impl Forwarder {
    pub(super) fn new(
        socket: UdpSocket,
        other: Option<UdpSocket>,
        clients: Clients,
        offset: u16,
        plan: &Plan,
        shared: Shared,
    ) -> Self {
        let state = ForwardState {
            clients,
            offset,
            rtcp: plan.rtcp,
            is_ipv4: plan.on.is_ipv4(),
            rewrite: plan.rewrite.then(Rewrite::new),
            rewritten: Vec::new(),
            current: Vec::new(),
            departed: Vec::new(),
            sources: HashMap::new(),
            queued: VecDeque::new(),
            queue: plan.queue,
            packets: 0,
            reports: 0,
            refused: 0,
            outgoing: [Outgoing::new(), Outgoing::new()],
            shared,
        };
        Forwarder {
            socket,
            other,
            state,
        }
    }

    /// Relays until the future is dropped.
    pub(super) async fn run(self) {
        let Forwarder {
            socket,
            other,
            mut state,
        } = self;
        let mut received = Received::new(BATCH, DATAGRAM_BYTES);
        while let Ok(filled) = socket.recv_batch(&mut received).await {
            state.update_clients();
            state.take(&received, &socket);
            state.publish();
            let mut outgoing = std::mem::take(&mut state.outgoing);
            let [own, others] = &mut outgoing;
            if !own.is_empty() {
                let sent = sent(&socket, own, &mut received, &mut state).await;
                state.count_failures(&sent);
            }
            if let Some(other) = &other
                && !others.is_empty()
            {
                let sent = other.send_batch(others).await;
                state.count_failures(&sent);
            }
            state.outgoing = outgoing;
            while !state.queued.is_empty() {
                // We send the packets that arrived in the meantime before we receive more.
                state.push_queued();
                let mut outgoing = std::mem::take(&mut state.outgoing);
                let sent = sent(&socket, &mut outgoing[0], &mut received, &mut state).await;
                state.count_failures(&sent);
                state.outgoing = outgoing;
            }
            // We yield after a full batch. Otherwise an endless flood would keep the context from
            // serving its other ports, and from ending the run.
            if filled == BATCH {
                yield_now().await;
            }
        }
    }
}

/// Sends a batch. While the send is pending, packets that arrive go to the queue, which drops its
/// oldest packets when it is full.
async fn sent(
    socket: &UdpSocket,
    outgoing: &mut Outgoing,
    received: &mut Received,
    state: &mut ForwardState,
) -> Sent {
    let mut sending = pin!(socket.send_batch(outgoing));
    std::future::poll_fn(|cx: &mut Context<'_>| {
        if let Poll::Ready(sent) = sending.as_mut().poll(cx) {
            return Poll::Ready(sent);
        }
        for _ in 0..BATCHES_PER_SEND {
            match socket.poll_recv_batch(cx, received) {
                Poll::Ready(Ok(_)) => state.enqueue(received, socket),
                _ => return Poll::Pending,
            }
        }
        // We wake ourselves again, so that other tasks get their turn first.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

impl ForwardState {
    /// Updates the current clients, and keeps the reports about former ones.
    fn update_clients(&mut self) {
        let now = self.clients.list();
        let at = |client: SocketAddr| {
            SocketAddr::new(client.ip(), client.port().saturating_add(self.offset))
        };
        let is_same = now.len() == self.current.len()
            && now
                .iter()
                .zip(&self.current)
                .all(|(&client, current)| at(client) == current.to);
        if is_same {
            return;
        }
        let mut before = std::mem::take(&mut self.current);
        before.append(&mut self.departed);
        for client in now.into_iter().map(at) {
            let current = before.iter().position(|current| current.to == client);
            let report = current.map(|index| before.swap_remove(index));
            self.current.push(report.unwrap_or(ClientReport {
                to: client,
                sent: 0,
                dropped: 0,
            }));
        }
        // We limit the former clients, so that the list does not grow for as long as the program
        // runs.
        before.truncate(1_024);
        self.departed = before;
    }

    fn take(&mut self, received: &Received, socket: &UdpSocket) {
        let one_by_one = self.rewrite.is_some() || self.current.len() == 1;
        // A bit mask of the datagrams that go to clients. A batch has at most 64 of them.
        let mut forwarded = 0_u64;
        for (index, datagram) in received.iter().enumerate() {
            if self.handle_report(datagram.bytes, datagram.from, socket) {
                continue;
            }
            self.packets += u64::from(!is_rtcp(datagram.bytes));
            forwarded |= 1 << index;
            if one_by_one {
                self.push(datagram.bytes);
            }
        }
        if one_by_one {
            return;
        }
        // We push the packets of one client after those of another, because the kernel can send
        // consecutive packets to one address as one message (GSO).
        let ForwardState {
            current,
            outgoing,
            is_ipv4,
            ..
        } = self;
        for client in current {
            let outgoing = &mut outgoing[usize::from(client.to.is_ipv4() != *is_ipv4)];
            let forwarded = |(index, _): &(usize, _)| (forwarded >> index) & 1 == 1;
            for (_, datagram) in received.iter().enumerate().filter(forwarded) {
                outgoing.push(datagram.bytes, client.to);
                client.sent += 1;
            }
        }
    }

    /// Pushes a datagram for all clients.
    fn push(&mut self, datagram: &[u8]) {
        let ForwardState {
            rewrite,
            rewritten,
            current,
            outgoing,
            is_ipv4,
            ..
        } = self;
        let bytes = match rewrite {
            None => datagram,
            Some(rewrite) => match rewrite.forward(datagram, rewritten) {
                Some(()) => &rewritten[..],
                None => return,
            },
        };
        for client in current {
            outgoing[usize::from(client.to.is_ipv4() != *is_ipv4)].push(bytes, client.to);
            client.sent += 1;
        }
    }

    /// Handles an RTCP packet of a client, and sends it to the sources that it is about. Returns
    /// false if the datagram must go to the clients instead.
    fn handle_report(&mut self, datagram: &[u8], from: SocketAddr, socket: &UdpSocket) -> bool {
        if !is_rtcp(datagram) {
            // Other protocols on the port, for example STUN, have no SSRC.
            if self.rtcp == Rtcp::Mux
                && let Ok((header, _)) = rtp::parse_truncated(datagram)
            {
                self.remember_source(header.ssrc, from);
            }
            return false;
        }
        self.reports += 1;
        if self.rtcp == Rtcp::Off {
            return true;
        }
        if !self.current.iter().any(|client| client.to == from) {
            let mut named = Named::default();
            let mut unused = Vec::new();
            if translate(datagram, &mut named, &mut unused).is_some() {
                for ssrc in named.senders {
                    self.remember_source(ssrc, from);
                }
            }
            return false;
        }
        let back = match &mut self.rewrite {
            None => datagram,
            Some(rewrite) => match rewrite.backward(datagram, from, &mut self.rewritten) {
                Some(()) => &self.rewritten[..],
                None => return true,
            },
        };
        for source in self.sources_of(back) {
            // We ignore errors, because the next report replaces a lost one.
            let _ = socket.as_std().send_to(back, source);
        }
        true
    }

    /// Returns the addresses of the sources that RTCP of a client is about. If it names no source,
    /// for example because it is an empty report, it is for all of them.
    fn sources_of(&self, rtcp: &[u8]) -> Vec<SocketAddr> {
        let (mut named, mut unused) = (Named::default(), Vec::new());
        if translate(rtcp, &mut named, &mut unused).is_none() {
            return Vec::new();
        }
        let media = named.media.iter();
        let mut to: Vec<SocketAddr> = media
            .filter_map(|ssrc| self.sources.get(ssrc).copied())
            .collect();
        if to.is_empty() && named.media.is_empty() {
            to.extend(self.sources.values());
        }
        to.sort_unstable();
        to.dedup();
        to.truncate(RECEIVERS_MAX);
        to
    }

    fn remember_source(&mut self, ssrc: u32, from: SocketAddr) {
        if self.sources.get(&ssrc) != Some(&from) && self.sources.len() < SOURCES_MAX {
            self.sources.insert(ssrc, from);
        }
    }

    /// Queues packets that arrive while the socket's buffer is full.
    fn enqueue(&mut self, received: &Received, socket: &UdpSocket) {
        for datagram in received.iter() {
            if self.handle_report(datagram.bytes, datagram.from, socket) {
                continue;
            }
            self.packets += u64::from(!is_rtcp(datagram.bytes));
            let mut bytes = Vec::new();
            if self.queued.len() >= self.queue {
                bytes = self.queued.pop_front().unwrap_or_default();
                self.current
                    .iter_mut()
                    .for_each(|client| client.dropped += 1);
            }
            bytes.clear();
            bytes.extend_from_slice(datagram.bytes);
            self.queued.push_back(bytes);
        }
    }

    fn push_queued(&mut self) {
        self.update_clients();
        for datagram in std::mem::take(&mut self.queued) {
            self.push(&datagram);
        }
    }

    fn count_failures(&mut self, sent: &Sent) {
        self.refused += sent.failed as u64;
        if let Some(error) = &sent.error {
            lock(&self.shared)
                .why
                .get_or_insert_with(|| error.to_string());
        }
    }

    /// Publishes the figures of this port.
    fn publish(&mut self) {
        let mut shared = lock(&self.shared);
        (shared.packets, shared.rtcp, shared.refused) = (self.packets, self.reports, self.refused);
        let len = self.current.len() + self.departed.len();
        shared.clients.truncate(len);
        for (index, client) in self.current.iter().chain(&self.departed).enumerate() {
            match shared.clients.get_mut(index) {
                Some(report) => report.clone_from(client),
                None => shared.clients.push(client.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_full_queue_drops_and_counts_its_oldest_packets() {
        let pool = creel::Pool::builder().workers(1).build().unwrap();
        let local = (Ipv4Addr::LOCALHOST, 0);
        let client = std::net::UdpSocket::bind(local).unwrap();
        let plan = Plan {
            queue: 3,
            ..Plan::new(local.into())
        };
        let clients = Clients::default();
        clients.add(client.local_addr().unwrap());
        let socket = UdpSocket::bind(local.into()).unwrap();
        let on = socket.local_addr().unwrap();
        let Forwarder {
            socket, mut state, ..
        } = Forwarder::new(socket, None, clients, 0, &plan, Shared::default());
        state.update_clients();
        let mut received = Received::new(BATCH, 64);
        for n in 0..5 {
            client.send_to(&[0x80, n, n, n], on).unwrap();
            let came = pool.block_on(socket.recv_batch(&mut received));
            assert!(came.is_ok());
            state.enqueue(&received, &socket);
            assert!(state.queued.len() <= 3);
        }
        assert_eq!((state.packets, state.current[0].dropped), (5, 2));
        state.push_queued();
        assert_eq!((state.outgoing[0].len(), state.current[0].sent), (3, 3));
        let mut outgoing = std::mem::take(&mut state.outgoing);
        let sent = pool.block_on(socket.send_batch(&mut outgoing[0]));
        assert_eq!((sent.sent, sent.failed), (3, 0));
        let mut bytes = [0; 64];
        let numbers = (0..3).map(|_| {
            client.recv(&mut bytes).unwrap();
            bytes[1]
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [2, 3, 4]);
    }
}
