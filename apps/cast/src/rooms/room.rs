//! The task that mixes the conference of one room.

use super::leg::{Leg, Mix};
use super::plan::Plan;
use super::report::Shared;
use crate::lock::lock;
use crate::media::format::Formats;
use crate::net::arrival;
use crate::net::identity::{self, Random};
use crate::net::rtcp::{self, Item};
use crate::net::rtp::{self, Header};
use crate::net::session::Rtcp;
use creel::net::{Outgoing, Received, UdpSocket};
use creel::time::{Interval, interval};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

/// The number of datagrams that we receive at once, and the room for each.
const BATCH: usize = 64;
const DATAGRAM_BYTES: usize = 4_096 + 64;
/// The number of batches that we receive per tick. Further packets wait until the next tick.
const BATCHES_PER_TICK: usize = 4;

/// The maximum number of candidates per room. A candidate is a sender that is not a leg yet.
/// `EARLY_MAX` is the maximum number of packets that we hold for each of them.
const CANDIDATES_MAX: usize = 64;
const EARLY_MAX: usize = 4;
/// The maximum number of departed legs per room whose streams we can continue.
const DEPARTED_MAX: usize = 64;
/// Another stream from the address of a leg replaces the stream of the leg, once the latter has
/// been silent for this number of ticks.
const TAKE_OVER_TICKS: u32 = 3;

thread_local! {
    /// The receive buffers, which all rooms of a context share.
    static RECEIVED: RefCell<Received> = RefCell::new(Received::new(BATCH, DATAGRAM_BYTES));
}

/// A packet of a candidate, and the time of its arrival.
type EarlyPacket = (Header, Vec<u8>, u64);

/// A sender that is not a leg yet.
#[derive(Debug)]
struct Candidate {
    from: SocketAddr,
    ssrc: u32,
    early: Vec<EarlyPacket>,
}

fn mix(formats: &Formats, rate: u32, frame: usize) -> Mix<'_> {
    Mix {
        formats,
        rate,
        frame,
    }
}

/// A room and its legs.
#[derive(Debug)]
pub(super) struct Room {
    number: usize,
    socket: UdpSocket,
    formats: Formats,
    rate: u32,
    frame: usize,
    packet_time: Duration,
    legs_max: usize,
    /// The number of ticks without a packet after which a leg is removed.
    silence: u32,
    legs: Vec<Leg>,
    candidates: Vec<Candidate>,
    /// The addresses of legs that have left, and when and with which header the streams to them
    /// ended.
    departed: VecDeque<(SocketAddr, Header, Instant)>,
    rtcp: Rtcp,
    /// The socket for reports, if they have a port of their own.
    rtcp_socket: Option<UdpSocket>,
    cname: String,
    random: Random,
    sum: Vec<i32>,
    mix: Vec<i16>,
    datagram: Vec<u8>,
    packets: u64,
    refused: u64,
    totals: Shared,
}

impl Room {
    pub(super) fn new(number: usize, socket: UdpSocket, plan: &Plan, totals: Shared) -> Self {
        let frame = (plan.packet_time.as_secs_f64() * f64::from(plan.rate)).round() as usize;
        let frame = frame.max(1);
        arrival::request(&socket);
        Room {
            number,
            socket,
            formats: plan.formats.clone(),
            rate: plan.rate,
            frame,
            packet_time: plan.packet_time,
            legs_max: plan.legs,
            silence: (plan.silence.as_secs_f64() / plan.packet_time.as_secs_f64()) as u32,
            legs: Vec::new(),
            candidates: Vec::new(),
            departed: VecDeque::new(),
            rtcp: plan.rtcp,
            rtcp_socket: None,
            cname: identity::random().cname,
            random: Random::new(None),
            sum: vec![0; frame],
            mix: vec![0; frame],
            datagram: Vec::new(),
            packets: 0,
            refused: 0,
            totals,
        }
    }

    /// Exchanges reports on a port of their own.
    pub(super) fn set_rtcp_socket(&mut self, socket: UdpSocket) {
        self.rtcp_socket = Some(socket);
    }

    /// Mixes until the future is dropped.
    pub(super) async fn run(mut self) {
        let mut outgoing = Outgoing::new();
        while std::future::poll_fn(|cx| self.poll_receive(cx))
            .await
            .is_ok()
        {
            let mut ticks = self.ticks();
            let (begin, mut number) = (Instant::now(), 0);
            while !self.legs.is_empty() {
                ticks.tick().await;
                // In ticks that we missed, we sent nothing to the legs. Their timestamps must go on
                // all the same, because time has passed for them.
                let now = begin.elapsed().as_nanos() / self.packet_time.as_nanos().max(1);
                let missed = now.saturating_sub(number + 1) as usize;
                number = now.max(number + 1);
                if missed > 1 {
                    let frames = (missed - 1) * self.frame;
                    self.legs
                        .iter_mut()
                        .for_each(|leg| leg.advance_timestamp(frames));
                }
                self.receive_all();
                self.mix(&mut outgoing);
                self.send_reports();
                if !outgoing.is_empty() {
                    let sent = self.socket.send_batch(&mut outgoing).await;
                    lock(&self.totals).sent += sent.sent as u64;
                }
                self.remove_silent_legs();
            }
        }
    }

