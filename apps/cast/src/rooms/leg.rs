//! A leg of a room, which is one participant of a conference that sends and receives.

use super::report::LegReport;
use crate::measure::reception::{SequenceTracker, SequenceUpdate};
use crate::measure::spacing::Spacing;
use crate::media::codec::{Decoder, Encoder};
use crate::media::dtmf;
use crate::media::format::{Encoding, Format, Formats};
use crate::media::playout::Playout;
use crate::media::redundancy;
use crate::net::identity::Random;
use crate::net::rtcp::{self, LossInterval, ReportBlock, SenderInfo};
use crate::net::rtp::{HEADER_BYTES, Header};
use std::net::SocketAddr;
use std::time::Duration;

/// The maximum number of decoders that a leg keeps, one per payload type.
const DECODERS_MAX: usize = 4;

/// The part of a room that its legs need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mix<'a> {
    pub(super) formats: &'a Formats,
    pub(super) rate: u32,
    /// The number of samples per packet.
    pub(super) frame: usize,
}

impl Mix<'_> {
    /// Returns the format of a payload type, if the room can mix it.
    fn voice(&self, payload_type: u8) -> Option<Format> {
        let format = self.formats.of(payload_type)?;
        let suits = format.rate() == self.rate && format.channels == 1;
        (suits && Decoder::new(format).is_ok()).then_some(format)
    }

    /// Returns the payload type and the format in which we send to a leg that has sent no voice
    /// yet, but for example a telephone key.
    fn default_voice(&self) -> Option<(u8, Format)> {
        let named = self.formats.named().iter().map(|&(number, _)| number);
        let mut numbers = named.chain([0, 9, 11]);
        numbers.find_map(|number| Some((number, self.voice(number)?)))
    }
}

/// The state of a leg.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) from: SocketAddr,
    pub(super) ssrc: u32,
    /// The format of the newest voice packet of the leg, or the default of the room before the
    /// first voice packet. We send to the leg in this format.
    format: Format,
    decoders: Vec<(u8, Decoder)>,
    encoder: Encoder,
    playout: Playout,
    keys: dtmf::DtmfReceiver,
    sequence: SequenceTracker,
    spacing: Spacing,
    loss_interval: LossInterval,
    /// The amplitude of the comfort noise that we play while the leg is silent, or zero.
    noise: i16,
    random: Random,
    /// The header of the packets that we send to the leg.
    outgoing_header: Header,
    packets: u64,
    sent: u64,
    sent_bytes: u64,
    played: u64,
    /// The number of ticks since the last packet of the leg. A tick lasts as long as a packet.
    pub(super) silent_ticks: u32,
    /// The number of ticks until we send a report to the leg.
    pub(super) until_report: u32,
    /// The samples that the leg contributes to the sum in the current tick.
    pub(super) samples: Vec<i16>,
}

impl Leg {
    /// Creates a leg from its first packet. Returns `None` if the room has no codec for it.
    pub(super) fn new(from: SocketAddr, header: Header, mix: Mix<'_>) -> Option<Self> {
        let of_packet = mix.formats.of(header.payload_type)?;
        let (payload_type, format) = match of_packet.encoding {
            // A telephone may press a key or be silent before it sends its first voice.
            Encoding::Event | Encoding::ComfortNoise | Encoding::Redundant => {
                mix.default_voice()?
            }
            _ => (header.payload_type, mix.voice(header.payload_type)?),
        };
        let mut random = Random::new(None);
        let outgoing_header = Header {
            payload_type,
            marker: true,
            sequence: random.next() as u16,
            timestamp: random.next() as u32,
            ssrc: random.next() as u32,
        };
        Some(Leg {
            from,
            ssrc: header.ssrc,
            format,
            decoders: vec![(payload_type, Decoder::new(format).ok()?)],
            encoder: Encoder::new(format).ok()?,
            playout: Playout::new(mix.rate, mix.frame),
            keys: dtmf::DtmfReceiver::default(),
            sequence: SequenceTracker::new(header.sequence.wrapping_sub(1)),
            spacing: Spacing::default(),
            loss_interval: LossInterval::default(),
            noise: 0,
            random,
            outgoing_header,
            packets: 0,
            sent: 0,
            sent_bytes: 0,
            played: 0,
            silent_ticks: 0,
            until_report: 0,
            samples: vec![0; mix.frame],
        })
    }

