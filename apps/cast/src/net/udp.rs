//! Sends streams over UDP.
//!
//! All streams of a context send through one socket per address family. A sink writes its datagram
//! to the context's *outbox*, which has one [`SendQueue`] per family. The queue sends the datagrams
//! of all streams that ran in the same turn together.

use super::arrival;
use super::options::{Options, send_buffer};
use super::rtcp::{self, Item, ReportBlock};
use super::session::Rtcp;
use super::unreachable::{self, ClosedPort, Unreachable};
use super::xr::{self, Block, Delay, VoipMetrics};
use crate::lock::lock;
use creel::Pool;
use creel::net::{Received, UdpSocket};
use creel::time::sleep;
use creel_media::SendQueue;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The maximum number of datagrams in a queue of an outbox.
const OUTBOX_MAX: usize = 8_192;
/// The maximum number of reports that we keep, one per stream and receiver, and of reference times.
const REPORTERS_MAX: usize = 65_536;
/// The number of reports that we receive with one system call.
const REPORTS_AT_ONCE: usize = 8;
/// The number of attempts to find two free ports in a row.
const PORT_PAIR_ATTEMPTS: usize = 64;

/// The receivers of a stream, per address family. You can change the list while the stream runs.
/// Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct Clients(Arc<Mutex<[Vec<SocketAddr>; 2]>>);

/// Returns the index of an address's family. IPv4 comes first.
fn family_index(address: SocketAddr) -> usize {
    usize::from(address.is_ipv6())
}

impl Clients {
    /// Returns all receivers. IPv4 addresses come before IPv6 addresses. Within a family, the
    /// receivers are in the order in which they were added.
    pub fn list(&self) -> Vec<SocketAddr> {
        lock(&self.0).concat()
    }

    /// Adds a receiver. Returns false if it was there already.
    pub fn add(&self, client: SocketAddr) -> bool {
        let mut clients = lock(&self.0);
        let clients = &mut clients[family_index(client)];
        let is_new = !clients.contains(&client);
        if is_new {
            clients.push(client);
        }
        is_new
    }

    /// Removes a receiver. Returns false if there was no such receiver.
    pub fn remove(&self, client: SocketAddr) -> bool {
        let mut clients = lock(&self.0);
        let clients = &mut clients[family_index(client)];
        let before = clients.len();
        clients.retain(|other| *other != client);
        clients.len() < before
    }

    /// Removes all receivers.
    pub fn clear(&self) {
        *lock(&self.0) = Default::default();
    }
}

/// The latest report of a receiver about a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LatestReport {
    pub(crate) block: ReportBlock,
    pub(crate) reports: u64,
    pub(crate) round_trip: Option<Duration>,
    /// The quality of the stream at the receiver, if the receiver sends extended reports.
    pub(crate) voip: Option<VoipMetrics>,
}

/// The latest reports, by stream and receiver.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reports {
    latest: Arc<Mutex<BTreeMap<(u32, SocketAddr), LatestReport>>>,
    /// The last reference time of each receiver, by its SSRC, and the time of its arrival. Both are
    /// in NTP format.
    references: Arc<Mutex<BTreeMap<u32, (u64, u64)>>>,
}

impl Reports {
    /// Records the blocks of a report that arrived at `now`, in NTP format.
    fn record(&self, datagram: &[u8], from: SocketAddr, now: u64) {
        rtcp::read(datagram, |item| {
            let Item::Block(block) = item else { return };
            let mut all = lock(&self.latest);
            let before = all.get(&(block.ssrc, from)).copied();
            let reports = before.map_or(0, |before| before.reports);
            if reports > 0 || all.len() < REPORTERS_MAX {
                let reported = LatestReport {
                    block,
                    reports: reports + 1,
                    round_trip: block.round_trip(now),
                    voip: before.and_then(|before| before.voip),
                };
                all.insert((block.ssrc, from), reported);
            }
        });
        xr::read(datagram, |block| match block {
            // We keep the quality only if the receiver has sent a report block about the same
            // stream before.
            Block::Voip(voip) => {
                if let Some(latest) = lock(&self.latest).get_mut(&(voip.ssrc, from)) {
                    latest.voip = Some(voip);
                }
            }
            Block::ReferenceTime(receiver, time) => {
                let mut references = lock(&self.references);
                if references.len() < REPORTERS_MAX || references.contains_key(&receiver) {
                    references.insert(receiver, (time, now));
                }
            }
            Block::Delay(..) => {}
        });
    }

