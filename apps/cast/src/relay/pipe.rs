//! One port's task: what comes goes to all clients, in one call where it can.

use super::rewrite::Rewrite;
use super::{ClientReport, Plan, Shared, lock};
use crate::net::rtcp::{self, Item};
use crate::net::rtp::is_rtcp;
use crate::net::session::Rtcp;
use crate::net::udp::Clients;
use creel::net::{Outgoing, Received, Sent, UdpSocket};
use creel::task::yield_now;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll};

/// Datagrams a system call, and the room for each.
const SLOTS: usize = 64;
const DATAGRAM_BYTES: usize = 1 << 16;
/// What is taken while a send waits, before others have their turn.
const CALLS: usize = 16;
/// Sources whose address is known for the reports of clients.
const SOURCES_MAX: usize = 32_768;

/// A port, and where its packets go.
#[derive(Debug)]
pub(super) struct Pipe {
    socket: UdpSocket,
    /// For clients of the other family of addresses.
    other: Option<UdpSocket>,
    way: Way,
}

/// What a pipe knows beside its sockets.
#[derive(Debug)]
struct Way {
    clients: Clients,
    /// Of clients' ports: one where it is the port of reports.
    offset: u16,
    rtcp: Rtcp,
    is_ipv4: bool,
    rewrite: Option<Rewrite>,
    rewritten: Vec<u8>,
    /// The clients as they were last, and what they have got.
    known: Vec<ClientReport>,
    gone: Vec<ClientReport>,
    sources: HashMap<u32, SocketAddr>,
    /// What waits while the socket's buffer is full.
    waiting: VecDeque<Vec<u8>>,
    queue: usize,
    packets: u64,
    reports: u64,
    refused: u64,
    /// What goes to clients of the port's family, and of the other one.
    outgoing: [Outgoing; 2],
    shared: Shared,
}

impl Pipe {
    pub(super) fn new(
        socket: UdpSocket,
        other: Option<UdpSocket>,
        clients: Clients,
        offset: u16,
        plan: &Plan,
        shared: Shared,
    ) -> Self {
        let way = Way {
            clients,
            offset,
            rtcp: plan.rtcp,
            is_ipv4: plan.on.is_ipv4(),
            rewrite: plan.rewrite.then(Rewrite::new),
            rewritten: Vec::new(),
            known: Vec::new(),
            gone: Vec::new(),
            sources: HashMap::new(),
            waiting: VecDeque::new(),
            queue: plan.queue,
            packets: 0,
            reports: 0,
            refused: 0,
            outgoing: [Outgoing::new(), Outgoing::new()],
            shared,
        };
        Pipe { socket, other, way }
    }

    /// Relays until it is dropped.
    pub(super) async fn run(self) {
        let Pipe {
            socket,
            other,
            mut way,
        } = self;
        let mut received = Received::new(SLOTS, DATAGRAM_BYTES);
        while let Ok(filled) = socket.recv_batch(&mut received).await {
            way.look_at_clients();
            way.take(&received, &socket);
            way.tell();
            let mut outgoing = std::mem::take(&mut way.outgoing);
            let [own, others] = &mut outgoing;
            if !own.is_empty() {
                let sent = sent(&socket, own, &mut received, &mut way).await;
                way.note(&sent);
            }
            if let Some(other) = &other
                && !others.is_empty()
            {
                let sent = other.send_batch(others).await;
                way.note(&sent);
            }
            way.outgoing = outgoing;
            while !way.waiting.is_empty() {
                // What has come meanwhile is on its way before more is taken.
                way.take_waiting();
                let mut outgoing = std::mem::take(&mut way.outgoing);
                let sent = sent(&socket, &mut outgoing[0], &mut received, &mut way).await;
                way.note(&sent);
                way.outgoing = outgoing;
            }
            // What never ends must not keep the context from its other ports, or from its end.
            if filled == SLOTS {
                yield_now().await;
            }
        }
    }
}

