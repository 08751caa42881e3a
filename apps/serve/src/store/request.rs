//! The requests to a store, its answers, and the state that it publishes.

use std::fmt;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use creel::channel::oneshot;

/// A record's name: the SHA-256 of what was signed.
pub type Id = [u8; 32];

/// Why the store did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// It is not there, or too much waits for it: later it may.
    Unavailable,
    /// It said no.
    Refused(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unavailable => f.write_str("the store is not available"),
            StoreError::Refused(why) => write!(f, "the store: {why}"),
        }
    }
}

impl std::error::Error for StoreError {}

/// What is asked of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Put(Id, Bytes),
    Get(Id),
    Count,
    /// Whether something could be kept.
    Probe,
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is kept, also when the power fails, as far as the store promises that.
    Stored,
    Record(Option<Bytes>),
    Count(u64),
}

pub(super) type Outcome = Result<Answer, StoreError>;

/// A command and who waits for the answer.
pub(super) struct StoreRequest {
    pub(super) command: Command,
    pub(super) answer: oneshot::Sender<Outcome>,
}

impl StoreRequest {
    pub(super) fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }
}

/// What is known of a store. Hints, which order nothing.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Whether it answers.
    pub(super) is_up: AtomicBool,
    /// Whether it also kept what it was last to keep.
    pub(super) is_writable: AtomicBool,
}
