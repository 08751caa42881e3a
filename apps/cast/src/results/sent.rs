//! The results of sent streams, with the reports of their receivers.

use std::net::SocketAddr;
/// The report about one sent stream, with the reports of its receivers.
#[derive(Debug, Clone, PartialEq)]
pub struct SentReport {
    /// The number of the stream.
    pub stream: usize,
    /// The SSRC of the stream.
    pub ssrc: u32,
    /// The number of packets to each client, including those of the ramp-up.
    pub packets: u64,
    /// The number of payload bytes in the packets to each client.
    pub bytes: u64,
    /// The number of periods without a packet, because the program did not run in time.
    pub skipped: u64,
    /// The last report of each receiver.
    pub receivers: Vec<ReceiverReport>,
}

/// The report of a receiver about a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiverReport {
    /// The address from which the report arrived.
    pub from: SocketAddr,
    /// The number of packets that the receiver lacks.
    pub lost: u32,
    /// The fraction of the packets that the receiver lost between its last two reports, 0 to 1.
    pub fraction_lost: f64,
    /// The jitter at the receiver.
    pub jitter_ms: f64,
    /// The round-trip time between sender and receiver, or `None` if the receiver has not received
    /// a report yet or the clocks disagree.
    pub round_trip_ms: Option<f64>,
    /// The fraction of the packets that arrived too late at the receiver, 0 to 1. This value and
    /// the following ones are from extended reports (RFC 3611).
    pub discarded: Option<f64>,
    /// The rating of the E-model at the receiver.
    pub rating: Option<u8>,
    /// The mean opinion score at the receiver.
    pub mos: Option<f64>,
}
