//! RTP's fixed header around a buffer, so that ordinary players take a stream.
//!
//! The payload is L16: signed 16-bit samples, big-endian. The static payload types 10 (stereo)
//! and 11 (mono) stand for 44,100 samples a second; others are dynamic (96 to 127) and need a
//! session description, which [`sdp`] writes.
//!
//! Source: RFC 3550 section 5.1 (header), RFC 3551 sections 4.5.11 and 6 (L16), RFC 8866 (SDP).
//!
//! Left out: RTCP, and sending CSRC lists, extensions or padding; all three are understood when
//! they come.

use std::fmt;
use std::net::SocketAddr;

/// Bytes of the header that is sent.
pub const HEADER_BYTES: usize = 12;
/// The payload type of mono L16 at 44,100 Hz.
pub const L16_MONO: u8 = 11;
/// The payload type of stereo L16 at 44,100 Hz.
pub const L16_STEREO: u8 = 10;

const VERSION: u8 = 2;

/// A packet's header, without what this module leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the payload is, 0 to 127.
    pub payload_type: u8,
    /// The first packet after a silence.
    pub marker: bool,
    /// One more with each packet, modulo 2¹⁶.
    pub sequence: u16,
    /// The first sample's number, modulo 2³².
    pub timestamp: u32,
    /// Names the stream.
    pub ssrc: u32,
}

impl Header {
    /// The header as it is sent.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = VERSION << 6;
        bytes[1] = u8::from(self.marker) << 7 | (self.payload_type & 0x7f);
        bytes[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes
    }
}

/// Why a packet is not RTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its header says.
    Short {
        /// The packet's length in bytes.
        bytes: usize,
        /// What the header needs at least.
        needed: usize,
    },
    /// Another version of the protocol, or another protocol.
    Version(u8),
    /// More padding than payload.
    Padding(u8),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Short { bytes, needed } => {
                write!(f, "{bytes} bytes where an RTP packet needs {needed}")
            }
            Malformed::Version(version) => write!(f, "RTP version {version}, not 2"),
            Malformed::Padding(padding) => write!(f, "{padding} bytes of padding, not in there"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Takes a packet apart: header and payload.
///
/// # Errors
///
/// If it is not RTP version 2, or shorter than its own fields say.
pub fn parse(packet: &[u8]) -> Result<(Header, &[u8]), Malformed> {
    let short = |needed| Malformed::Short {
        bytes: packet.len(),
        needed,
    };
    let fixed: &[u8; HEADER_BYTES] = packet.first_chunk().ok_or(short(HEADER_BYTES))?;
    let version = fixed[0] >> 6;
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    let mut begin = HEADER_BYTES + 4 * usize::from(fixed[0] & 0x0f);
    if fixed[0] & 0x10 != 0 {
        let words = packet.get(begin + 2..begin + 4).ok_or(short(begin + 4))?;
        begin += 4 + 4 * usize::from(u16::from_be_bytes([words[0], words[1]]));
    }
    let mut payload = packet.get(begin..).ok_or(short(begin))?;
    if fixed[0] & 0x20 != 0 {
        let padding = payload.last().copied().unwrap_or(0);
        let kept = payload.len().checked_sub(usize::from(padding));
        let kept = kept.filter(|_| padding > 0);
        payload = &payload[..kept.ok_or(Malformed::Padding(padding))?];
    }
    let header = Header {
        payload_type: fixed[1] & 0x7f,
        marker: fixed[1] & 0x80 != 0,
        sequence: u16::from_be_bytes([fixed[2], fixed[3]]),
        timestamp: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
        ssrc: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
    };
    Ok((header, payload))
}

/// Writes samples in the network's byte order; `bytes` holds two for each.
///
/// # Panics
///
/// If the lengths do not match.
pub fn pack(samples: &[i16], bytes: &mut [u8]) {
    assert_eq!(bytes.len(), samples.len() * 2, "two bytes a sample");
    for (pair, sample) in bytes.chunks_exact_mut(2).zip(samples) {
        pair.copy_from_slice(&sample.to_be_bytes());
    }
}

/// Reads samples in the network's byte order; an odd last byte is left out.
pub fn unpack(bytes: &[u8]) -> impl ExactSizeIterator<Item = i16> + '_ {
    let (pairs, _odd) = bytes.as_chunks::<2>();
    pairs.iter().map(|&pair| i16::from_be_bytes(pair))
}

/// A session description with which a player receives mono L16 of `rate` samples a second at
/// `to`.
pub fn sdp(to: SocketAddr, payload_type: u8, rate: u32) -> String {
    let family = if to.is_ipv4() { "IP4" } else { "IP6" };
    let (ip, port) = (to.ip(), to.port());
    format!(
        "v=0\r\no=- 0 0 IN {family} {ip}\r\ns=creel-cast\r\nc=IN {family} {ip}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP {payload_type}\r\na=rtpmap:{payload_type} L16/{rate}/1\r\n"
    )
}

/// What a receiver makes of a stream's sequence numbers.
///
/// A number ahead of the expected one means that those between are missing; each that comes
/// after all is taken off again and counted as reordered. One further back than
/// [`Sequence::WINDOW`], or a leap forward that far, counts as a new start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sequence {
    next: Option<u16>,
    /// Which of the last 64 numbers before `next` have come.
    seen: u64,
    /// Packets that came in all.
    pub received: u64,
    /// Packets that have not come.
    pub lost: u64,
    /// Packets that came after a later one.
    pub reordered: u64,
    /// Packets that came twice.
    pub duplicates: u64,
}

