//! RTCP: the reports that senders and receivers exchange about a stream.
//!
//! A library reads and writes the packets. This module defines the reports that we send, and the
//! parts that we keep of received reports.
//!
//! Source: RFC 3550 section 6.

use rtcp_types::prelude::*;
use rtcp_types::{Bye, Compound, Packet, ReceiverReport, Sdes, SdesChunk, SdesItem, SenderReport};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time between two reports of a stream. Source: section 6.2, the recommended minimum.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);
/// The number of seconds from 1900 to 1970.
const NTP_UNIX: u64 = 2_208_988_800;
/// The maximum number of blocks in a report. Source: section 6.4.1.
const BLOCKS_MAX: usize = 31;

/// One item of a compound packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    /// A sender report: the sender's SSRC and its sender info.
    Sender(u32, SenderInfo),
    /// A report block of a receiver.
    Block(ReportBlock),
    /// A BYE packet of a source.
    Bye(u32),
}

/// The sender info of a sender report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SenderInfo {
    /// The time of the report in NTP format.
    pub(crate) ntp: u64,
    /// The time of the report in ticks of the stream's clock.
    pub(crate) timestamp: u32,
    pub(crate) packets: u32,
    pub(crate) octets: u32,
}

/// A reception report block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReportBlock {
    /// The SSRC of the stream that the block is about.
    pub(crate) ssrc: u32,
    /// The fraction of the packets since the last report that were lost, in 256ths.
    pub(crate) fraction_lost: u8,
    /// The total number of lost packets. A negative count means that more packets arrived than were
    /// expected, because of duplicates. We treat it as zero.
    pub(crate) lost: u32,
    pub(crate) highest_sequence: u32,
    /// The jitter in ticks of the stream's clock.
    pub(crate) jitter: u32,
    /// The middle 32 bits of the last sender report's time.
    pub(crate) last_sr: u32,
    /// The time since the last sender report arrived, in 65,536ths of a second.
    pub(crate) delay_since_last_sr: u32,
}

/// Returns the current time in NTP format: seconds since 1900, and fractions in units of 2⁻³² s.
pub(crate) fn ntp_now() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    ntp(since)
}

/// Returns a time since 1970 in NTP format.
pub(crate) fn ntp(since_1970: Duration) -> u64 {
    let fraction = (u64::from(since_1970.subsec_nanos()) << 32) / 1_000_000_000;
    (since_1970.as_secs() + NTP_UNIX) << 32 | fraction
}

/// Returns the middle 32 bits of an NTP timestamp, which is the form that report blocks use.
pub(crate) fn compact_ntp(ntp: u64) -> u32 {
    (ntp >> 16) as u32
}

impl ReportBlock {
    /// Returns the round-trip time: the time from our sender report to the arrival of this block,
    /// minus the time that the receiver kept it. Returns `None` if the receiver has not received a
    /// report yet, or if the clocks disagree. Source: section 6.4.1.
    pub(crate) fn round_trip(&self, now_ntp: u64) -> Option<Duration> {
        if self.last_sr == 0 {
            return None;
        }
        let away = compact_ntp(now_ntp).wrapping_sub(self.last_sr);
        let trip = away.wrapping_sub(self.delay_since_last_sr);
        (trip < 1 << 24).then(|| Duration::from_nanos((u64::from(trip) * 1_000_000_000) >> 16))
    }
}

