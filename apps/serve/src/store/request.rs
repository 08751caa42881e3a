//! The requests to a store, its answers, and its published state.

use std::fmt;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use creel::channel::oneshot;

/// The name of a record: the SHA-256 of the signed message.
pub type Id = [u8; 32];

/// The reason why the store did not execute a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// The store is not available or its queue is full. A later request may succeed.
    Unavailable,
    /// The store reported an error.
    Refused(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unavailable => f.write_str("the store is not available: try again later"),
            StoreError::Refused(why) => write!(f, "the store reported an error: {why}"),
        }
    }
}

impl std::error::Error for StoreError {}

/// A command to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Put(Id, Bytes),
    Get(Id),
    Count,
    /// A write that changes nothing. It checks whether the store accepts writes.
    Probe,
}

/// The answer of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The record is stored. If the store promises durability, the record also survives a power
    /// failure.
    Stored,
    Record(Option<Bytes>),
    Count(u64),
}

pub(super) type Outcome = Result<Answer, StoreError>;

/// A command, and the channel for its answer.
pub(super) struct StoreRequest {
    pub(super) command: Command,
    pub(super) answer: oneshot::Sender<Outcome>,
}

impl StoreRequest {
    /// Returns whether the caller no longer waits for the answer.
    pub(super) fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }
}

/// The state that a store publishes. Its fields are hints that need no memory ordering.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Whether the store answers.
    pub(super) is_up: AtomicBool,
    /// Whether the last write succeeded.
    pub(super) is_writable: AtomicBool,
}
