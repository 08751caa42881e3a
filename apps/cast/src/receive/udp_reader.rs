//! The task of one UDP socket. It passes datagrams to the demultiplexer and sends RTCP reports.

use super::counters::{Published, ReceiveCounters};
use super::demux::Demux;
use super::live::{Live, Publisher};
use super::rtp_source::Times;
use crate::net::arrival;
use crate::net::pcap::CaptureWriter;
use creel::net::{Received, UdpSocket};
use creel_media::control::{Flow, Work};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// The size of a receive buffer in bytes, which has room for any datagram. The buffers of a batch
/// do not begin at multiples of a power of two, because the cache has only a few lines for such
/// addresses.
const DATAGRAM_BYTES: usize = (1 << 16) + 192;
/// The number of datagrams per system call at a port that several streams share.
const BATCH: usize = 64;
/// The number of datagrams per system call at a port with one stream, if several arrived in its last
/// turn. Otherwise it receives one datagram per call, because a search for a second one costs more
/// than it saves.
const FEW: usize = 16;
/// The reader of a single stream checks the source address only once per this number of packets,
/// because a system call that returns the address takes longer. It also checks the address if a
/// packet does not follow the one before.
const ADDRESS_CHECK_PACKETS: u32 = 64;

thread_local! {
    /// The receive buffers, which all sockets of a context share.
    static MANY: RefCell<Received> = RefCell::new(Received::new(BATCH, DATAGRAM_BYTES));
    static SEVERAL: RefCell<Received> = RefCell::new(Received::new(FEW, DATAGRAM_BYTES));
    static ONE: RefCell<Received> = RefCell::new(Received::new(1, DATAGRAM_BYTES));
    static ONE_WITHOUT_ADDRESS: RefCell<Received> =
        RefCell::new(Received::new(1, DATAGRAM_BYTES).without_addresses());
}

/// A UDP port. The fields that every packet uses are contiguous with those of the demultiplexer.
#[derive(Debug)]
#[repr(C)]
pub(super) struct UdpReader {
    /// The socket from which reports leave, if it is not the socket that receives packets.
    rtcp_socket: Option<std::net::UdpSocket>,
    socket: UdpSocket,
    capture: Option<Box<(CaptureWriter, SocketAddr)>>,
    /// Publishes the figures for the live view, if there is one.
    publisher: Option<Box<Publisher>>,
    counters: ReceiveCounters,
    /// The counts of the demultiplexer that we have already added to `counters`.
    published: Published,
    /// The number of packets since the source address was last checked.
    since_address_check: u32,
    /// The number of packets in the current turn. A turn ends when no packet is left.
    in_turn: u32,
    /// The number of packets in the previous turn.
    in_last_turn: u32,
    /// Whether several streams share this port.
    shared: bool,
    demux: Demux,
}

impl UdpReader {
    pub(super) fn new(
        socket: UdpSocket,
        demux: Demux,
        shared: bool,
        counters: ReceiveCounters,
    ) -> Self {
        arrival::request(&socket);
        UdpReader {
            socket,
            demux,
            shared,
            counters,
            published: Published::default(),
            rtcp_socket: None,
            capture: None,
            publisher: None,
            since_address_check: 0,
            in_turn: 0,
            in_last_turn: 0,
        }
    }

    /// Writes everything that arrives to the capture as well.
    pub(super) fn capture_to(&mut self, capture: Option<&CaptureWriter>, address: SocketAddr) {
        self.capture = capture.map(|capture| Box::new((capture.clone(), address)));
    }

    /// Publishes the figures of this socket while it receives.
    pub(super) fn publish_to(&mut self, live: Option<&Live>, socket: usize) {
        self.publisher = live.map(|live| Box::new(Publisher::new(live, socket)));
    }

    /// Sends reports from this socket, which is the one that receives them.
    ///
    /// Source: RFC 4961 section 4.
    pub(super) fn send_reports_from(&mut self, socket: &UdpSocket) {
        self.rtcp_socket = socket.as_std().try_clone().ok();
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    pub(super) fn into_demux(self) -> Demux {
        self.demux
    }

    /// Processes the datagrams in the first `filled` slots. `expected` is the sender if their
    /// addresses were not queried.
    fn receive_batch(&mut self, received: &Received, filled: usize, expected: Option<SocketAddr>) {
        let now = arrival::now();
        self.demux.set_guessed(expected.is_some());
        // A slot has one datagram, because the kernel does not merge them here.
        for datagram in (0..filled).filter_map(|slot| received.get(slot, 0)) {
            let from = expected.unwrap_or(datagram.from);
            if let Some((capture, to)) = self.capture.as_deref() {
                let at = arrival::since_1970(datagram.arrived);
                capture.write(at, datagram.bytes, from, *to);
            }
            let arrived = arrival::arrival(&datagram, now);
            let times = Times { arrived, read: now };
            self.demux.receive(datagram.bytes, from, times);
            // The system reports both the time of arrival and the drops, or neither.
            let dropped = datagram.arrived.map(|_| datagram.dropped);
            self.demux.set_dropped(dropped);
            if datagram.truncated {
                self.demux.count_truncated();
            }
        }
        self.send_reports(now);
    }

    /// Sends the reports that are due, and publishes the counts of the demultiplexer.
    fn send_reports(&mut self, now: u64) {
        for (to, report) in self.demux.reports(now) {
            // We ignore errors, because the next report replaces a lost one.
            let socket = self.rtcp_socket.as_ref().unwrap_or(self.socket.as_std());
            let _ = socket.send_to(&report, to);
        }
        self.counters.add(&self.demux, &mut self.published);
    }
}

impl Work for UdpReader {
    #[inline]
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Flow>> {
        let received = self.poll_receive(cx);
        if let Some(publisher) = &mut self.publisher {
            publisher.poll(cx, &self.demux);
        }
        received
    }
}

impl UdpReader {
    #[inline]
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Flow>> {
        let is_due = self.since_address_check >= ADDRESS_CHECK_PACKETS;
        let several = self.in_last_turn > 1;
        let expected = self
            .demux
            .expected_from()
            .filter(|_| !self.shared && !several && !is_due);
        let memory = match (self.shared, several, expected) {
            (true, ..) => &MANY,
            (false, true, _) => &SEVERAL,
            (false, false, None) => &ONE,
            (false, false, Some(_)) => &ONE_WITHOUT_ADDRESS,
        };
        memory.with_borrow_mut(|received| {
            let filled = match self.socket.poll_recv_batch(cx, received) {
                Poll::Ready(Ok(filled)) => filled,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Flow::Failed)),
                Poll::Pending => {
                    self.in_last_turn = std::mem::take(&mut self.in_turn);
                    return Poll::Pending;
                }
            };
            self.in_turn += filled as u32;
            self.since_address_check = match expected {
                Some(_) => self.since_address_check + 1,
                None => 0,
            };
            self.receive_batch(received, filled, expected);
            Poll::Ready(Ok(()))
        })
    }
}