    /// Returns the delays since the last reference times arrived, of at most as many receivers as
    /// one report has room for. `now` is in NTP format.
    pub(crate) fn delays(&self, now: u64) -> Vec<Delay> {
        let references = lock(&self.references);
        let delay = |(&receiver, &(time, arrived)): (&u32, &(u64, u64))| Delay {
            receiver,
            last_report: rtcp::compact_ntp(time),
            since: rtcp::compact_ntp(now.saturating_sub(arrived)),
        };
        references.iter().map(delay).take(xr::DELAYS_MAX).collect()
    }

    /// Returns the latest reports about a stream.
    pub(crate) fn of(&self, ssrc: u32) -> Vec<(SocketAddr, LatestReport)> {
        let all = lock(&self.latest);
        all.iter()
            .filter(|((of, _), _)| *of == ssrc)
            .map(|((_, from), reported)| (*from, *reported))
            .collect()
    }
}

/// The sockets for the clients of one address family.
#[derive(Debug)]
struct FamilySockets {
    queue: Arc<SendQueue>,
    /// The socket of the queue.
    socket: Arc<UdpSocket>,
    /// The socket that sends and receives reports. It is either the socket that sends the packets,
    /// or a socket on the next port.
    rtcp: Arc<UdpSocket>,
}

/// Sends the datagrams of all streams of a context.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// The sockets for IPv4 and IPv6. The second entry is `None` if the sockets for IPv6 could not
    /// be opened.
    families: [Option<FamilySockets>; 2],
    /// Counts the datagrams for a family without sockets. It is a plain counter, so relaxed
    /// ordering suffices.
    no_socket: AtomicU64,
    reports: Reports,
    /// The clients whose ports are closed.
    pub(crate) unreachable: Unreachable,
    /// The size of the send buffer that the system granted to the IPv4 socket, in bytes.
    pub(crate) buffer: usize,
}

impl Outbox {
    /// Opens the sockets, and requests send buffers of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no socket for IPv4. Without IPv6, datagrams to IPv6 addresses
    /// count as [failed](Self::failed).
    pub(crate) fn open(
        options: &Options,
        rtcp: Rtcp,
        bytes: usize,
        reports: Reports,
    ) -> io::Result<Arc<Self>> {
        let open = |is_ipv4: bool| -> io::Result<(FamilySockets, usize)> {
            let (socket, rtcp) = open_sockets(options, is_ipv4, rtcp == Rtcp::Own)?;
            let got = send_buffer(socket.as_std(), bytes)?;
            let queue = Arc::new(SendQueue::new(Arc::clone(&socket), OUTBOX_MAX));
            let sockets = FamilySockets {
                queue,
                socket,
                rtcp,
            };
            Ok((sockets, got))
        };
        let (first, buffer) = open(true)?;
        let second = open(false).ok().map(|(sockets, _)| sockets);
        Ok(Arc::new(Outbox {
            families: [Some(first), second],
            no_socket: AtomicU64::new(0),
            reports,
            unreachable: Unreachable::default(),
            buffer,
        }))
    }

    /// Starts the tasks that send, those that look for closed ports, and those that receive the
    /// clients' reports if `receive_rtcp` is set. The sending tasks end after
    /// [`close`](Self::close).
    pub(crate) fn start(self: &Arc<Self>, context: &Pool, receive_rtcp: bool) {
        for sockets in self.families.iter().flatten() {
            let queue = Arc::clone(&sockets.queue);
            context.spawn(async move { queue.run().await }).detach();
            let (outbox, socket) = (Arc::downgrade(self), Arc::clone(&sockets.socket));
            if unreachable::request(&socket) {
                let watch = async move {
                    // The task ends together with its context.
                    while let Some(outbox) = outbox.upgrade() {
                        outbox.unreachable.read(&socket);
                        drop(outbox);
                        sleep(unreachable::INTERVAL).await;
                    }
                };
                context.spawn(watch).detach();
            }
            if receive_rtcp {
                let (outbox, socket) = (Arc::downgrade(self), Arc::clone(&sockets.rtcp));
                arrival::request(&socket);
                let receive = async move {
                    let mut received = Received::new(REPORTS_AT_ONCE, 2_048);
                    loop {
                        match socket.recv_batch(&mut received).await {
                            Ok(_) => {}
                            Err(error) if unreachable::is_about_a_client(&error) => continue,
                            Err(_) => break,
                        }
                        let Some(outbox) = outbox.upgrade() else {
                            break;
                        };
                        for datagram in received.iter() {
                            let at = rtcp::ntp(arrival::since_1970(datagram.arrived));
                            outbox.reports.record(datagram.bytes, datagram.from, at);
                        }
                    }
                };
                // The task ends together with its context.
                context.spawn(receive).detach();
            }
        }
    }