/// Sends; while that has to wait, takes what comes into the queue, which drops its oldest.
async fn sent(
    socket: &UdpSocket,
    outgoing: &mut Outgoing,
    received: &mut Received,
    way: &mut Way,
) -> Sent {
    let mut sending = pin!(socket.send_batch(outgoing));
    std::future::poll_fn(|cx: &mut Context<'_>| {
        if let Poll::Ready(sent) = sending.as_mut().poll(cx) {
            return Poll::Ready(sent);
        }
        for _ in 0..CALLS {
            match socket.poll_recv_batch(cx, received) {
                Poll::Ready(Ok(_)) => way.wait(received, socket),
                _ => return Poll::Pending,
            }
        }
        // The others' turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

impl Way {
    /// Who hears now: those who came and went are noted.
    fn look_at_clients(&mut self) {
        let now = self.clients.list();
        let at = |client: SocketAddr| {
            SocketAddr::new(client.ip(), client.port().saturating_add(self.offset))
        };
        let is_same = now.len() == self.known.len()
            && now
                .iter()
                .zip(&self.known)
                .all(|(&client, known)| at(client) == known.to);
        if is_same {
            return;
        }
        let mut before = std::mem::take(&mut self.known);
        before.append(&mut self.gone);
        for client in now.into_iter().map(at) {
            let known = before.iter().position(|known| known.to == client);
            let report = known.map(|index| before.swap_remove(index));
            self.known.push(report.unwrap_or(ClientReport {
                to: client,
                sent: 0,
                dropped: 0,
            }));
        }
        // As many as come and go in a year are no reason to grow.
        before.truncate(1_024);
        self.gone = before;
    }

    fn take(&mut self, received: &Received, socket: &UdpSocket) {
        let one_by_one = self.rewrite.is_some() || self.known.len() == 1;
        // Which of them go to clients; there are at most as many as slots.
        let mut passed = 0_u64;
        for (index, datagram) in received.iter().enumerate() {
            if self.is_for_the_source(datagram.bytes, datagram.from, socket) {
                continue;
            }
            self.packets += u64::from(!is_rtcp(datagram.bytes));
            passed |= 1 << index;
            if one_by_one {
                self.push(datagram.bytes);
            }
        }
        if one_by_one {
            return;
        }
        // Client after client: what goes to one in a row the kernel may take as one.
        let Way {
            known,
            outgoing,
            is_ipv4,
            ..
        } = self;
        for client in known {
            let outgoing = &mut outgoing[usize::from(client.to.is_ipv4() != *is_ipv4)];
            let passed = |(index, _): &(usize, _)| (passed >> index) & 1 == 1;
            for (_, datagram) in received.iter().enumerate().filter(passed) {
                outgoing.push(datagram.bytes, client.to);
                client.sent += 1;
            }
        }
    }

    /// Writes a datagram for all clients.
    fn push(&mut self, datagram: &[u8]) {
        let Way {
            rewrite,
            rewritten,
            known,
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
        for client in known {
            outgoing[usize::from(client.to.is_ipv4() != *is_ipv4)].push(bytes, client.to);
            client.sent += 1;
        }
    }

    /// Whether it is a client's report, which then goes to the source that it is about; or a report
    /// where none are passed.
    fn is_for_the_source(&mut self, datagram: &[u8], from: SocketAddr, socket: &UdpSocket) -> bool {
        if !is_rtcp(datagram) {
            if self.rtcp == Rtcp::Mux
                && let Some(ssrc) = datagram.get(8..12).and_then(|bytes| bytes.try_into().ok())
            {
                self.know(u32::from_be_bytes(ssrc), from);
            }
            return false;
        }
        self.reports += 1;
        if self.rtcp == Rtcp::Off {
            return true;
        }
        if !self.known.iter().any(|client| client.to == from) {
            let mut ssrc = None;
            rtcp::read(datagram, |item| {
                if let Item::Sender(of, _) = item {
                    ssrc = Some(of);
                }
            });
            if let Some(ssrc) = ssrc {
                self.know(ssrc, from);
            }
            return false;
        }
        let back = match &self.rewrite {
            None => datagram,
            Some(rewrite) => match rewrite.backward(datagram, &mut self.rewritten) {
                Some(()) => &self.rewritten[..],
                None => return true,
            },
        };
        let mut to = Vec::new();
        rtcp::read(back, |item| {
            if let Item::Block(block) = item
                && let Some(&source) = self.sources.get(&block.ssrc)
                && !to.contains(&source)
            {
                to.push(source);
            }
        });
        for source in to {
            // A report that does not get through is made up for by the next one.
            let _ = socket.as_std().send_to(back, source);
        }
        true
    }

    fn know(&mut self, ssrc: u32, from: SocketAddr) {
        if self.sources.get(&ssrc) != Some(&from) && self.sources.len() < SOURCES_MAX {
            self.sources.insert(ssrc, from);
        }
    }

    /// While the socket's buffer is full.
    fn wait(&mut self, received: &Received, socket: &UdpSocket) {
        for datagram in received.iter() {
            if self.is_for_the_source(datagram.bytes, datagram.from, socket) {
                continue;
            }
            self.packets += u64::from(!is_rtcp(datagram.bytes));
            let mut bytes = Vec::new();
            if self.waiting.len() >= self.queue {
                bytes = self.waiting.pop_front().unwrap_or_default();
                self.known.iter_mut().for_each(|client| client.dropped += 1);
            }
            bytes.clear();
            bytes.extend_from_slice(datagram.bytes);
            self.waiting.push_back(bytes);
        }
    }

    fn take_waiting(&mut self) {
        self.look_at_clients();
        for datagram in std::mem::take(&mut self.waiting) {
            self.push(&datagram);
        }
    }

    fn note(&mut self, sent: &Sent) {
        self.refused += sent.failed as u64;
        if let Some(error) = &sent.error {
            lock(&self.shared)
                .why
                .get_or_insert_with(|| error.to_string());
        }
    }

    /// Tells those who ask.
    fn tell(&mut self) {
        let mut shared = lock(&self.shared);
        (shared.packets, shared.rtcp, shared.refused) = (self.packets, self.reports, self.refused);
        let len = self.known.len() + self.gone.len();
        shared.clients.truncate(len);
        for (index, client) in self.known.iter().chain(&self.gone).enumerate() {
            match shared.clients.get_mut(index) {
                Some(told) => told.clone_from(client),
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
    fn what_waits_is_bounded_and_its_oldest_are_dropped_and_counted() {
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
        let Pipe {
            socket, mut way, ..
        } = Pipe::new(socket, None, clients, 0, &plan, Shared::default());
        way.look_at_clients();
        let mut received = Received::new(SLOTS, 64);
        for n in 0..5 {
            client.send_to(&[0x80, n, n, n], on).unwrap();
            let came = pool.block_on(socket.recv_batch(&mut received));
            assert!(came.is_ok());
            way.wait(&received, &socket);
            assert!(way.waiting.len() <= 3);
        }
        assert_eq!((way.packets, way.known[0].dropped), (5, 2));
        way.take_waiting();
        assert_eq!((way.outgoing[0].len(), way.known[0].sent), (3, 3));
        let mut outgoing = std::mem::take(&mut way.outgoing);
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
