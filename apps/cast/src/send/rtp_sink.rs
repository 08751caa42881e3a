//! A sink that sends the buffers of a stream as RTP packets, and RTCP sender reports about them.

use crate::media::codec::Encoder;
use crate::media::dtmf;
use crate::media::format::Format;
use crate::net::identity::Random;
use crate::net::rtcp::{self, SenderInfo};
use crate::net::rtp::{HEADER_BYTES, Header};
use crate::net::session::Rtcp;
use crate::net::udp::{Clients, Outbox};
use crate::net::xr;
use crate::stream::buffer::Buffer;
use crate::stream::sink::Sink;
use creel_media::control::Flow;
use creel_media::leaky::Sender;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

thread_local! {
    /// The buffer in which a datagram is built before it is copied to the outbox.
    static DATAGRAM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How long a key is held, and the pause after it, in milliseconds.
const KEY_MS: u64 = 100;
const PAUSE_MS: u64 = 60;
/// How many times we send the end of a key. Source: RFC 4733 section 2.5.1.4.
const ENDS: u64 = 3;

/// The SSRC of a stream, and the first sequence number and timestamp.
#[derive(Debug, Clone)]
pub(super) struct InitialNumbers {
    pub(super) ssrc: u32,
    pub(super) sequence: u16,
    pub(super) timestamp: u32,
}

/// The format of the packets.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) payload_type: u8,
    pub(super) format: Format,
    /// Whether to send bare samples, little-endian, instead of RTP.
    pub(super) raw: bool,
    pub(super) rtcp: Rtcp,
    /// The client that receives reports at another address than packets, and the address for
    /// reports.
    pub(super) rtcp_at: Option<(SocketAddr, SocketAddr)>,
    pub(super) cname: Arc<str>,
    /// The keys to press at the beginning, and their payload type.
    pub(super) keys: Option<(u8, Arc<str>)>,
}

/// The destination of the packets.
#[derive(Debug)]
pub(super) enum Transport {
    /// Packets go to clients over UDP.
    Udp(Arc<Outbox>, Clients),
    /// Packets go to one receiver over TCP, with the length in front of each packet. Source: RFC
    /// 4571 section 2.
    Tcp(Sender<Vec<u8>>),
}

/// Sends buffers as packets.
#[derive(Debug)]
pub(super) struct RtpSink {
    transport: Transport,
    layout: Layout,
    encoder: Encoder,
    initial: InitialNumbers,
    sent: Sent,
    /// The number of periods without a packet, because the program did not run in time.
    pub(super) skipped: u64,
    next_period: u64,
    next_report: u64,
}

