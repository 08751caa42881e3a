//! The task of one room.

use super::leg::Leg;
use super::plan::Plan;
use super::report::{Shared, lock};
use crate::media::format::Formats;
use crate::net::rtcp::{self, Item};
use crate::net::rtp;
use creel::net::{Outgoing, Received, UdpSocket};
use creel::time::{Interval, interval};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

/// The number of datagrams that we receive at once, and the room for each.
const BATCH: usize = 64;
const DATAGRAM_BYTES: usize = 4_096 + 64;
/// The number of batches that we receive per tick. Further packets wait until the next tick.
const BATCHES_PER_TICK: usize = 4;

thread_local! {
    /// The receive buffers, which all rooms of a context share.
    static RECEIVED: RefCell<Received> = RefCell::new(Received::new(BATCH, DATAGRAM_BYTES));
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
            sum: vec![0; frame],
            mix: vec![0; frame],
            datagram: Vec::new(),
            packets: 0,
            refused: 0,
            totals,
        }
    }

    /// Mixes until the future is dropped.
    pub(super) async fn run(mut self) {
        let mut outgoing = Outgoing::new();
        while std::future::poll_fn(|cx| self.poll_receive(cx))
            .await
            .is_ok()
        {
            let mut ticks = self.ticks();
            while !self.legs.is_empty() {
                ticks.tick().await;
                self.receive_all();
                self.mix(&mut outgoing);
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
            for datagram in received.iter() {
                self.receive(datagram.bytes, datagram.from);
            }
            lock(&self.totals).packets += self.packets - before;
            Poll::Ready(Ok(()))
        })
    }

    fn receive(&mut self, datagram: &[u8], from: SocketAddr) {
        if rtp::is_rtcp(datagram) {
            return self.receive_rtcp(datagram, from);
        }
        let Ok((header, payload)) = rtp::parse(datagram) else {
            self.refused += 1;
            return;
        };
        self.packets += 1;
        let index = self.legs.iter().position(|leg| leg.from == from);
        let leg = match index {
            Some(index) if self.legs[index].ssrc == header.ssrc => &mut self.legs[index],
            index => {
                // This is a new leg, or a leg that has restarted with another SSRC.
                let leg = match self.legs.len() < self.legs_max || index.is_some() {
                    true => Leg::new(from, header, &self.formats, self.rate, self.frame),
                    false => None,
                };
                let Some(leg) = leg else {
                    self.refused += 1;
                    return;
                };
                if let Some(index) = index {
                    self.remove_leg(index);
                }
                self.legs.push(leg);
                let last = self.legs.len() - 1;
                &mut self.legs[last]
            }
        };
        self.refused += u64::from(!leg.receive(header, payload, &self.formats));
    }

    fn receive_rtcp(&mut self, datagram: &[u8], from: SocketAddr) {
        let mut says_bye = false;
        rtcp::read(datagram, |item| says_bye |= matches!(item, Item::Bye(_)));
        let index = self.legs.iter().position(|leg| leg.from == from);
        if let Some(index) = index.filter(|_| says_bye) {
            self.remove_leg(index);
        }
    }

    fn remove_leg(&mut self, index: usize) {
        let leg = self.legs.swap_remove(index);
        lock(&self.totals).legs.push(leg.report(self.number));
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
        let alone = self.legs.len() < 2;
        for leg in &mut self.legs {
            if !alone {
                for ((mix, &sum), &own) in self.mix.iter_mut().zip(&self.sum).zip(&leg.samples) {
                    *mix = (sum - i32::from(own)).clamp(i16::MIN.into(), i16::MAX.into()) as i16;
                }
                leg.build_packet(&self.mix, &mut self.datagram);
                outgoing.push(&self.datagram, leg.from);
            }
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
        let mut totals = lock(&self.totals);
        totals.refused += self.refused;
        totals
            .legs
            .extend(self.legs.iter().map(|leg| leg.report(self.number)));
    }
}
