//! Extended reports (XR): the quality of a voice stream at its receiver, and the round-trip time
//! that a receiver measures.
//!
//! We send and read three blocks. The library `rtcp-types` reads the two for the round-trip time,
//! but does not know the VoIP metrics. All three are a few fields at fixed positions, so we encode
//! them ourselves.
//!
//! - *VoIP metrics*: losses, bursts, delays and the opinion scores of one stream.
//! - *Receiver reference time*: the time at which a receiver sent its report.
//! - *Delay since the last receiver report*: the answer of the sender. The receiver computes the
//!   round-trip time from it.
//!
//! Source: RFC 3611, sections 4.4, 4.5 and 4.7.

use super::rtcp::compact_ntp;
use std::time::Duration;

/// The RTCP packet type of an extended report.
const XR: u8 = 207;
// The types of the report's blocks.
const REFERENCE_TIME: u8 = 4;
const DELAYS: u8 = 5;
const VOIP_METRICS: u8 = 7;
/// The number of bytes of VoIP metrics without the head of the block.
const METRICS_BYTES: usize = 32;
/// The value of a score or of a level that is not known.
const UNKNOWN: u8 = 127;
/// The number of packets that must arrive in a row for a burst to end.
const GMIN: u8 = 16;
/// The maximum number of delays that we send in one report.
pub(crate) const DELAYS_MAX: usize = 31;

/// A block of an extended report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    /// The quality of a stream.
    Voip(VoipMetrics),
    /// The SSRC of a receiver and the time in NTP format at which it sent its report.
    ReferenceTime(u32, u64),
    /// The SSRC of a sender, and the delay that it states for one receiver.
    Delay(u32, Delay),
}

/// The time since the last report of a receiver arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delay {
    /// The SSRC of the receiver.
    pub(crate) receiver: u32,
    /// The middle 32 bits of the reference time in the last report of the receiver.
    pub(crate) last_report: u32,
    /// The time since the last report of the receiver arrived, in 65,536ths of a second.
    pub(crate) since: u32,
}

impl Delay {
    /// Returns the round-trip time if this delay arrived at `now` in NTP format. Returns `None` if
    /// the delay refers to no report, or if the clocks disagree.
    pub(crate) fn round_trip(&self, now: u64) -> Option<Duration> {
        let away = compact_ntp(now).wrapping_sub(self.last_report);
        let trip = away.wrapping_sub(self.since);
        let is_plausible = self.last_report != 0 && trip < 1 << 24;
        is_plausible.then(|| Duration::from_nanos((u64::from(trip) * 1_000_000_000) >> 16))
    }
}

/// The quality of a stream as its receiver reports it, in the units of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct VoipMetrics {
    /// The SSRC of the stream.
    pub(crate) ssrc: u32,
    /// The fraction of the packets that were lost, in 256ths. It does not include packets that
    /// arrived too late.
    pub(crate) lost: u8,
    /// The fraction of the packets that arrived too late, in 256ths.
    pub(crate) discarded: u8,
    /// The fraction of the packets in bursts that were lost or late, in 256ths. Our own reports
    /// only count lost packets here, because our bursts do not include late ones.
    pub(crate) burst_density: u8,
    /// The fraction of the packets outside of bursts that were lost or late, in 256ths.
    pub(crate) gap_density: u8,
    /// The mean duration of a burst in milliseconds.
    pub(crate) burst_ms: u16,
    /// The mean duration of a gap in milliseconds.
    pub(crate) gap_ms: u16,
    /// The round-trip time in milliseconds, or zero if it is unknown.
    pub(crate) round_trip_ms: u16,
    /// The delay of the receiver itself in milliseconds.
    pub(crate) end_system_ms: u16,
    /// The rating of the E-model, 0 to 100, or `None` if it is unknown.
    pub(crate) rating: Option<u8>,
    /// The opinion score of listening in tenths, 10 to 50, or `None` if it is unknown.
    pub(crate) listening: Option<u8>,
    /// The opinion score of a conversation, which includes the delay.
    pub(crate) conversation: Option<u8>,
    /// The delay of the jitter buffer in milliseconds.
    pub(crate) buffer_ms: u16,
}

