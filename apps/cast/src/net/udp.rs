//! UDP as a sink.
//!
//! The streams of a context send through one socket a family of addresses: a sink writes its
//! datagram into the context's *outbox*, a [`SendQueue`] a family, which sends what the streams of
//! this turn have written together.

use super::options::Options;
use super::rtcp::{self, Item, ReportBlock};
use super::session::Rtcp;
use creel::Pool;
use creel::net::{SendQueue, UdpSocket};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Datagrams that an outbox holds at most.
const OUTBOX_MAX: usize = 8_192;
/// Receivers of one stream whose reports are kept.
const REPORTERS_MAX: usize = 65_536;
/// How often a pair of ports in a row is looked for.
const PAIRS: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The receivers of a stream, by family; listed, added, removed and cleared while it runs. Clones
/// share the list.
#[derive(Debug, Clone, Default)]
pub struct Clients(Arc<Mutex<[Vec<SocketAddr>; 2]>>);

/// IPv4 first.
fn family(address: SocketAddr) -> usize {
    usize::from(address.is_ipv6())
}

impl Clients {
    /// All receivers, IPv4's first, in the order in which they were added.
    pub fn list(&self) -> Vec<SocketAddr> {
        lock(&self.0).concat()
    }

    /// Adds a receiver; false if it was there.
    pub fn add(&self, client: SocketAddr) -> bool {
        let mut clients = lock(&self.0);
        let clients = &mut clients[family(client)];
        let is_new = !clients.contains(&client);
        if is_new {
            clients.push(client);
        }
        is_new
    }

    /// Removes a receiver; false if it was not there.
    pub fn remove(&self, client: SocketAddr) -> bool {
        let mut clients = lock(&self.0);
        let clients = &mut clients[family(client)];
        let before = clients.len();
        clients.retain(|other| *other != client);
        clients.len() < before
    }

    /// Removes all receivers.
    pub fn clear(&self) {
        *lock(&self.0) = Default::default();
    }
}

/// What a receiver has reported of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    pub(crate) block: ReportBlock,
    pub(crate) reports: u64,
    pub(crate) round_trip: Option<Duration>,
}

/// What receivers have reported, by stream and receiver.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reports(Arc<Mutex<BTreeMap<(u32, SocketAddr), Reported>>>);

impl Reports {
    fn note(&self, datagram: &[u8], from: SocketAddr) {
        let now = rtcp::ntp_now();
        rtcp::read(datagram, |item| {
            let Item::Block(block) = item else { return };
            let mut all = lock(&self.0);
            let reports = all
                .get(&(block.ssrc, from))
                .map_or(0, |before| before.reports);
            if reports > 0 || all.len() < REPORTERS_MAX {
                let reported = Reported {
                    block,
                    reports: reports + 1,
                    round_trip: block.round_trip(now),
                };
                all.insert((block.ssrc, from), reported);
            }
        });
    }

    /// What has been reported of a stream.
    pub(crate) fn of(&self, ssrc: u32) -> Vec<(SocketAddr, Reported)> {
        let all = lock(&self.0);
        all.iter()
            .filter(|((of, _), _)| *of == ssrc)
            .map(|((_, from), reported)| (*from, *reported))
            .collect()
    }
}

/// The way to the clients of one family.
#[derive(Debug)]
struct Lane {
    queue: Arc<SendQueue>,
    /// Where reports leave from; the same socket, or one on the next port.
    rtcp: Arc<UdpSocket>,
}

/// What the streams of a context have to send.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// IPv4's and IPv6's; none where the system has no such sockets.
    lanes: [Option<Lane>; 2],
    /// Datagrams of a family that has none. A relaxed counter.
    astray: AtomicU64,
    reports: Reports,
    /// What the system has made of the buffers asked for.
    pub(crate) buffer: usize,
}