    /// Queues a datagram for all `clients`.
    pub(crate) fn write(&self, datagram: &[u8], clients: &Clients) {
        let clients = lock(&clients.0);
        for (sockets, clients) in self.families.iter().zip(clients.iter()) {
            if clients.is_empty() {
                continue;
            }
            match sockets {
                Some(sockets) => sockets.queue.push(datagram, clients.iter().copied()),
                None => {
                    let count = clients.len() as u64;
                    self.no_socket.fetch_add(count, Ordering::Relaxed);
                }
            }
        }
    }

    /// Returns the number of datagrams that were dropped because a queue was full.
    pub(crate) fn dropped(&self) -> u64 {
        let families = self.families.iter().flatten();
        families.map(|sockets| sockets.queue.dropped()).sum()
    }

    /// Returns the number of datagrams that the system refused to send, including those for a
    /// family without sockets.
    pub(crate) fn failed(&self) -> u64 {
        let families = self.families.iter().flatten();
        families.map(|sockets| sockets.queue.failed()).sum::<u64>()
            + self.no_socket.load(Ordering::Relaxed)
    }

    /// Reads the last errors about closed ports, and returns all of them.
    pub(crate) fn closed_ports(&self) -> Vec<ClosedPort> {
        for sockets in self.families.iter().flatten() {
            self.unreachable.read(&sockets.socket);
        }
        self.unreachable.closed_ports()
    }

    /// Returns why the system refused to send the first of the datagrams that it refused. If it
    /// refused some of both families, this is the first of IPv4.
    pub(crate) fn first_error(&self) -> Option<String> {
        let mut families = self.families.iter().flatten();
        families.find_map(|sockets| sockets.queue.error().map(ToString::to_string))
    }

    /// Sends a report to all `clients`, to their report ports if there are any. `at` is a client,
    /// and the address to which its reports go instead. We ignore errors, because the next report
    /// replaces a lost one.
    pub(crate) fn report(
        &self,
        datagram: &[u8],
        clients: &Clients,
        rtcp: Rtcp,
        at: Option<(SocketAddr, SocketAddr)>,
    ) {
        for mut client in clients.list() {
            match at {
                Some((of, to)) if of == client => client = to,
                _ if rtcp == Rtcp::Own => client.set_port(client.port().saturating_add(1)),
                _ => {}
            }
            if let Some(sockets) = &self.families[family_index(client)] {
                let _ = sockets.rtcp.as_std().send_to(datagram, client);
            }
        }
    }

    /// Returns the delays for extended reports. See [`Reports::delays`].
    pub(crate) fn delays(&self, now: u64) -> Vec<Delay> {
        self.reports.delays(now)
    }

    /// Closes the outbox. Streams must not write any more, and the sending tasks end when the
    /// queues are empty.
    pub(crate) fn close(&self) {
        for sockets in self.families.iter().flatten() {
            sockets.queue.close();
        }
    }
}

/// Opens the socket that sends packets, and the one for reports: either the same socket, or one on
/// the next port.
fn open_sockets(
    options: &Options,
    is_ipv4: bool,
    own: bool,
) -> io::Result<(Arc<UdpSocket>, Arc<UdpSocket>)> {
    for _ in 0..PORT_PAIR_ATTEMPTS {
        let socket = options.sender(is_ipv4)?;
        if !own {
            let socket = Arc::new(UdpSocket::from_std(socket)?);
            return Ok((Arc::clone(&socket), socket));
        }
        let mut next = socket.local_addr()?;
        let Some(port) = next.port().checked_add(1) else {
            continue;
        };
        next.set_port(port);
        if let Ok(rtcp) = std::net::UdpSocket::bind(next) {
            let (socket, rtcp) = (UdpSocket::from_std(socket)?, UdpSocket::from_std(rtcp)?);
            return Ok((Arc::new(socket), Arc::new(rtcp)));
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}