impl VoipMetrics {
    /// Returns the opinion score of a conversation, or of listening if it is the only one.
    pub(crate) fn mos(&self) -> Option<f64> {
        let tenths = self.conversation.or(self.listening)?;
        Some(f64::from(tenths) / 10.0)
    }

    fn to_bytes(self) -> [u8; METRICS_BYTES] {
        let mut bytes = [0; METRICS_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&self.ssrc.to_be_bytes());
        put(&[
            self.lost,
            self.discarded,
            self.burst_density,
            self.gap_density,
        ]);
        for ms in [
            self.burst_ms,
            self.gap_ms,
            self.round_trip_ms,
            self.end_system_ms,
        ] {
            put(&ms.to_be_bytes());
        }
        // The levels of the signal, of the noise and of the echo are unknown.
        put(&[UNKNOWN, UNKNOWN, UNKNOWN, GMIN]);
        let score = |score: Option<u8>| score.unwrap_or(UNKNOWN);
        put(&[
            score(self.rating),
            UNKNOWN,
            score(self.listening),
            score(self.conversation),
        ]);
        // We state that an enhanced method conceals losses (binary 10), and that the jitter buffer
        // does not adapt.
        put(&[0b1010_0000, 0]);
        for ms in [self.buffer_ms, self.buffer_ms, self.buffer_ms] {
            put(&ms.to_be_bytes());
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; METRICS_BYTES] = bytes.first_chunk()?;
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let score = |at: usize, most: u8| Some(bytes[at]).filter(|&score| score <= most);
        Some(VoipMetrics {
            ssrc: u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            lost: bytes[4],
            discarded: bytes[5],
            burst_density: bytes[6],
            gap_density: bytes[7],
            burst_ms: half(8),
            gap_ms: half(10),
            round_trip_ms: half(12),
            end_system_ms: half(14),
            rating: score(20, 100),
            listening: score(22, 50),
            conversation: score(23, 50),
            buffer_ms: half(26),
        })
    }
}

/// Passes each block that we know of a compound packet to `each`. It ignores malformed packets.
pub(crate) fn read(datagram: &[u8], mut each: impl FnMut(Block)) {
    let mut rest = datagram;
    while let Some(head) = rest.first_chunk::<4>() {
        let words = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let Some((packet, after)) = rest.split_at_checked(4 + 4 * words) else {
            return;
        };
        rest = after;
        if head[1] == XR && packet.len() >= 8 {
            let sender = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
            read_blocks(sender, &packet[8..], &mut each);
        }
    }
}

fn read_blocks(sender: u32, mut rest: &[u8], each: &mut impl FnMut(Block)) {
    while let Some(&[kind, _, high, low]) = rest.first_chunk::<4>() {
        let bytes = 4 * usize::from(u16::from_be_bytes([high, low]));
        let Some((block, after)) = rest[4..].split_at_checked(bytes) else {
            return;
        };
        rest = after;
        match kind {
            REFERENCE_TIME => {
                if let Some(time) = block.first_chunk::<8>() {
                    each(Block::ReferenceTime(sender, u64::from_be_bytes(*time)));
                }
            }
            DELAYS => {
                let word = |at: usize, part: &[u8; 12]| {
                    u32::from_be_bytes([part[at], part[at + 1], part[at + 2], part[at + 3]])
                };
                for part in block.as_chunks::<12>().0 {
                    let delay = Delay {
                        receiver: word(0, part),
                        last_report: word(4, part),
                        since: word(8, part),
                    };
                    each(Block::Delay(sender, delay));
                }
            }
            VOIP_METRICS => {
                if let Some(metrics) = VoipMetrics::parse(block) {
                    each(Block::Voip(metrics));
                }
            }
            _ => {}
        }
    }
}

