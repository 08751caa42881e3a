//! The results of a run. All kinds of runs return them, for example sending and receiving.

use crate::measure::contexts::Used;
use crate::measure::stats::{Histograms, Moments, StreamStats};
use std::collections::BTreeSet;

mod received;
mod sent;

pub use received::{SourceReport, Unrecognized};
pub use sent::{ReceiverReport, SentReport};

/// The measurements of a run over all streams.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// The number of contexts.
    pub contexts: usize,
    /// The number of buffers that were measured.
    pub buffers: u64,
    /// The resources that the run used while these buffers were measured.
    pub used: Used,
    /// The statistics of each stream.
    pub streams: Vec<StreamStats>,
    /// The distributions over all streams.
    pub histograms: Histograms,
    /// The memory per stream in bytes, including its buffers, if it was measured.
    pub stream_bytes: Option<u64>,
    /// The number of packets that did not arrive, or could not be sent.
    pub lost: u64,
    /// The number of datagrams that this machine dropped because a socket's buffer was full, or
    /// `None` if the system does not count them.
    pub overflowed: Option<u64>,
    /// The number of packets that arrived too late to be played.
    pub late: u64,
    /// The number of packets that arrived after a later one.
    pub reordered: u64,
    /// The number of packets that arrived again.
    pub duplicates: u64,
    /// The number of packets that were not sent because the program did not run when they were due.
    pub skipped: u64,
    /// A report per received stream.
    pub sources: Vec<SourceReport>,
    /// A report per sent stream.
    pub sent: Vec<SentReport>,
    /// Counts of everything that did not belong to a stream.
    pub unrecognized: Unrecognized,
    /// Payload types whose clock is unknown.
    pub unknown_types: BTreeSet<u8>,
    /// Warnings about problems that did not stop the run, one line each.
    pub warnings: Vec<String>,
    /// Notes about other facts that are worth knowing, one line each.
    pub notes: Vec<String>,
}

impl Measured {
    /// Returns the intervals of all streams, in nanoseconds.
    pub fn interval(&self) -> Moments {
        let mut all = Moments::default();
        for stream in &self.streams {
            all.merge(&stream.interval);
        }
        all
    }

    /// Returns the CPU time per buffer, in nanoseconds.
    pub fn cpu_nanos_per_buffer(&self) -> f64 {
        self.used.cpu_nanos_per(self.buffers)
    }

    /// Returns the fraction of the time for which the contexts slept, 0 to 1.
    pub fn parked_share(&self) -> f64 {
        self.used.parked_share(self.contexts)
    }
}
