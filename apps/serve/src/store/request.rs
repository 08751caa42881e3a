//! The requests to a store and its answers.

use bytes::Bytes;
use creel::channel::oneshot;

use super::health::StoreError;

/// The name of a record: the SHA-256 of the signed message.
pub type Id = [u8; 32];

/// A command to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Put(Id, Bytes),
    Get(Id),
    Count,
    /// A write that changes nothing. It checks whether the store accepts writes.
    Probe,
}

impl Command {
    /// Returns whether the command writes.
    pub(super) fn writes(&self) -> bool {
        matches!(self, Command::Put(..) | Command::Probe)
    }
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
    /// Creates a probe. Nobody awaits its answer.
    pub(super) fn probe() -> StoreRequest {
        let (answer, _) = oneshot::channel();
        let command = Command::Probe;
        StoreRequest { command, answer }
    }

    /// Returns whether the caller no longer waits for the answer.
    pub(super) fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }
}