    /// Makes this the leg of another SSRC at the same address, because the telephone began a new
    /// stream. The stream that it receives goes on.
    pub(super) fn renew(&mut self, header: Header, mix: Mix<'_>) {
        self.ssrc = header.ssrc;
        self.sequence = SequenceTracker::new(header.sequence.wrapping_sub(1));
        self.spacing = Spacing::default();
        self.loss_interval = LossInterval::default();
        self.playout = Playout::new(mix.rate, mix.frame);
        self.keys.restart();
    }

    /// Processes a packet. The codec is that of the packet, because a telephone may change it at
    /// any time. Returns false if we cannot decode it.
    pub(super) fn receive(
        &mut self,
        header: Header,
        payload: &[u8],
        arrival: u64,
        mix: Mix<'_>,
    ) -> bool {
        self.silent_ticks = 0;
        let Some(format) = mix.formats.of(header.payload_type) else {
            return false;
        };
        let update = self.sequence.update(header.sequence);
        match update {
            SequenceUpdate::Stray => return true,
            SequenceUpdate::Restart => {
                self.spacing.restart();
                self.keys.restart();
            }
            _ => {}
        }
        self.spacing.arrived(arrival, header.marker);
        let (mut header, mut payload, mut format) = (header, payload, format);
        if format.encoding == Encoding::Redundant {
            let Some(newest) = self.read_redundant(header, payload, mix) else {
                return false;
            };
            (header.payload_type, payload) = (newest.payload_type, newest.payload);
            match mix.formats.of(header.payload_type) {
                Some(of_block) => format = of_block,
                None => return false,
            }
        }
        match format.encoding {
            Encoding::Event => {
                self.keys.record(header.timestamp, header.marker, payload);
                return true;
            }
            Encoding::ComfortNoise => {
                self.noise = noise_amplitude(payload);
                self.playout.set_silent();
                return true;
            }
            _ => {}
        }
        let Some(format) = mix.voice(header.payload_type) else {
            return false;
        };
        self.spacing
            .sound(header.timestamp, arrival, format.clock, header.marker);
        self.packets += 1;
        if payload.is_empty() || update == SequenceUpdate::Duplicate {
            // A packet that has only padding is not a sound, and the sound of a duplicate is here
            // already. Neither of them may displace another sound.
            return true;
        }
        if header.payload_type != self.outgoing_header.payload_type
            && update != SequenceUpdate::Reordered
        {
            self.send_as(header.payload_type, format);
        }
        let Some(decoder) = self.decoder(header.payload_type, format) else {
            return false;
        };
        let mut samples = self.playout.spare_buffer();
        self.decoders[decoder].1.decode(payload, &mut samples);
        let timestamp = format.frames(i64::from(header.timestamp)) as u32;
        self.noise = 0;
        self.playout.insert(timestamp, samples);
        true
    }