impl Outbox {
    /// Opens its sockets, which are asked to hold so many bytes.
    ///
    /// # Errors
    ///
    /// If there are none to be had for IPv4. Without IPv6, its datagrams are refused.
    pub(crate) fn open(
        options: &Options,
        rtcp: Rtcp,
        bytes: usize,
        reports: Reports,
    ) -> io::Result<Arc<Self>> {
        let lane = |is_ipv4: bool| -> io::Result<(Lane, usize)> {
            let (socket, rtcp) = sockets(options, is_ipv4, rtcp == Rtcp::Own)?;
            let got = socket.set_send_buffer(bytes)?;
            let queue = Arc::new(SendQueue::new(socket, OUTBOX_MAX));
            Ok((Lane { queue, rtcp }, got))
        };
        let (first, buffer) = lane(true)?;
        let second = lane(false).ok().map(|(lane, _)| lane);
        Ok(Arc::new(Outbox {
            lanes: [Some(first), second],
            astray: AtomicU64::new(0),
            reports,
            buffer,
        }))
    }

    /// Starts its tasks: those that send, and those that hear the clients' reports if any are asked
    /// for. They end when it is [closed](Self::close).
    pub(crate) fn start(self: &Arc<Self>, context: &Pool, hears: bool) {
        for lane in self.lanes.iter().flatten() {
            let queue = Arc::clone(&lane.queue);
            context.spawn(async move { queue.run().await }).detach();
            if hears {
                let (outbox, socket) = (Arc::downgrade(self), Arc::clone(&lane.rtcp));
                let hear = async move {
                    let mut bytes = [0; 2_048];
                    while let Ok((len, from)) = socket.recv_from(&mut bytes).await
                        && let Some(outbox) = outbox.upgrade()
                    {
                        outbox.reports.note(&bytes[..len], from);
                    }
                };
                // It ends with its context.
                context.spawn(hear).detach();
            }
        }
    }

    /// Writes a datagram for all `clients`.
    pub(crate) fn write(&self, datagram: &[u8], clients: &Clients) {
        let clients = lock(&clients.0);
        for (lane, clients) in self.lanes.iter().zip(clients.iter()) {
            if clients.is_empty() {
                continue;
            }
            match lane {
                Some(lane) => lane.queue.push(datagram, clients.iter().copied()),
                None => {
                    let count = clients.len() as u64;
                    self.astray.fetch_add(count, Ordering::Relaxed);
                }
            }
        }
    }

    /// Datagrams dropped because the outbox was full.
    pub(crate) fn dropped(&self) -> u64 {
        let lanes = self.lanes.iter().flatten();
        lanes.map(|lane| lane.queue.dropped()).sum()
    }

    /// Datagrams that the system refused.
    pub(crate) fn failed(&self) -> u64 {
        let lanes = self.lanes.iter().flatten();
        lanes.map(|lane| lane.queue.failed()).sum::<u64>() + self.astray.load(Ordering::Relaxed)
    }

    /// Why the first of them was.
    pub(crate) fn why(&self) -> Option<String> {
        let mut lanes = self.lanes.iter().flatten();
        lanes.find_map(|lane| lane.queue.error().map(ToString::to_string))
    }

    /// Sends a report to all `clients`, on their own ports for it if there are any. One that does
    /// not get through is made up for by the next one.
    pub(crate) fn report(&self, datagram: &[u8], clients: &Clients, rtcp: Rtcp) {
        for mut client in clients.list() {
            if rtcp == Rtcp::Own {
                client.set_port(client.port().saturating_add(1));
            }
            if let Some(lane) = &self.lanes[family(client)] {
                let _ = lane.rtcp.as_std().send_to(datagram, client);
            }
        }
    }

    /// No stream will write any more: its tasks end when all is sent.
    pub(crate) fn close(&self) {
        for lane in self.lanes.iter().flatten() {
            lane.queue.close();
        }
    }
}

/// A sending socket, and one for reports: the same, or one on the next port.
fn sockets(
    options: &Options,
    is_ipv4: bool,
    own: bool,
) -> io::Result<(Arc<UdpSocket>, Arc<UdpSocket>)> {
    for _ in 0..PAIRS {
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