/// Counts what a stream has sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl RtpSink {
    pub(super) fn new(
        transport: Transport,
        layout: Layout,
        encoder: Encoder,
        initial: InitialNumbers,
    ) -> Self {
        RtpSink {
            transport,
            layout,
            encoder,
            initial,
            sent: Sent::default(),
            skipped: 0,
            next_period: 0,
            next_report: 0,
        }
    }

    pub(super) fn ssrc(&self) -> u32 {
        self.initial.ssrc
    }

    pub(super) fn sent(&self) -> Sent {
        self.sent
    }

    fn header(&self, payload_type: u8, marker: bool, timestamp: u32) -> [u8; HEADER_BYTES] {
        let sequence = self.initial.sequence.wrapping_add(self.sent.packets as u16);
        let header = Header {
            payload_type,
            marker,
            sequence,
            timestamp,
            ssrc: self.initial.ssrc,
        };
        header.to_bytes()
    }

    /// Sends a datagram. Fails once the connection has ended.
    fn write(&mut self, datagram: &[u8], payload: usize) -> Result<(), Flow> {
        match &mut self.transport {
            Transport::Udp(outbox, clients) => outbox.write(datagram, clients),
            Transport::Tcp(queue) => {
                let mut framed = (datagram.len() as u16).to_be_bytes().to_vec();
                framed.extend_from_slice(datagram);
                queue.try_send(framed).map_err(|_| Flow::Failed)?;
            }
        }
        self.sent.packets += 1;
        self.sent.bytes += payload as u64;
        Ok(())
    }

    /// Returns the key event that is due in this period, if there is one. It replaces the audio
    /// packet.
    fn key(&self, period: u64, frames: usize) -> Option<([u8; 4], bool, u32)> {
        let (_, keys) = self.layout.keys.as_ref()?;
        let ms =
            |periods: u64| periods * frames as u64 * 1_000 / u64::from(self.layout.format.rate());
        let sent_periods = periods_in(KEY_MS, ms(1)) + ENDS - 1;
        let whole = sent_periods + periods_in(PAUSE_MS, ms(1));
        let key = keys.chars().nth((period / whole) as usize)?;
        let at = period % whole;
        if at >= sent_periods {
            return None;
        }
        let event = dtmf::event(key)?;
        let pressed = (at + 1).min(sent_periods + 1 - ENDS);
        let ticks = self
            .layout
            .format
            .ticks(frames)
            .saturating_mul(pressed as u32);
        let event_start = (period - at) as u32;
        let payload = dtmf::payload(event, ticks.min(0xffff) as u16, at + ENDS >= sent_periods);
        Some((payload, at == 0, event_start))
    }

    fn report(&mut self, now: u64, timestamp: u32, ends: bool) {
        let interval = rtcp::INTERVAL.as_nanos() as u64;
        let spread = Random::new(Some(now ^ u64::from(self.initial.ssrc))).next() % interval;
        self.next_report = now + interval / 2 + spread;
        let info = SenderInfo {
            ntp: rtcp::ntp_now(),
            timestamp,
            packets: self.sent.packets as u32,
            octets: self.sent.bytes as u32,
        };
        let ssrc = self.initial.ssrc;
        let mut report = rtcp::sender_report(ssrc, info, &[], &self.layout.cname, ends);
        if let Transport::Udp(outbox, clients) = &self.transport {
            // Receivers that send extended reports measure the round-trip time by our answer.
            let delays = outbox.delays(info.ntp);
            if !delays.is_empty() && !ends {
                report.extend(xr::of_sender(ssrc, &delays));
            }
            outbox.report(&report, clients, self.layout.rtcp, self.layout.rtcp_at);
        }
    }

    /// Sends an RTCP BYE if any packet was sent.
    pub(super) fn send_bye(&mut self) {
        if self.layout.rtcp != Rtcp::Off && self.sent.packets > 0 {
            self.report(0, self.initial.timestamp, true);
        }
    }
}

fn periods_in(ms: u64, period_ms: u64) -> u64 {
    ms.div_ceil(period_ms.max(1))
}

impl Sink for RtpSink {
    fn take(&mut self, buffer: &Buffer) -> Result<(), Flow> {
        let skipped = buffer.sequence - self.next_period;
        self.skipped += skipped;
        self.next_period = buffer.sequence + 1;
        DATAGRAM.with_borrow_mut(|datagram| {
            datagram.clear();
            if self.layout.raw {
                datagram.extend(
                    buffer
                        .samples
                        .iter()
                        .flat_map(|sample| sample.to_le_bytes()),
                );
                let len = datagram.len();
                return self.write(datagram, len);
            }
            let frames = buffer.samples.len() / usize::from(self.layout.format.channels);
            let ticks = self.layout.format.ticks(frames);
            let at = |period: u64| {
                self.initial
                    .timestamp
                    .wrapping_add((period as u32).wrapping_mul(ticks))
            };
            let timestamp = at(buffer.sequence);
            if let Some((payload, marker, event_start)) = self.key(buffer.sequence, frames) {
                let number = self.layout.keys.as_ref().map_or(0, |(number, _)| *number);
                datagram.extend(self.header(number, marker, at(event_start.into())));
                datagram.extend(payload);
            } else {
                let is_first = self.sent.packets == 0 || skipped > 0;
                datagram.extend(self.header(self.layout.payload_type, is_first, timestamp));
                self.encoder
                    .encode_wide(&buffer.samples, &buffer.low, datagram);
            }
            let payload = datagram.len() - HEADER_BYTES;
            self.write(datagram, payload)?;
            if self.layout.rtcp != Rtcp::Off && buffer.made >= self.next_report {
                self.report(buffer.made, timestamp, false);
            }
            Ok(())
        })
    }
}