/// Returns an extended report with the time at which it is sent, in NTP format, and the quality of
/// some streams.
pub(crate) fn of_receiver(ssrc: u32, now: u64, streams: &[VoipMetrics]) -> Vec<u8> {
    let mut blocks = block(REFERENCE_TIME, &now.to_be_bytes());
    for stream in streams {
        blocks.extend(block(VOIP_METRICS, &stream.to_bytes()));
    }
    packet(ssrc, &blocks)
}

/// Returns an extended report with the delays since the last reports of some receivers.
pub(crate) fn of_sender(ssrc: u32, delays: &[Delay]) -> Vec<u8> {
    let parts = delays
        .iter()
        .take(DELAYS_MAX)
        .flat_map(|delay| [delay.receiver, delay.last_report, delay.since].map(u32::to_be_bytes));
    let parts: Vec<u8> = parts.flatten().collect();
    packet(ssrc, &block(DELAYS, &parts))
}

fn block(kind: u8, body: &[u8]) -> Vec<u8> {
    let words = (body.len() / 4) as u16;
    let mut bytes = vec![kind, 0];
    bytes.extend(words.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn packet(ssrc: u32, blocks: &[u8]) -> Vec<u8> {
    let words = (1 + blocks.len() / 4) as u16;
    let mut bytes = vec![0x80, XR];
    bytes.extend(words.to_be_bytes());
    bytes.extend(ssrc.to_be_bytes());
    bytes.extend_from_slice(blocks);
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::rtcp::ntp;
    use super::*;

    fn blocks(bytes: &[u8]) -> Vec<Block> {
        let mut all = Vec::new();
        read(bytes, |block| all.push(block));
        all
    }

    const METRICS: VoipMetrics = VoipMetrics {
        ssrc: 7,
        lost: 3,
        discarded: 2,
        burst_density: 128,
        gap_density: 1,
        burst_ms: 300,
        gap_ms: 9_000,
        round_trip_ms: 40,
        end_system_ms: 30,
        rating: Some(91),
        listening: Some(44),
        conversation: None,
        buffer_ms: 20,
    };

    #[test]
    fn the_blocks_of_a_receiver_and_of_a_sender_round_trip() {
        let now = ntp(Duration::from_secs(100));
        let bytes = of_receiver(9, now, &[METRICS]);
        // The length of VoIP metrics is 8 words. Source: RFC 3611 section 4.7.
        assert_eq!(bytes[..4], [0x80, 207, 0, 13]);
        assert_eq!(bytes[20..24], [7, 0, 0, 8]);
        assert_eq!(
            blocks(&bytes),
            [Block::ReferenceTime(9, now), Block::Voip(METRICS)]
        );
        let delay = Delay {
            receiver: 9,
            last_report: compact_ntp(now),
            since: 65_536,
        };
        let bytes = of_sender(1, &[delay, delay]);
        assert_eq!(blocks(&bytes), [Block::Delay(1, delay); 2]);
        let trip = delay.round_trip(ntp(Duration::from_millis(101_250)));
        assert_eq!(trip, Some(Duration::from_millis(250)));
        assert_eq!(delay.round_trip(ntp(Duration::from_secs(90))), None);
    }

    #[test]
    fn the_library_rtcp_types_parses_our_extended_reports() {
        use rtcp_types::{Compound, Packet};
        let bytes = of_receiver(9, 1, &[METRICS]);
        let mut packets = Compound::parse(&bytes).unwrap();
        assert!(matches!(packets.next(), Some(Ok(Packet::Xr(_)))));
    }

    #[test]
    fn malformed_extended_reports_are_ignored() {
        let whole = of_receiver(9, 1, &[METRICS, METRICS]);
        for len in 0..whole.len() {
            blocks(&whole[..len]);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut broken = whole.clone();
                broken[at] = value;
                blocks(&broken);
            }
        }
        assert_eq!(blocks(b"no report"), []);
    }
}
