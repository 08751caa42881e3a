//! Replaces SSRCs, sequence numbers and timestamps, so that clients cannot recognize a source.

use super::translate::{Translator, translate};
use crate::net::identity::Random;
use crate::net::rtp::{self, is_rtcp};
use std::collections::HashMap;
use std::net::SocketAddr;

/// The maximum number of sources per port. Packets of further sources are dropped.
const SOURCES_MAX: usize = 32_768;
/// The maximum number of pairs of clients and sources whose sequence numbers we map.
const REPORTERS_MAX: usize = 65_536;

/// The new SSRC of a source, and the offsets that we add to its sequence numbers and timestamps.
#[derive(Debug, Clone, Copy)]
struct Shift {
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
}

/// Rewrites the packets of one port.
#[derive(Debug)]
pub(super) struct Rewrite {
    random: Random,
    cname: String,
    shifts: HashMap<u32, Shift>,
    back: HashMap<u32, u32>,
    /// For each client and source, the highest sequence number that the client reports minus the
    /// original number.
    distances: HashMap<(SocketAddr, u32), i64>,
}

impl Rewrite {
    pub(super) fn new() -> Self {
        let mut random = Random::new(None);
        Rewrite {
            cname: format!("{:016x}", random.next()),
            random,
            shifts: HashMap::new(),
            back: HashMap::new(),
            distances: HashMap::new(),
        }
    }

    fn shift(&mut self, ssrc: u32) -> Option<Shift> {
        if let Some(&shift) = self.shifts.get(&ssrc) {
            return Some(shift);
        }
        if self.shifts.len() >= SOURCES_MAX {
            return None;
        }
        let (name, numbers) = (self.random.next() as u32, self.random.next());
        let shift = Shift {
            ssrc: name,
            sequence: numbers as u16,
            timestamp: (numbers >> 32) as u32,
        };
        self.shifts.insert(ssrc, shift);
        self.back.insert(name, ssrc);
        Some(shift)
    }

    /// Writes the datagram for the clients to `into`. Datagrams that are neither RTP nor RTCP, for
    /// example of STUN or T.38, are passed on as they are. Returns `None` if the datagram must not
    /// be passed on.
    pub(super) fn forward(&mut self, datagram: &[u8], into: &mut Vec<u8>) -> Option<()> {
        into.clear();
        if is_rtcp(datagram) {
            return translate(datagram, &mut Forward(self), into);
        }
        into.extend_from_slice(datagram);
        if rtp::parse_truncated(datagram).is_err() {
            return Some(());
        }
        let word = |bytes: &[u8], at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let shift = self.shift(word(into, 8))?;
        let sequence = u16::from_be_bytes([into[2], into[3]]).wrapping_add(shift.sequence);
        let timestamp = word(into, 4).wrapping_add(shift.timestamp);
        into[2..4].copy_from_slice(&sequence.to_be_bytes());
        into[4..8].copy_from_slice(&timestamp.to_be_bytes());
        into[8..12].copy_from_slice(&shift.ssrc.to_be_bytes());
        // A mixer lists the SSRCs of the sources that it has mixed. We replace them as we replace
        // those of other sources.
        for at in (0..usize::from(into[0] & 0x0f)).map(|n| 12 + 4 * n) {
            let shift = self.shift(word(into, at))?;
            into[at..at + 4].copy_from_slice(&shift.ssrc.to_be_bytes());
        }
        Some(())
    }

    /// Writes the RTCP of a client at `from` to `into`, with the original numbers of the sources.
    /// Returns `None` if it is malformed.
    pub(super) fn backward(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        into: &mut Vec<u8>,
    ) -> Option<()> {
        into.clear();
        translate(datagram, &mut Backward(self, from), into)
    }

    /// Returns the original SSRC and the shift of a source that a client names.
    fn original(&self, ssrc: u32) -> Option<(u32, Shift)> {
        let original = *self.back.get(&ssrc)?;
        Some((original, *self.shifts.get(&original)?))
    }
}

