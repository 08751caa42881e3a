//! RTCP: what senders and receivers tell each other about a stream.
//!
//! Packets are read and written by a library; here is what a stream has to say and what it keeps
//! of what it hears.
//!
//! Source: RFC 3550 section 6.

use rtcp_types::prelude::*;
use rtcp_types::{
    Bye, Compound, Packet, ReceiverReport, ReportBlock, Sdes, SdesChunk, SdesItem, SenderReport,
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Between two reports of one stream. Source: section 6.2, the recommended minimum.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);
/// Seconds from 1900 to 1970.
const NTP_UNIX: u64 = 2_208_988_800;
/// Blocks in one report. Source: section 6.4.1.
const BLOCKS_MAX: usize = 31;

/// What a report says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// A sender of itself.
    Sender(u32, SenderInfo),
    /// A receiver of what it gets.
    Block(Block),
    /// A source ends.
    Bye(u32),
}

/// What a sender says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SenderInfo {
    /// The time of the report, in NTP's format.
    pub(crate) ntp: u64,
    /// The same time by the stream's clock.
    pub(crate) timestamp: u32,
    pub(crate) packets: u32,
    pub(crate) octets: u32,
}

/// What a receiver says of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Block {
    /// The stream that it is about.
    pub(crate) ssrc: u32,
    /// Of the packets since the last report, in 256ths.
    pub(crate) fraction_lost: u8,
    /// In all; negative ones (more came than were sent) are told as zero.
    pub(crate) lost: u32,
    pub(crate) highest: u32,
    /// In ticks of the stream's clock.
    pub(crate) jitter: u32,
    /// The middle of the last sender report's time, and the time since it in 65,536ths.
    pub(crate) last_report: u32,
    pub(crate) since_report: u32,
}

/// Now, in NTP's format: seconds since 1900 and 2⁻³² of them.
pub(crate) fn ntp_now() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    ntp(since)
}

fn ntp(since_1970: Duration) -> u64 {
    let fraction = (u64::from(since_1970.subsec_nanos()) << 32) / 1_000_000_000;
    (since_1970.as_secs() + NTP_UNIX) << 32 | fraction
}

/// What reports call a time: the middle 32 bits.
pub(crate) fn middle(ntp: u64) -> u32 {
    (ntp >> 16) as u32
}

impl Block {
    /// The time from the sender's report to this one's coming, less what the receiver kept it for;
    /// none before it has heard a report, or where the clocks are off. Source: section 6.4.1.
    pub(crate) fn round_trip(&self, now_ntp: u64) -> Option<Duration> {
        if self.last_report == 0 {
            return None;
        }
        let away = middle(now_ntp).wrapping_sub(self.last_report);
        let trip = away.wrapping_sub(self.since_report);
        (trip < 1 << 24).then(|| Duration::from_nanos((u64::from(trip) * 1_000_000_000) >> 16))
    }
}

/// What the datagram says, one after another. False: it is not RTCP.
pub(crate) fn read(datagram: &[u8], mut each: impl FnMut(Told)) -> bool {
    let Ok(compound) = Compound::parse(datagram) else {
        return false;
    };
    let block = |block: ReportBlock<'_>| {
        Told::Block(Block {
            ssrc: block.ssrc(),
            fraction_lost: block.fraction_lost(),
            // 24 bits, signed: RFC 3550 section 6.4.1.
            lost: if block.cumulative_lost() & 0x80_0000 == 0 {
                block.cumulative_lost()
            } else {
                0
            },
            highest: block.extended_sequence_number(),
            jitter: block.interarrival_jitter(),
            last_report: block.last_sender_report_timestamp(),
            since_report: block.delay_since_last_sender_report_timestamp(),
        })
    };
    for packet in compound {
        match packet {
            Ok(Packet::Sr(report)) => {
                let info = SenderInfo {
                    ntp: report.ntp_timestamp(),
                    timestamp: report.rtp_timestamp(),
                    packets: report.packet_count(),
                    octets: report.octet_count(),
                };
                each(Told::Sender(report.ssrc(), info));
                report.report_blocks().map(block).for_each(&mut each);
            }
            Ok(Packet::Rr(report)) => report.report_blocks().map(block).for_each(&mut each),
            Ok(Packet::Bye(bye)) => bye.ssrcs().map(Told::Bye).for_each(&mut each),
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    true
}

/// A sender's report, with its name; and its good-bye, if it `ends`.
pub(crate) fn sender_report(ssrc: u32, info: SenderInfo, name: &str, ends: bool) -> Vec<u8> {
    let report = SenderReport::builder(ssrc)
        .ntp_timestamp(info.ntp)
        .rtp_timestamp(info.timestamp)
        .packet_count(info.packets)
        .octet_count(info.octets);
    let mut compound = Compound::builder()
        .add_packet(report)
        .add_packet(named(ssrc, name));
    if ends {
        compound = compound.add_packet(Bye::builder().add_source(ssrc));
    }
    written(&compound)
}

/// A receiver's report of at most 31 streams, with its name.
pub(crate) fn receiver_report(ssrc: u32, blocks: &[Block], name: &str) -> Vec<u8> {
    let mut report = ReceiverReport::builder(ssrc);
    for block in &blocks[..blocks.len().min(BLOCKS_MAX)] {
        report = report.add_report_block(
            ReportBlock::builder(block.ssrc)
                .fraction_lost(block.fraction_lost)
                .cumulative_lost(block.lost.min(0x7f_ffff))
                .extended_sequence_number(block.highest)
                .interarrival_jitter(block.jitter)
                .last_sender_report_timestamp(block.last_report)
                .delay_since_last_sender_report_timestamp(block.since_report),
        );
    }
    let compound = Compound::builder().add_packet(report);
    written(&compound.add_packet(named(ssrc, name)))
}

fn named(ssrc: u32, name: &str) -> rtcp_types::SdesBuilder<'_> {
    let item = SdesItem::builder(SdesItem::CNAME, name);
    Sdes::builder().add_chunk(SdesChunk::builder(ssrc).add_item(item))
}