/// Passes each item of a datagram to `each`. Returns false if the datagram is not RTCP.
pub(crate) fn read(datagram: &[u8], mut each: impl FnMut(Item)) -> bool {
    let Ok(compound) = Compound::parse(datagram) else {
        return false;
    };
    let block = |block: rtcp_types::ReportBlock<'_>| {
        Item::Block(ReportBlock {
            ssrc: block.ssrc(),
            fraction_lost: block.fraction_lost(),
            // The count is a signed number of 24 bits, see RFC 3550 section 6.4.1.
            lost: if block.cumulative_lost() & 0x80_0000 == 0 {
                block.cumulative_lost()
            } else {
                0
            },
            highest_sequence: block.extended_sequence_number(),
            jitter: block.interarrival_jitter(),
            last_sr: block.last_sender_report_timestamp(),
            delay_since_last_sr: block.delay_since_last_sender_report_timestamp(),
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
                each(Item::Sender(report.ssrc(), info));
                report.report_blocks().map(block).for_each(&mut each);
            }
            Ok(Packet::Rr(report)) => report.report_blocks().map(block).for_each(&mut each),
            Ok(Packet::Bye(bye)) => bye.ssrcs().map(Item::Bye).for_each(&mut each),
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Returns a sender report with up to 31 blocks about received streams, with the CNAME, and with a
/// BYE packet if `with_bye` is set.
pub(crate) fn sender_report(
    ssrc: u32,
    info: SenderInfo,
    blocks: &[ReportBlock],
    cname: &str,
    with_bye: bool,
) -> Vec<u8> {
    let mut report = SenderReport::builder(ssrc)
        .ntp_timestamp(info.ntp)
        .rtp_timestamp(info.timestamp)
        .packet_count(info.packets)
        .octet_count(info.octets);
    for block in &blocks[..blocks.len().min(BLOCKS_MAX)] {
        report = report.add_report_block(builder(block));
    }
    let mut compound = Compound::builder()
        .add_packet(report)
        .add_packet(sdes(ssrc, cname));
    if with_bye {
        compound = compound.add_packet(Bye::builder().add_source(ssrc));
    }
    encode(&compound)
}

/// Returns a receiver report with up to 31 blocks, and with the CNAME.
pub(crate) fn receiver_report(ssrc: u32, blocks: &[ReportBlock], cname: &str) -> Vec<u8> {
    let mut report = ReceiverReport::builder(ssrc);
    for block in &blocks[..blocks.len().min(BLOCKS_MAX)] {
        report = report.add_report_block(builder(block));
    }
    let compound = Compound::builder().add_packet(report);
    encode(&compound.add_packet(sdes(ssrc, cname)))
}

fn builder(block: &ReportBlock) -> rtcp_types::ReportBlockBuilder {
    rtcp_types::ReportBlock::builder(block.ssrc)
        .fraction_lost(block.fraction_lost)
        .cumulative_lost(block.lost.min(0x7f_ffff))
        .extended_sequence_number(block.highest_sequence)
        .interarrival_jitter(block.jitter)
        .last_sender_report_timestamp(block.last_sr)
        .delay_since_last_sender_report_timestamp(block.delay_since_last_sr)
}

fn sdes(ssrc: u32, cname: &str) -> rtcp_types::SdesBuilder<'_> {
    let item = SdesItem::builder(SdesItem::CNAME, cname);
    Sdes::builder().add_chunk(SdesChunk::builder(ssrc).add_item(item))
}

fn encode(compound: &impl RtcpPacketWriter) -> Vec<u8> {
    let mut bytes = vec![0; 2_048];
    let len = compound.write_into(&mut bytes);
    // Our packets are small and well-formed, so writing them cannot fail.
    bytes.truncate(len.unwrap_or(0));
    bytes
}

/// The counts at the last report about one source, from which we compute the loss since then.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LossInterval {
    expected_prior: u64,
    received_prior: u64,
}

impl LossInterval {
    /// Returns the fraction that was lost since the last call, in 256ths. Source: RFC 3550, A.3.
    pub(crate) fn fraction_lost(&mut self, expected: u64, received: u64) -> u8 {
        let of_expected = expected.saturating_sub(self.expected_prior);
        let of_received = received.saturating_sub(self.received_prior);
        (self.expected_prior, self.received_prior) = (expected, received);
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

    fn items(bytes: &[u8]) -> Vec<Item> {
        let mut all = Vec::new();
        assert!(read(bytes, |item| all.push(item)));
        all
    }

    #[test]
    fn a_sender_report_round_trips() {
        let info = SenderInfo {
            ntp: ntp(Duration::from_millis(1_500)),
            timestamp: 77,
            packets: 3,
            octets: 960,
        };
        assert_eq!(info.ntp, (NTP_UNIX + 1) << 32 | 1 << 31);
        let bytes = sender_report(9, info, &[], "a@b", true);
        assert_eq!(&bytes[..2], [0x80, 200]);
        assert_eq!(items(&bytes), [Item::Sender(9, info), Item::Bye(9)]);
    }

    #[test]
    fn a_receiver_report_round_trips_and_gives_the_round_trip_time() {
        let sent = ntp(Duration::from_secs(100));
        let block = ReportBlock {
            ssrc: 9,
            fraction_lost: 12,
            lost: 34,
            highest_sequence: 65_540,
            jitter: 5,
            last_sr: compact_ntp(sent),
            delay_since_last_sr: 65_536,
        };
        let bytes = receiver_report(1, &[block], "a@b");
        assert_eq!(items(&bytes), [Item::Block(block)]);
        // The receiver kept the report for one second, and the block arrived after 1.25 seconds.
        let trip = block.round_trip(ntp(Duration::from_millis(101_250)));
        assert_eq!(trip, Some(Duration::from_millis(250)));
    }

    #[test]
    fn malformed_rtcp_is_rejected_without_a_panic() {
        let bytes = sender_report(9, SenderInfo::default(), &[], "a@b", true);
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
    fn fraction_lost_covers_the_interval_since_the_last_report() {
        let mut loss_interval = LossInterval::default();
        assert_eq!(loss_interval.fraction_lost(100, 75), 64);
        assert_eq!(loss_interval.fraction_lost(200, 175), 0);
        assert_eq!(loss_interval.fraction_lost(200, 175), 0);
        // More packets arrived than were expected, which means that there were duplicates.
        assert_eq!(loss_interval.fraction_lost(210, 190), 0);
    }
}
