//! The results of received streams: one report per source, and counts of the datagrams that belong
//! to no source.

use crate::measure::bursts::Bursts;
use crate::measure::spacing::Range;
use crate::media::format::Format;
use std::net::SocketAddr;

/// The report about one received source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceReport {
    /// The number of the stream. Streams are ordered by port, then by arrival.
    pub stream: usize,
    /// The SSRC of the source.
    pub ssrc: u32,
    /// The port on which the packets of the source arrived.
    pub port: u16,
    /// The address from which the last packet of the source arrived.
    pub from: SocketAddr,
    /// The audio format, if the payload type is known.
    pub format: Option<Format>,
    /// All payload types that the source used, with the last one at the end.
    pub payload_types: Vec<u8>,
    /// The number of packets, including duplicates.
    pub packets: u64,
    /// The number of payload bytes.
    pub bytes: u64,
    /// The time from the first to the last packet.
    pub seconds: f64,
    /// The number of packets that should have arrived.
    pub expected: u64,
    /// The number of packets that never arrived.
    pub lost: u64,
    /// The number of expected packets minus the number of packets that arrived, as RFC 3550 and
    /// Wireshark count. Duplicates compensate for losses, so the number may be negative.
    pub lost_rfc3550: i64,
    /// The number of packets that arrived too late to be played.
    pub late: u64,
    /// The number of packets that arrived after a later one.
    pub reordered: u64,
    /// The number of packets that arrived again.
    pub duplicates: u64,
    /// The number of packets that were far from all others, and did not begin a restart.
    pub strays: u64,
    /// The number of restarts of the source, after which its sequence numbers begin again.
    pub restarts: u64,
    /// How often the timestamps jumped while the sequence numbers went on.
    pub timestamp_jumps: u64,
    /// How often the source changed to a payload type with another clock.
    pub clock_changes: u64,
    /// How often the source changed to another audio format.
    pub codec_changes: u64,
    /// Whether another address sends with the same SSRC. Each of them has a report of its own.
    pub collision: bool,
    /// The number of datagrams that this machine dropped at the port up to the last packet, because
    /// the socket's buffer was full. It is `None` if the system does not count them.
    pub overflowed: Option<u64>,
    /// The jitter of RFC 3550 at the end, or `None` if the clock is unknown.
    pub jitter_ms: Option<f64>,
    /// The range of the jitter, as Wireshark computes it.
    pub jitter: Option<Range>,
    /// The range of the times between two packets, as Wireshark computes it.
    pub delta: Option<Range>,
    /// The bursts and gaps of the losses, which show whether losses come together.
    pub bursts: Bursts,
    /// The duration of a packet, or `None` if it is unknown.
    pub packet_ms: Option<f64>,
    /// The rating of the E-model (R). It is `None` for codecs that the E-model does not cover.
    pub rating: Option<f64>,
    /// The mean opinion score that belongs to the rating, 1 to 4.5.
    pub mos: Option<f64>,
    /// The mean time between two packets.
    pub interval_ms: f64,
    /// The standard deviation of the time between two packets.
    pub interval_sd_ms: f64,
    /// How much faster the sender's clock runs than ours, in millionths, or `None` in the first 8 s
    /// after the beginning or a restart of the source.
    pub drift_ppm: Option<f64>,
    /// The telephone keys that were pressed.
    pub keys: String,
    /// The number of packets that the source has sent, according to its last report.
    pub sender_packets: Option<u32>,
    /// The number of bytes that the source has sent, according to its last report.
    pub sender_bytes: Option<u32>,
    /// Whether the source sent an RTCP BYE.
    pub left: bool,
    /// The round-trip time to the source, if it answers our extended reports.
    pub round_trip_ms: Option<f64>,
    /// The number of packets that the receiver of this stream lacks, according to its last report.
    pub reported_lost: Option<u32>,
    /// The jitter at the receiver of this stream, according to its last report.
    pub reported_jitter_ms: Option<f64>,
    /// The rating of the E-model at the receiver of this stream, according to its last extended
    /// report.
    pub reported_rating: Option<u8>,
    /// The mean opinion score at the receiver of this stream, according to its last extended
    /// report.
    pub reported_mos: Option<f64>,
    /// The number of packets that could not be recorded, for example because of their format.
    pub unrecorded: u64,
}

/// Counts of everything that arrived at a socket and does not belong to a valid source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unrecognized {
    /// The number of datagrams that are neither RTP nor RTCP.
    pub malformed: u64,
    /// The number of packets that we discarded because their source had not sent two packets in
    /// sequence yet.
    pub unvalidated: u64,
    /// The number of packets of sources that were not expected, or exceeded the maximum number of
    /// sources.
    pub unknown: u64,
    /// The number of packets that were truncated, by the receive buffer or in the capture.
    pub truncated: u64,
    /// The number of RTCP packets.
    pub rtcp: u64,
}

impl Unrecognized {
    pub(crate) fn add(&mut self, other: &Unrecognized) {
        self.malformed += other.malformed;
        self.unvalidated += other.unvalidated;
        self.unknown += other.unknown;
        self.truncated += other.truncated;
        self.rtcp += other.rtcp;
    }
}
