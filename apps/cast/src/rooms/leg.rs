//! A leg of a room: one participant that sends and receives.

use super::report::LegReport;
use crate::media::codec::{Decoder, Encoder};
use crate::media::dtmf;
use crate::media::format::{Encoding, Format, Formats};
use crate::media::playout::Playout;
use crate::net::identity::Random;
use crate::net::rtp::{HEADER_BYTES, Header};
use std::net::SocketAddr;

/// The state of a leg.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) from: SocketAddr,
    pub(super) ssrc: u32,
    payload_type: u8,
    format: Format,
    decoder: Decoder,
    encoder: Encoder,
    playout: Playout,
    keys: dtmf::DtmfReceiver,
    /// The header of the packets that we send to it.
    outgoing_header: Header,
    packets: u64,
    sent: u64,
    played: u64,
    /// The number of ticks since its last packet.
    pub(super) silent_ticks: u32,
    /// The samples that it contributes to the current tick.
    pub(super) samples: Vec<i16>,
}

impl Leg {
    /// Creates a leg from its first packet. Returns `None` if its format does not suit a room of
    /// this rate, or has no codec.
    pub(super) fn new(
        from: SocketAddr,
        header: Header,
        formats: &Formats,
        rate: u32,
        frame: usize,
    ) -> Option<Self> {
        let format = formats.of(header.payload_type)?;
        if format.rate() != rate || format.channels != 1 {
            return None;
        }
        let mut random = Random::new(None);
        let outgoing_header = Header {
            payload_type: header.payload_type,
            marker: true,
            sequence: random.next() as u16,
            timestamp: random.next() as u32,
            ssrc: random.next() as u32,
        };
        Some(Leg {
            from,
            ssrc: header.ssrc,
            payload_type: header.payload_type,
            format,
            decoder: Decoder::new(format).ok()?,
            encoder: Encoder::new(format).ok()?,
            playout: Playout::new(rate, frame),
            keys: dtmf::DtmfReceiver::default(),
            outgoing_header,
            packets: 0,
            sent: 0,
            played: 0,
            silent_ticks: 0,
            samples: vec![0; frame],
        })
    }

    /// Processes a packet. Returns false if its format differs from that of the first packet.
    pub(super) fn receive(&mut self, header: Header, payload: &[u8], formats: &Formats) -> bool {
        self.silent_ticks = 0;
        if header.payload_type != self.payload_type {
            let is_event = formats
                .of(header.payload_type)
                .is_some_and(|format| format.encoding == Encoding::Event);
            if is_event {
                self.keys.record(header.timestamp, payload);
            }
            return is_event;
        }
        self.packets += 1;
        let mut samples = self.playout.spare_buffer();
        self.decoder.decode(payload, &mut samples);
        let timestamp = self.format.frames(i64::from(header.timestamp)) as u32;
        self.playout.insert(timestamp, samples);
        true
    }

    /// Plays the next frame of the leg into `samples`.
    pub(super) fn play_frame(&mut self) {
        self.silent_ticks += 1;
        self.played += self.samples.len() as u64;
        self.playout.play(&mut self.samples);
    }

    /// Builds the packet that the leg receives.
    pub(super) fn build_packet(&mut self, mix: &[i16], datagram: &mut Vec<u8>) {
        datagram.clear();
        datagram.extend(self.outgoing_header.to_bytes());
        self.encoder.encode(mix, datagram);
        debug_assert!(datagram.len() > HEADER_BYTES);
        self.outgoing_header.marker = false;
        self.outgoing_header.sequence = self.outgoing_header.sequence.wrapping_add(1);
        self.sent += 1;
    }

    /// Advances the timestamp by one frame, whether or not a packet is sent.
    pub(super) fn advance_timestamp(&mut self, frames: usize) {
        self.outgoing_header.timestamp = self
            .outgoing_header
            .timestamp
            .wrapping_add(self.format.ticks(frames));
    }

    pub(super) fn report(&self, room: usize) -> LegReport {
        let stats = self.playout.stats();
        LegReport {
            room,
            from: self.from,
            format: self.format,
            packets: self.packets,
            sent: self.sent,
            late: stats.late,
            concealed: stats.concealed as f64 / self.played.max(1) as f64,
            keys: self.keys.keys().to_owned(),
        }
    }
}