    /// Records the keys in the older blocks of a redundant packet, and returns its newest block.
    #[cold]
    fn read_redundant<'a>(
        &mut self,
        header: Header,
        payload: &'a [u8],
        mix: Mix<'_>,
    ) -> Option<redundancy::Block<'a>> {
        redundancy::split(payload, |block| {
            let of_block = mix.formats.of(block.payload_type);
            if of_block.is_some_and(|it| it.encoding == Encoding::Event) {
                let at = header.timestamp.wrapping_sub(block.age);
                self.keys.record(at, false, block.payload);
            }
        })
    }

    /// Sends in another format from now on.
    #[cold]
    fn send_as(&mut self, payload_type: u8, format: Format) {
        if let Ok(encoder) = Encoder::new(format) {
            self.encoder = encoder;
            self.format = format;
            self.outgoing_header.payload_type = payload_type;
            self.outgoing_header.marker = true;
        }
    }

    /// Returns the index of the decoder of a payload type, and creates it if necessary.
    fn decoder(&mut self, payload_type: u8, format: Format) -> Option<usize> {
        let known = self.decoders.iter().position(|(of, _)| *of == payload_type);
        if known.is_some() {
            return known;
        }
        let decoder = Decoder::new(format).ok()?;
        if self.decoders.len() >= DECODERS_MAX {
            self.decoders.remove(0);
        }
        self.decoders.push((payload_type, decoder));
        Some(self.decoders.len() - 1)
    }

    /// Plays the next frame of the leg into `samples`.
    pub(super) fn play_frame(&mut self) {
        self.silent_ticks += 1;
        self.played += self.samples.len() as u64;
        let is_voice = self.playout.play(&mut self.samples);
        if !is_voice && self.noise > 0 {
            let (random, span) = (&mut self.random, i64::from(self.noise) * 2 + 1);
            for sample in &mut self.samples {
                *sample = ((random.next() >> 33) as i64 % span - span / 2) as i16;
            }
        }
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
        self.sent_bytes += (datagram.len() - HEADER_BYTES) as u64;
    }

    /// Returns the header of the next packet to the leg.
    pub(super) fn outgoing_header(&self) -> Header {
        self.outgoing_header
    }

    /// Continues the numbers of an earlier stream to the same address, whose next header would have
    /// been `last` and which ended some time ago. Some telephones discard packets whose timestamp is
    /// older than the last one that they have received, although the SSRC is another one.
    pub(super) fn continue_after(&mut self, last: Header, ended: Duration) {
        self.outgoing_header.sequence = last.sequence;
        self.outgoing_header.timestamp = last.timestamp;
        let frames = ended.as_secs_f64() * f64::from(self.format.rate());
        self.advance_timestamp(frames as usize);
    }

    /// Advances the timestamp by some frames, whether or not packets are sent.
    pub(super) fn advance_timestamp(&mut self, frames: usize) {
        self.outgoing_header.timestamp = self
            .outgoing_header
            .timestamp
            .wrapping_add(self.format.ticks(frames));
    }

    /// Returns a sender report about the packets that we send to the leg. It has a block about the
    /// packets that the leg sends, and a BYE if `with_bye` is set.
    pub(super) fn rtcp(&mut self, cname: &str, with_bye: bool) -> Vec<u8> {
        let info = SenderInfo {
            ntp: rtcp::ntp_now(),
            timestamp: self.outgoing_header.timestamp,
            packets: self.sent as u32,
            octets: self.sent_bytes as u32,
        };
        let received = self.sequence.counts().received;
        let block = ReportBlock {
            ssrc: self.ssrc,
            fraction_lost: self
                .loss_interval
                .fraction_lost(self.sequence.expected(), received),
            lost: self.sequence.reported_lost().max(0) as u32,
            highest_sequence: self.sequence.extended(),
            jitter: self.spacing.ticks(self.format.clock),
            ..ReportBlock::default()
        };
        rtcp::sender_report(self.outgoing_header.ssrc, info, &[block], cname, with_bye)
    }

    pub(super) fn report(&self, room: usize) -> LegReport {
        let stats = self.playout.stats();
        LegReport {
            room,
            from: self.from,
            format: self.format,
            packets: self.packets,
            lost: self.sequence.lost(),
            jitter_ms: self.spacing.jitter_ms(),
            sent: self.sent,
            late: stats.late,
            concealed: stats.concealed as f64 / self.played.max(1) as f64,
            keys: self.keys.keys(),
        }
    }
}

/// Returns the amplitude of white noise with the level of a comfort noise payload. The level is in
/// dB below the loudest sample. Source: RFC 3389 section 3.1.
fn noise_amplitude(payload: &[u8]) -> i16 {
    let level = payload.first().map_or(127, |level| level & 0x7f);
    let loudest = f64::from(i16::MAX) * 10_f64.powf(-f64::from(level) / 20.0);
    // The effective value of uniform noise is its amplitude divided by the root of three.
    (loudest * 3_f64.sqrt()).min(f64::from(i16::MAX)) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comfort_noise_has_the_stated_level() {
        assert_eq!(noise_amplitude(&[127]), 0);
        assert_eq!(noise_amplitude(&[]), 0);
        let effective = f64::from(noise_amplitude(&[40, 1, 2])) / 3_f64.sqrt();
        assert!((effective - 327.67).abs() < 1.0, "{effective}");
        assert_eq!(noise_amplitude(&[0]), i16::MAX);
    }
}