    /// Processes the packets that have arrived. We pass a waker that does nothing, because later
    /// packets wait for the next tick.
    fn receive_all(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..BATCHES_PER_TICK {
            if self.poll_receive(&mut cx).is_pending() {
                break;
            }
        }
        self.receive_reports(&mut cx);
    }

    /// Processes the reports that have arrived on their own port.
    fn receive_reports(&mut self, cx: &mut Context<'_>) {
        let Some(socket) = self.rtcp_socket.take() else {
            return;
        };
        RECEIVED.with_borrow_mut(|received| {
            if let Poll::Ready(Ok(_)) = socket.poll_recv_batch(cx, received) {
                for datagram in received.iter() {
                    self.receive_rtcp(datagram.bytes, datagram.from);
                }
            }
        });
        self.rtcp_socket = Some(socket);
    }

    /// Returns the ticks of this room. Rooms with different numbers have different phases, so that
    /// the rooms of a context do not all wake up at the same time.
    fn ticks(&self) -> Interval {
        let phase = self.packet_time.mul_f64((self.number % 16) as f64 / 16.0);
        interval(self.packet_time)
            .starting(Instant::now() + phase)
            .skip_missed()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        RECEIVED.with_borrow_mut(|received| {
            ready!(self.socket.poll_recv_batch(cx, received))?;
            let before = self.packets;
            let now = arrival::now();
            for datagram in received.iter() {
                let arrival = arrival::arrival(&datagram, now);
                self.receive(datagram.bytes, datagram.from, arrival);
            }
            lock(&self.totals).packets += self.packets - before;
            Poll::Ready(Ok(()))
        })
    }

    fn receive(&mut self, datagram: &[u8], from: SocketAddr, arrival: u64) {
        if rtp::is_rtcp(datagram) {
            return self.receive_rtcp(datagram, from);
        }
        let Ok((header, payload)) = rtp::parse(datagram) else {
            self.refused += 1;
            return;
        };
        self.packets += 1;
        let is_it = |leg: &Leg| leg.ssrc == header.ssrc && leg.from == from;
        let Some(index) = self.legs.iter().position(is_it) else {
            return self.receive_on_probation(header, payload, from, arrival);
        };
        let leg = &mut self.legs[index];
        let mix = mix(&self.formats, self.rate, self.frame);
        self.refused += u64::from(!leg.receive(header, payload, arrival, mix));
    }

    /// Processes a packet of no leg. Two packets in sequence make a leg, so that a single stray
    /// packet changes nothing. Source: RFC 3550 appendix A.1.
    #[cold]
    fn receive_on_probation(
        &mut self,
        header: Header,
        payload: &[u8],
        from: SocketAddr,
        arrival: u64,
    ) {
        let is_it = |it: &Candidate| it.from == from && it.ssrc == header.ssrc;
        let index = self.candidates.iter().position(is_it);
        let mut candidate = match index {
            Some(index) => self.candidates.swap_remove(index),
            None => Candidate {
                from,
                ssrc: header.ssrc,
                early: Vec::new(),
            },
        };
        let number = header.sequence;
        let follows =
            |(other, ..): &EarlyPacket| matches!(number.wrapping_sub(other.sequence), 1 | u16::MAX);
        let is_valid = candidate.early.iter().any(follows);
        if candidate.early.len() >= EARLY_MAX {
            candidate.early.remove(0);
            self.refused += 1;
        }
        candidate.early.push((header, payload.to_vec(), arrival));
        if is_valid && let Some(index) = self.admit(&candidate) {
            let mix = mix(&self.formats, self.rate, self.frame);
            for (header, payload, arrival) in candidate.early {
                let is_played = self.legs[index].receive(header, &payload, arrival, mix);
                self.refused += u64::from(!is_played);
            }
            return;
        }
        if self.candidates.len() >= CANDIDATES_MAX {
            self.refused += self.candidates.remove(0).early.len() as u64;
        }
        self.candidates.push(candidate);
    }