fn written(compound: &impl RtcpPacketWriter) -> Vec<u8> {
    let mut bytes = vec![0; 2_048];
    let len = compound.write_into(&mut bytes);
    // What is written here is small and well-formed.
    bytes.truncate(len.unwrap_or(0));
    bytes
}

/// What a receiver reports of one stream, and what it needs for the next report.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reporter {
    expected: u64,
    received: u64,
}

impl Reporter {
    /// The share lost since the last report, in 256ths. Source: RFC 3550, A.3.
    pub(crate) fn fraction_lost(&mut self, expected: u64, received: u64) -> u8 {
        let of_expected = expected.saturating_sub(self.expected);
        let of_received = received.saturating_sub(self.received);
        (self.expected, self.received) = (expected, received);
        let lost = of_expected.saturating_sub(of_received);
        match of_expected {
            0 => 0,
            all => (lost * 256 / all).min(255) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: &[u8]) -> Vec<Told> {
        let mut all = Vec::new();
        assert!(read(bytes, |told| all.push(told)));
        all
    }

    #[test]
    fn a_sender_s_report_is_read_back() {
        let info = SenderInfo {
            ntp: ntp(Duration::from_millis(1_500)),
            timestamp: 77,
            packets: 3,
            octets: 960,
        };
        assert_eq!(info.ntp, (NTP_UNIX + 1) << 32 | 1 << 31);
        let bytes = sender_report(9, info, "a@b", true);
        assert_eq!(&bytes[..2], [0x80, 200]);
        assert_eq!(told(&bytes), [Told::Sender(9, info), Told::Bye(9)]);
    }

    #[test]
    fn a_receiver_s_report_is_read_back_and_gives_the_round_trip() {
        let sent = ntp(Duration::from_secs(100));
        let block = Block {
            ssrc: 9,
            fraction_lost: 12,
            lost: 34,
            highest: 65_540,
            jitter: 5,
            last_report: middle(sent),
            since_report: 65_536,
        };
        let bytes = receiver_report(1, &[block], "a@b");
        assert_eq!(told(&bytes), [Told::Block(block)]);
        // It was kept for a second, and is here after 1.25.
        let trip = block.round_trip(ntp(Duration::from_millis(101_250)));
        assert_eq!(trip, Some(Duration::from_millis(250)));
    }

    #[test]
    fn what_is_not_rtcp_is_refused_without_a_panic() {
        let bytes = sender_report(9, SenderInfo::default(), "a@b", true);
        for len in 0..bytes.len() {
            read(&bytes[..len], |_| ());
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut broken = bytes.clone();
                broken[at] = value;
                read(&broken, |_| ());
            }
        }
        assert!(!read(b"no report", |_| ()));
    }

    #[test]
    fn the_share_lost_is_that_since_the_last_report() {
        let mut reporter = Reporter::default();
        assert_eq!(reporter.fraction_lost(100, 75), 64);
        assert_eq!(reporter.fraction_lost(200, 175), 0);
        assert_eq!(reporter.fraction_lost(200, 175), 0);
        // More came than was expected: duplicates.
        assert_eq!(reporter.fraction_lost(210, 190), 0);
    }
}
