//! The results of a run, which all programs return.

use crate::measure::contexts::Used;
use crate::measure::stats::{Histograms, Moments, StreamStats};
use std::collections::BTreeSet;

mod received;
mod sent;

pub use received::{SourceReport, Unrecognized};
pub use sent::{ReceiverReport, SentReport};

/// What a run measured, of all streams.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Contexts.
    pub contexts: usize,
    /// Buffers that were measured.
    pub buffers: u64,
    /// What was used while they were.
    pub used: Used,
    /// One a stream.
    pub streams: Vec<StreamStats>,
    /// Over all streams.
    pub histograms: Histograms,
    /// What a stream takes in memory, its buffers included, in bytes; where it was measured.
    pub stream_bytes: Option<u64>,
    /// Packets that did not come, or were not sent.
    pub lost: u64,
    /// Datagrams that came to this machine and were dropped there: sockets were full.
    pub overflowed: u64,
    /// Packets that came too late to be played.
    pub late: u64,
    /// Packets that came after a later one.
    pub reordered: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Packets that were due while the program did not run, and were left out.
    pub skipped: u64,
    /// A row a stream that came.
    pub sources: Vec<SourceReport>,
    /// A row a stream that was sent.
    pub sent: Vec<SentReport>,
    /// What came and was no stream's.
    pub unrecognized: Unrecognized,
    /// Payload types whose clock nobody told.
    pub unknown_types: BTreeSet<u8>,
    /// What went wrong while the rest went on; one line each.
    pub warnings: Vec<String>,
    /// What is worth knowing and no failure.
    pub notes: Vec<String>,
}

impl Measured {
    /// The intervals of all streams, in nanoseconds.
    pub fn interval(&self) -> Moments {
        let mut all = Moments::default();
        for stream in &self.streams {
            all.merge(&stream.interval);
        }
        all
    }

    /// CPU time a buffer, in nanoseconds.
    pub fn cpu_nanos_per_buffer(&self) -> f64 {
        self.used.cpu_nanos_per(self.buffers)
    }

    /// The share of the time that the contexts slept, 0 to 1.
    pub fn parked_share(&self) -> f64 {
        self.used.parked_share(self.contexts)
    }
}
