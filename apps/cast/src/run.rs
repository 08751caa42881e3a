//! What the programs have in common: their errors, and what they measure.

use crate::measure::contexts::Used;
use crate::measure::stats::{Histograms, Moments, StreamStats};
use crate::media::wav::WavError;
use crate::receive::{SourceReport, Unrecognized};
use crate::send::SentReport;
use creel::BuildError;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a run gave no result.
#[derive(Debug)]
pub enum Error {
    /// A context could not be made.
    Pool(BuildError),
    /// A socket could not be opened: what for, and why.
    Socket(String, io::Error),
    /// A sound could not be read or written.
    Wav(WavError),
    /// Another file could not be read or written.
    File(PathBuf, io::Error),
    /// A file is not what it should be.
    Malformed(PathBuf, String),
    /// What is asked for cannot be.
    Plan(String),
    /// The run was given up.
    Interrupted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Pool(error) => error.fmt(f),
            Error::Socket(what, error) => write!(f, "{what}: {error}"),
            Error::Wav(error) => error.fmt(f),
            Error::File(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Malformed(path, what) => write!(f, "{}: {what}", path.display()),
            Error::Plan(what) => f.write_str(what),
            Error::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Socket(_, error) | Error::File(_, error) => Some(error),
            _ => None,
        }
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Error::Pool(error)
    }
}

impl From<WavError> for Error {
    fn from(error: WavError) -> Self {
        Error::Wav(error)
    }
}

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