/// Translates RTCP of the sources for the clients.
struct Forward<'a>(&'a mut Rewrite);

impl Translator for Forward<'_> {
    fn sender(&mut self, ssrc: u32) -> u32 {
        self.0.shift(ssrc).map_or(0, |shift| shift.ssrc)
    }

    /// If we do not know the SSRC, it belongs to the stream of a client. We never replace SSRCs of
    /// clients.
    fn media(&mut self, ssrc: u32) -> u32 {
        self.0.shifts.get(&ssrc).map_or(ssrc, |shift| shift.ssrc)
    }

    fn timestamp(&mut self, ssrc: u32, timestamp: u32) -> u32 {
        let shift = self.0.shifts.get(&ssrc);
        timestamp.wrapping_add(shift.map_or(0, |shift| shift.timestamp))
    }

    fn sequence(&mut self, ssrc: u32, sequence: u16) -> u16 {
        let shift = self.0.shifts.get(&ssrc);
        sequence.wrapping_add(shift.map_or(0, |shift| shift.sequence))
    }

    /// A source may report about another source of the same port.
    fn highest_sequence(&mut self, ssrc: u32, sequence: u32) -> u32 {
        let shift = self.0.shifts.get(&ssrc);
        sequence.wrapping_add(shift.map_or(0, |shift| shift.sequence.into()))
    }

    fn cname(&self) -> Option<&str> {
        Some(&self.0.cname)
    }
}

/// Translates RTCP of a client for the sources.
struct Backward<'a>(&'a mut Rewrite, SocketAddr);

