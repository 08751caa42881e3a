//! The results of sent streams, with the reports of their receivers.

use std::net::SocketAddr;
/// What a stream has sent, and what its receivers have reported of it.
#[derive(Debug, Clone, PartialEq)]
pub struct SentReport {
    /// Its number.
    pub stream: usize,
    /// Its source.
    pub ssrc: u32,
    /// Packets, those of the ramp-up included; to each client so many.
    pub packets: u64,
    /// Bytes of payload in them.
    pub bytes: u64,
    /// Periods that were left out because the program did not run.
    pub skipped: u64,
    /// What each receiver reported last.
    pub receivers: Vec<ReceiverReport>,
}

/// What a receiver reported of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiverReport {
    /// Where its reports came from.
    pub from: SocketAddr,
    /// Packets that it lacks.
    pub lost: u32,
    /// The share that it lacked between its last two reports, 0 to 1.
    pub fraction_lost: f64,
    /// Its jitter.
    pub jitter_ms: f64,
    /// From the sender to it and back; none before it has heard a report.
    pub round_trip_ms: Option<f64>,
}
