//! How a buffer is laid out in a datagram: bare samples, or RTP around them.

use crate::buffer::Buffer;
use crate::rtp::{self, HEADER_BYTES, Header, Malformed};
use std::fmt;
use std::str::FromStr;

/// What a datagram looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Samples only, little-endian: losses cannot be told.
    Raw,
    /// RTP with this payload type; L16, big-endian.
    Rtp(u8),
}

impl Default for Framing {
    fn default() -> Self {
        Framing::Rtp(rtp::L16_MONO)
    }
}

impl FromStr for Framing {
    type Err = String;

    /// Reads `raw`, `rtp` or `rtp:96`.
    fn from_str(text: &str) -> Result<Self, String> {
        let payload_type = match text.split_once(':') {
            None if text == "raw" => return Ok(Framing::Raw),
            None if text == "rtp" => return Ok(Framing::default()),
            Some(("rtp", number)) => number.parse::<u8>().ok(),
            _ => None,
        };
        match payload_type {
            // 10 is two channels, and 72 to 76 collide with RTCP.
            Some(number) if number == rtp::L16_MONO || (96..=127).contains(&number) => {
                Ok(Framing::Rtp(number))
            }
            _ => Err(format!(
                "`{text}` is not raw, rtp, or rtp:N with N 11 or 96 to 127"
            )),
        }
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Framing::Raw => f.write_str("raw"),
            Framing::Rtp(payload_type) => write!(f, "rtp:{payload_type}"),
        }
    }
}

impl Framing {
    /// The bytes of a datagram with so many samples.
    pub fn bytes(self, samples: usize) -> usize {
        match self {
            Framing::Raw => samples * 2,
            Framing::Rtp(_) => HEADER_BYTES + samples * 2,
        }
    }

    /// Writes a buffer of the stream `ssrc` into `datagram`, whose former content is lost.
    pub fn write(self, buffer: &Buffer, ssrc: u32, datagram: &mut Vec<u8>) {
        let samples = &buffer.samples;
        datagram.resize(self.bytes(samples.len()), 0);
        let Framing::Rtp(payload_type) = self else {
            for (pair, sample) in datagram.chunks_exact_mut(2).zip(samples) {
                pair.copy_from_slice(&sample.to_le_bytes());
            }
            return;
        };
        let header = Header {
            payload_type,
            marker: buffer.sequence == 0,
            sequence: buffer.sequence as u16,
            timestamp: buffer.sequence.wrapping_mul(samples.len() as u64) as u32,
            ssrc,
        };
        datagram[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        rtp::pack(samples, &mut datagram[HEADER_BYTES..]);
    }

    /// Reads a datagram into `buffer`, times excepted; bare samples have no sequence number, either.
    ///
    /// # Errors
    ///
    /// If it is not RTP.
    pub fn read(self, datagram: &[u8], buffer: &mut Buffer) -> Result<(), Malformed> {
        let Framing::Rtp(_) = self else {
            let samples = datagram.chunks_exact(2);
            buffer.samples.clear();
            buffer
                .samples
                .extend(samples.map(|pair| i16::from_le_bytes([pair[0], pair[1]])));
            buffer.ssrc = 0;
            return Ok(());
        };
        let (header, payload) = rtp::parse(datagram)?;
        buffer.samples.clear();
        buffer.samples.extend(rtp::unpack(payload));
        buffer.ssrc = header.ssrc;
        buffer.sequence = u64::from(header.sequence);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_goes_through_either_framing() {
        for framing in [Framing::Raw, Framing::default(), Framing::Rtp(96)] {
            let mut sent = Buffer::new(4);
            sent.samples.copy_from_slice(&[1, -2, i16::MAX, i16::MIN]);
            sent.sequence = 70_000;
            let mut datagram = vec![9; 2_000];
            framing.write(&sent, 77, &mut datagram);
            assert_eq!(datagram.len(), framing.bytes(4));
            let mut received = Buffer::new(0);
            framing.read(&datagram, &mut received).unwrap();
            assert_eq!(received.samples, sent.samples);
            if framing != Framing::Raw {
                assert_eq!((received.ssrc, received.sequence), (77, 70_000 % 65_536));
            }
        }
    }

    #[test]
    fn framings_read_back_what_they_print() {
        for text in ["raw", "rtp:11", "rtp:127"] {
            assert_eq!(text.parse::<Framing>().unwrap().to_string(), text);
        }
        for text in ["", "rtp:10", "rtp:72", "rtp:128", "RAW"] {
            assert!(text.parse::<Framing>().is_err(), "{text}");
        }
    }
}