    /// Turns a candidate into a leg of the room, and returns the index of the leg. If the address
    /// of the candidate has a leg that has been silent, that leg continues with the new stream.
    /// Returns `None` if we cannot decode the stream, the room is full, or another stream of the
    /// same address is still arriving.
    fn admit(&mut self, candidate: &Candidate) -> Option<usize> {
        let mix = mix(&self.formats, self.rate, self.frame);
        // If we have no codec for one packet of the candidate, we may have one for the next packet.
        let mut headers = candidate.early.iter().map(|(header, ..)| *header);
        let of_address = self.legs.iter().position(|leg| leg.from == candidate.from);
        if let Some(index) = of_address {
            let leg = &mut self.legs[index];
            if leg.silent_ticks < TAKE_OVER_TICKS {
                return None;
            }
            leg.renew(headers.next()?, mix);
            return Some(index);
        }
        if self.legs.len() >= self.legs_max {
            return None;
        }
        let mut leg = headers.find_map(|header| Leg::new(candidate.from, header, mix))?;
        let is_it = |(from, ..): &(SocketAddr, Header, Instant)| *from == candidate.from;
        if let Some(index) = self.departed.iter().position(is_it)
            && let Some((_, last, at)) = self.departed.remove(index)
        {
            leg.continue_after(last, at.elapsed());
        }
        self.legs.push(leg);
        Some(self.legs.len() - 1)
    }

    /// Removes the leg that sends a BYE. Everyone can send such a packet. Therefore, it must have
    /// the SSRC of the leg. It must also come from the port of the leg, or from the next port,
    /// which is the leg's port for reports.
    fn receive_rtcp(&mut self, datagram: &[u8], from: SocketAddr) {
        let mut leaving = Vec::new();
        rtcp::read(datagram, |item| {
            if let Item::Bye(ssrc) = item {
                leaving.push(ssrc);
            }
        });
        let is_leaving = |leg: &Leg| {
            let port = leg.from.port();
            let is_its_port = from.port() == port || Some(from.port()) == port.checked_add(1);
            leaving.contains(&leg.ssrc) && from.ip() == leg.from.ip() && is_its_port
        };
        if let Some(index) = self.legs.iter().position(is_leaving) {
            self.remove_leg(index);
        }
    }

    fn remove_leg(&mut self, index: usize) {
        let mut leg = self.legs.swap_remove(index);
        self.send_report(&mut leg, true);
        self.departed
            .push_back((leg.from, leg.outgoing_header(), Instant::now()));
        if self.departed.len() > DEPARTED_MAX {
            self.departed.pop_front();
        }
        lock(&self.totals).legs.push(leg.report(self.number));
    }

    /// Sends a report to a leg, if reports are on. We ignore errors, because the next report
    /// replaces a lost one.
    fn send_report(&self, leg: &mut Leg, with_bye: bool) {
        let mut to = leg.from;
        let socket = match (self.rtcp, &self.rtcp_socket) {
            (Rtcp::Off, _) => return,
            (Rtcp::Own, Some(socket)) => {
                to.set_port(to.port().saturating_add(1));
                socket
            }
            _ => &self.socket,
        };
        let report = leg.rtcp(&self.cname, with_bye);
        let _ = socket.as_std().send_to(&report, to);
    }

    /// Sends the reports that are due.
    fn send_reports(&mut self) {
        if self.rtcp == Rtcp::Off {
            return;
        }
        let mut legs = std::mem::take(&mut self.legs);
        for leg in &mut legs {
            if leg.until_report > 0 {
                leg.until_report -= 1;
                continue;
            }
            // The intervals between reports are spread at random, as RFC 3550 section 6.3.1
            // requires.
            let ticks = rtcp::INTERVAL.as_secs_f64() / self.packet_time.as_secs_f64();
            let share = 0.5 + (self.random.next() >> 40) as f64 / (1_u64 << 24) as f64;
            leg.until_report = (ticks * share) as u32;
            self.send_report(leg, false);
        }
        self.legs = legs;
    }

    /// Sends each leg the sum of all legs without its own samples.
    fn mix(&mut self, outgoing: &mut Outgoing) {
        self.sum.fill(0);
        for leg in &mut self.legs {
            leg.play_frame();
            for (sum, &sample) in self.sum.iter_mut().zip(&leg.samples) {
                *sum += i32::from(sample);
            }
        }
        // A leg that is alone receives silence, because a telephone that receives nothing hangs up.
        for leg in &mut self.legs {
            for ((mix, &sum), &own) in self.mix.iter_mut().zip(&self.sum).zip(&leg.samples) {
                *mix = (sum - i32::from(own)).clamp(i16::MIN.into(), i16::MAX.into()) as i16;
            }
            leg.build_packet(&self.mix, &mut self.datagram);
            outgoing.push(&self.datagram, leg.from);
            leg.advance_timestamp(self.frame);
        }
    }

    /// Removes the legs that have not sent for too long.
    fn remove_silent_legs(&mut self) {
        while let Some(index) = self
            .legs
            .iter()
            .position(|leg| leg.silent_ticks > self.silence)
        {
            self.remove_leg(index);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut legs = std::mem::take(&mut self.legs);
        legs.iter_mut().for_each(|leg| self.send_report(leg, true));
        self.legs = legs;
        let mut totals = lock(&self.totals);
        totals.refused += self.refused;
        totals
            .legs
            .extend(self.legs.iter().map(|leg| leg.report(self.number)));
    }
}