impl Sequence {
    /// How far back a late packet is recognised.
    pub const WINDOW: u16 = 64;
    /// A leap further than this is another stream's begin, not a loss.
    const LEAP: u16 = 0x4000;

    /// Notes a packet; true if it is the newest so far.
    pub fn note(&mut self, sequence: u16) -> bool {
        self.received += 1;
        let Some(next) = self.next else {
            self.begin(sequence);
            return true;
        };
        let ahead = sequence.wrapping_sub(next);
        let behind = next.wrapping_sub(sequence);
        if ahead < Self::LEAP {
            self.lost += u64::from(ahead);
            self.seen = self.seen.checked_shl(u32::from(ahead) + 1).unwrap_or(0) | 1;
            self.next = Some(sequence.wrapping_add(1));
            true
        } else if behind <= Self::WINDOW {
            self.note_late(1 << (behind - 1));
            false
        } else {
            self.begin(sequence);
            true
        }
    }

    fn begin(&mut self, sequence: u16) {
        self.next = Some(sequence.wrapping_add(1));
        // What came before the begin is not waited for.
        self.seen = u64::MAX;
    }

    fn note_late(&mut self, bit: u64) {
        if self.seen & bit != 0 {
            self.duplicates += 1;
        } else {
            self.seen |= bit;
            self.lost -= 1;
            self.reordered += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        payload_type: L16_MONO,
        marker: true,
        sequence: 0xfffe,
        timestamp: 0x1234_5678,
        ssrc: 0xdead_beef,
    };

    #[test]
    fn a_header_has_the_bytes_of_the_rfc() {
        let bytes = [
            0x80, 0x8b, 0xff, 0xfe, 0x12, 0x34, 0x56, 0x78, 0xde, 0xad, 0xbe, 0xef,
        ];
        assert_eq!(HEADER.to_bytes(), bytes);
        assert_eq!(parse(&bytes), Ok((HEADER, &[][..])));
    }

    #[test]
    fn lists_extensions_and_padding_are_passed_over() {
        let mut packet = HEADER.to_bytes().to_vec();
        packet[0] |= 0x20 | 0x10 | 2;
        packet.extend([0; 8]); // two CSRCs
        packet.extend([0xab, 0xcd, 0, 1, 9, 9, 9, 9]); // an extension of one word
        packet.extend([1, 2, 3, 4, 0, 0, 3]); // payload and three bytes of padding
        assert_eq!(parse(&packet), Ok((HEADER, &[1, 2, 3, 4][..])));
    }

    #[test]
    fn what_is_not_rtp_is_refused_without_a_panic() {
        let bytes = HEADER.to_bytes();
        for len in 0..HEADER_BYTES {
            assert!(matches!(parse(&bytes[..len]), Err(Malformed::Short { .. })));
        }
        for first in 0..=255_u8 {
            for tail in [0_usize, 1, 3, 4, 60, 70] {
                let mut packet = bytes.to_vec();
                packet[0] = first;
                packet.extend(std::iter::repeat_n(0xff, tail));
                let parsed = parse(&packet);
                assert!(first >> 6 == 2 || parsed == Err(Malformed::Version(first >> 6)));
            }
        }
    }

    #[test]
    fn samples_go_through_the_wire_unchanged() {
        let samples = [0, 1, -1, i16::MIN, i16::MAX, 0x1234];
        let mut bytes = [0; 12];
        pack(&samples, &mut bytes);
        assert_eq!(bytes[10..], [0x12, 0x34]);
        assert!(unpack(&bytes).eq(samples));
    }

    #[test]
    fn losses_and_late_comers_are_told_apart() {
        let mut sequence = Sequence::default();
        // 65533 is the begin; 65535 is late, 1 is lost, 2 comes twice.
        for number in [65_533, 65_534, 0, 65_535, 2, 2, 3] {
            sequence.note(number);
        }
        assert_eq!(sequence.received, 7);
        assert_eq!(
            (sequence.lost, sequence.reordered, sequence.duplicates),
            (1, 1, 1)
        );
    }

    #[test]
    fn a_restarted_sender_is_no_loss() {
        let mut sequence = Sequence::default();
        for number in [40_000, 40_001, 5, 6] {
            assert!(sequence.note(number));
        }
        assert_eq!((sequence.lost, sequence.reordered), (0, 0));
    }

    #[test]
    fn any_order_gives_consistent_counts() {
        let mut state = 1_u64;
        for _ in 0..1_000 {
            let mut sequence = Sequence::default();
            for number in 0..200_u16 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let jitter = (state >> 60) as u16;
                sequence.note(number.wrapping_sub(jitter));
            }
            assert_eq!(sequence.received, 200);
            assert!(sequence.lost < 200);
        }
    }

    #[test]
    fn a_session_description_names_address_and_format() {
        let text = sdp("127.0.0.1:5004".parse().unwrap(), L16_MONO, 44_100);
        assert!(text.contains("m=audio 5004 RTP/AVP 11\r\n"));
        assert!(text.contains("a=rtpmap:11 L16/44100/1\r\n"));
    }
}
