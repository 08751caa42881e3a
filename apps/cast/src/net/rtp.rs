//! Reads and writes the header of RTP packets.
//!
//! Source: RFC 3550 section 5.1.
//!
//! Left out: we do not send CSRC lists, extensions or padding. We do skip all three when we receive
//! them.

use std::fmt;

/// The number of bytes of the header that we send.
pub(crate) const HEADER_BYTES: usize = 12;

const VERSION: u8 = 2;

/// The header of a packet, without the parts that this module leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The payload type, 0 to 127.
    pub payload_type: u8,
    /// The marker bit. With audio, it marks the first packet after a silence.
    pub marker: bool,
    /// The sequence number, which grows by one with each packet, modulo 2¹⁶.
    pub sequence: u16,
    /// The position of the first sample in clock ticks, modulo 2³².
    pub timestamp: u32,
    /// The identifier of the stream.
    pub ssrc: u32,
}

impl Header {
    /// Encodes the header.
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

/// The reason why a packet is not valid RTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// The packet is shorter than its header requires.
    Short {
        /// The length of the packet in bytes.
        bytes: usize,
        /// The minimum length that the header requires.
        needed: usize,
    },
    /// The packet has another version, or belongs to another protocol.
    Version(u8),
    /// The packet states more padding than it has bytes of payload.
    Padding(u8),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Short { bytes, needed } => {
                write!(
                    f,
                    "the packet has {bytes} bytes, but its header requires {needed}"
                )
            }
            Malformed::Version(version) => write!(f, "the RTP version is {version}, expected 2"),
            Malformed::Padding(padding) => write!(
                f,
                "the packet does not have the {padding} bytes of padding that it states"
            ),
        }
    }
}

impl std::error::Error for Malformed {}

/// Splits a packet into its header and its payload.
///
/// # Errors
///
/// Returns an error if the packet is not RTP version 2, or is shorter than its own fields state.
#[inline]
pub(crate) fn parse(packet: &[u8]) -> Result<(Header, &[u8]), Malformed> {
    parse_some(packet, true)
}

/// Splits a packet whose end was not captured. Its padding is unknown, because the last byte of a
/// packet holds the length of the padding.
///
/// # Errors
///
/// Returns the same errors as [`parse`], except those about padding.
pub(crate) fn parse_truncated(packet: &[u8]) -> Result<(Header, &[u8]), Malformed> {
    parse_some(packet, false)
}

#[inline]
fn parse_some(packet: &[u8], is_whole: bool) -> Result<(Header, &[u8]), Malformed> {
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
    if fixed[0] & 0x20 != 0 && is_whole {
        let padding = payload.last().copied().unwrap_or(0);
        let payload_len = payload.len().checked_sub(usize::from(padding));
        let payload_len = payload_len.filter(|_| padding > 0);
        payload = &payload[..payload_len.ok_or(Malformed::Padding(padding))?];
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

/// Returns whether a datagram is RTCP rather than RTP. RTCP may arrive on any port.
///
/// Source: RFC 5761 section 4. RTCP has the packet types 192 to 223, and RTP avoids the payload
/// types that would collide with them together with a marker bit.
#[inline]
pub(crate) fn is_rtcp(datagram: &[u8]) -> bool {
    matches!(datagram, [first, 192..=223, ..] if first >> 6 == VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        payload_type: 11,
        marker: true,
        sequence: 0xfffe,
        timestamp: 0x1234_5678,
        ssrc: 0xdead_beef,
    };

    #[test]
    fn a_header_has_the_bytes_of_rfc_3550() {
        let bytes = [
            0x80, 0x8b, 0xff, 0xfe, 0x12, 0x34, 0x56, 0x78, 0xde, 0xad, 0xbe, 0xef,
        ];
        assert_eq!(HEADER.to_bytes(), bytes);
        assert_eq!(parse(&bytes), Ok((HEADER, &[][..])));
    }

    #[test]
    fn csrc_lists_extensions_and_padding_are_skipped() {
        let mut packet = HEADER.to_bytes().to_vec();
        packet[0] |= 0x20 | 0x10 | 2;
        packet.extend([0; 8]); // two CSRC entries
        packet.extend([0xab, 0xcd, 0, 1, 9, 9, 9, 9]); // an extension of one word
        packet.extend([1, 2, 3, 4, 0, 0, 3]); // four bytes of payload, three bytes of padding
        assert_eq!(parse(&packet), Ok((HEADER, &[1, 2, 3, 4][..])));
    }

    #[test]
    fn malformed_rtp_is_rejected_without_a_panic() {
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
}
