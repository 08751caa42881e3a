//! The results of received streams: one report per source, and the datagrams of no source.

use crate::media::format::Format;
use std::net::SocketAddr;

/// One source, as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceReport {
    /// Its number in the order of ports, then of coming.
    pub stream: usize,
    /// Its name.
    pub ssrc: u32,
    /// The port on which it came.
    pub port: u16,
    /// Where it came from last.
    pub from: SocketAddr,
    /// The format of its sound, if the payload type is known.
    pub format: Option<Format>,
    /// All payload types that it used; the last one at the end.
    pub payload_types: Vec<u8>,
    /// Packets, duplicates included.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// From the first packet to the last.
    pub seconds: f64,
    /// Packets that there should have been.
    pub expected: u64,
    /// Those that never came.
    pub lost: u64,
    /// Those that came too late to be played.
    pub late: u64,
    /// Those that came after a later one.
    pub reordered: u64,
    /// Those that came again.
    pub duplicates: u64,
    /// Those far from all others.
    pub strays: u64,
    /// How often it began anew.
    pub restarts: u64,
    /// RFC 3550's jitter at the end; none where the clock is not known.
    pub jitter_ms: Option<f64>,
    /// The greatest that it ever was.
    pub jitter_max_ms: Option<f64>,
    /// From one packet to the next, on average.
    pub interval_ms: f64,
    /// Its standard deviation.
    pub interval_sd_ms: f64,
    /// How much faster its clock runs than ours, in millionths; none before 12 s.
    pub drift_ppm: Option<f64>,
    /// The keys that it told of.
    pub keys: String,
    /// What it said last that it has sent.
    pub sender_packets: Option<u32>,
    /// The same in bytes.
    pub sender_bytes: Option<u32>,
    /// It said good-bye.
    pub left: bool,
    /// Packets of another format than its recording's.
    pub unrecorded: u64,
}

/// What came to a socket, beside what its sources tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unrecognized {
    /// Datagrams that are neither RTP nor RTCP.
    pub malformed: u64,
    /// Packets of sources that sent no two in sequence.
    pub unvalidated: u64,
    /// Packets of sources beyond those there is room for, or not asked for.
    pub unknown: u64,
    /// Packets that were truncated because they were longer than the buffer.
    pub truncated: u64,
    /// RTCP's.
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