impl Translator for Backward<'_> {
    fn media(&mut self, ssrc: u32) -> u32 {
        self.0.original(ssrc).map_or(ssrc, |(original, _)| original)
    }

    fn sequence(&mut self, ssrc: u32, sequence: u16) -> u16 {
        let shift = self.0.original(ssrc).map_or(0, |(_, shift)| shift.sequence);
        sequence.wrapping_sub(shift)
    }

    /// The client counts the cycles of the shifted numbers, beginning with its first packet. The
    /// original numbers wrap at another time. The difference between the two is the shift, or one
    /// cycle less if the first shifted number had wrapped. It is constant for each client, so we
    /// compute it once.
    fn highest_sequence(&mut self, ssrc: u32, sequence: u32) -> u32 {
        let Some((original, shift)) = self.0.original(ssrc) else {
            return sequence;
        };
        let shift = i64::from(shift.sequence);
        let distances = &mut self.0.distances;
        if distances.len() >= REPORTERS_MAX {
            distances.clear();
        }
        let distance = *distances.entry((self.1, original)).or_insert_with(|| {
            let has_wrapped = i64::from(sequence) < shift;
            shift - i64::from(has_wrapped) * 0x1_0000
        });
        (i64::from(sequence) - distance) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

    /// Returns a rewrite that knows one source with this shift of its sequence numbers.
    fn rewrite(shift: u16) -> Rewrite {
        let mut rewrite = Rewrite::new();
        let of_source = Shift {
            ssrc: 0xaaaa_aaaa,
            sequence: shift,
            timestamp: 1_000,
        };
        rewrite.shifts.insert(7, of_source);
        rewrite.back.insert(0xaaaa_aaaa, 7);
        rewrite
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn receiver_report(highest: u32) -> Vec<u8> {
        words(&[0x81c9_0007, 9, 0xaaaa_aaaa, 0, highest, 0, 0, 0])
    }

    #[test]
    fn highest_sequence_numbers_are_mapped_across_wraps() {
        // Each case is the first sequence number of a source and its shift. `count` is the number
        // of packets until the report.
        for (first, shift) in [
            (100, 65_430_u16),
            (65_530, 10),
            (10, 65_530),
            (0, 0),
            (65_535, 1),
        ] {
            let mut rewrite = rewrite(shift);
            let shifted = u32::from((first as u16).wrapping_add(shift));
            for count in [0_u32, 1, 5, 60_000, 70_000, 140_000] {
                let report = receiver_report(shifted + count);
                let mut into = Vec::new();
                rewrite.backward(&report, CLIENT, &mut into).unwrap();
                let expected = words(&[0x81c9_0007, 9, 7, 0, first + count, 0, 0, 0]);
                assert_eq!(into, expected, "{first} + {count}, shifted by {shift}");
            }
        }
    }

    #[test]
    fn feedback_extended_reports_and_applications_are_translated() {
        let mut rewrite = rewrite(1_000);
        let both = |forward: &[u32], backward: &[u32], rewrite: &mut Rewrite| {
            let mut into = Vec::new();
            rewrite
                .backward(&words(forward), CLIENT, &mut into)
                .unwrap();
            assert_eq!(into, words(backward));
        };
        let alias = 0xaaaa_aaaa;
        // The feedback is a list of missing packets (NACK), the loss of a picture (PLI), and a
        // request for a key frame that names its stream in an entry (FIR).
        both(
            &[0x81cd_0003, 9, alias, 0x03e9_0001],
            &[0x81cd_0003, 9, 7, 0x0001_0001],
            &mut rewrite,
        );
        both(&[0x81ce_0002, 9, alias], &[0x81ce_0002, 9, 7], &mut rewrite);
        both(
            &[0x84ce_0004, 9, 0, alias, 5],
            &[0x84ce_0004, 9, 0, 7, 5],
            &mut rewrite,
        );
        // The next packets are a request for another trade-off of quality and rate (TSTR), the
        // losses that a third party reports, and the arrival times of two streams' packets.
        both(
            &[0x85ce_0004, 9, 0, alias, 5],
            &[0x85ce_0004, 9, 0, 7, 5],
            &mut rewrite,
        );
        both(
            &[0x87cd_0003, 9, alias, 0x03e9_0001],
            &[0x87cd_0003, 9, 7, 0x0001_0001],
            &mut rewrite,
        );
        both(
            &[0x8bcd_0008, 9, alias, 0x03e9_0003, 1, 2, 8, 0x0007_0000, 99],
            &[0x8bcd_0008, 9, 7, 0x0001_0003, 1, 2, 8, 0x0007_0000, 99],
            &mut rewrite,
        );
        // The last packets are extended reports: a newer block about a stream, the packets to which
        // other blocks apply, and the losses in a range of packets.
        both(
            &[0x80cf_0003, 9, 0x1e00_0001, alias],
            &[0x80cf_0003, 9, 0x1e00_0001, 7],
            &mut rewrite,
        );
        both(
            &[
                0x80cf_0009,
                9,
                0x0e00_0007,
                alias,
                0x03e9,
                0x03e9,
                0x03f9,
                0,
                0,
                0,
            ],
            &[0x80cf_0009, 9, 0x0e00_0007, 7, 1, 1, 17, 0, 0, 0],
            &mut rewrite,
        );
        let xr = |ssrc, numbers| [0x80cf_0005, 9, 0x0100_0003, ssrc, numbers, 0x8000_0000];
        both(&xr(alias, 0x03e8_03ea), &xr(7, 0x0000_0002), &mut rewrite);
        // In an RTCP packet of an application (APP), we replace the SSRC of the source and keep the
        // data.
        let mut into = Vec::new();
        let app = words(&[0x80cc_0003, 7, 0x6162_6364, 0x1122_3344]);
        rewrite.forward(&app, &mut into).unwrap();
        assert_eq!(into, words(&[0x80cc_0003, alias, 0x6162_6364, 0x1122_3344]));
    }

    #[test]
    fn a_goodbye_has_no_reason_and_no_padding() {
        let mut rewrite = rewrite(1);
        let mut into = Vec::new();
        let mut bye = words(&[0xa1cb_0004, 7]);
        bye.extend(*b"\x03bob");
        bye.extend(words(&[0, 8]));
        rewrite.forward(&bye, &mut into).unwrap();
        assert_eq!(into, words(&[0x81cb_0001, 0xaaaa_aaaa]));
        let mut description = words(&[0xa1ca_0004, 7]);
        description.extend(*b"\x01\x02ab");
        description.extend(words(&[0, 4]));
        rewrite.forward(&description, &mut into).unwrap();
        assert_eq!(into[0], 0x81);
        assert!(
            rtcp_types::Compound::parse(&into)
                .unwrap()
                .all(|it| it.is_ok())
        );
    }

    #[test]
    fn a_source_may_report_about_another_source() {
        let mut rewrite = rewrite(1_000);
        let mut into = Vec::new();
        rewrite.forward(&words(&[0x8000_0005, 10, 8]), &mut into);
        let of_other = rewrite.shifts[&8].ssrc;
        let report = words(&[0x81c9_0007, 8, 7, 0, 0x0001_0005, 0, 0, 0]);
        rewrite.forward(&report, &mut into).unwrap();
        let expected = [0x81c9_0007, of_other, 0xaaaa_aaaa, 0, 0x0001_03ed, 0, 0, 0];
        assert_eq!(into, words(&expected));
    }

    #[test]
    fn datagrams_of_other_protocols_pass_unchanged() {
        let mut rewrite = rewrite(1_000);
        let mut into = Vec::new();
        let stun = words(&[0x0001_0000, 0x2112_a442, 1, 2, 3]);
        for other in [&stun[..], b"T38", &[0x80, 0, 1], &[0x12; 40]] {
            rewrite.forward(other, &mut into).unwrap();
            assert_eq!(into, other);
        }
    }

    #[test]
    fn the_ssrcs_of_contributing_sources_are_replaced() {
        let mut rewrite = rewrite(1);
        let mut into = Vec::new();
        let packet = words(&[0x8200_0005, 10, 7, 0xbeef, 7, 0xffff_ffff]);
        rewrite.forward(&packet, &mut into).unwrap();
        assert_eq!(into[..12], words(&[0x8200_0006, 1_010, 0xaaaa_aaaa]));
        assert_ne!(into[12..16], words(&[0xbeef]));
        assert_eq!(into[16..], words(&[0xaaaa_aaaa, 0xffff_ffff]));
    }

    #[test]
    fn a_source_description_has_only_our_cname() {
        let mut rewrite = rewrite(1);
        // A sender report, then a description with a CNAME and a name.
        let mut compound = words(&[0x80c8_0006, 7, 0, 0, 50, 1, 2]);
        compound.extend(words(&[0x81ca_0003, 7]));
        compound.extend(*b"\x01\x02ab\x02\x01x\0");
        let mut into = Vec::new();
        rewrite.forward(&compound, &mut into).unwrap();
        assert_eq!(into[..20], words(&[0x80c8_0006, 0xaaaa_aaaa, 0, 0, 1_050]));
        let text = String::from_utf8_lossy(&into[28..]);
        assert!(text.contains(&rewrite.cname) && !text.contains("ab\u{2}"));
        assert!(
            rtcp_types::Compound::parse(&into)
                .unwrap()
                .all(|it| it.is_ok())
        );
    }

    #[test]
    fn malformed_rtcp_is_rejected_without_a_panic() {
        let mut rewrite = rewrite(1);
        let mut compound = words(&[0x81c8_000c, 7, 0, 0, 50, 1, 2, 7, 0, 0, 0, 0, 0]);
        compound.extend(words(&[0x81ca_0003, 7, 0x0102_6162, 0, 0x80cf_0005, 7]));
        compound.extend(words(&[0x0100_0003, 7, 0, 0]));
        let mut into = Vec::new();
        for at in 0..compound.len() {
            rewrite.forward(&compound[..at], &mut into);
            for value in [0, 1, 0x7f, 0x80, 0xcf, 0xff] {
                let mut broken = compound.clone();
                broken[at] = value;
                rewrite.forward(&broken, &mut into);
                rewrite.backward(&broken, CLIENT, &mut into);
            }
        }
    }
}
