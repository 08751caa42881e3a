//! The reports about the participants of rooms (legs), and the totals that all rooms share.

use crate::media::format::Format;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// The report about one leg.
#[derive(Debug, Clone, PartialEq)]
pub struct LegReport {
    /// The number of the room.
    pub room: usize,
    /// The address of the leg.
    pub from: SocketAddr,
    /// The format of the leg.
    pub format: Format,
    /// The number of packets that the leg sent.
    pub packets: u64,
    /// The number of packets of the leg that never arrived.
    pub lost: u64,
    /// The jitter of the packets of the leg at the end, in milliseconds.
    pub jitter_ms: f64,
    /// The number of packets that were sent to the leg.
    pub sent: u64,
    /// The number of packets of the leg that arrived too late to be played.
    pub late: u64,
    /// The fraction of the samples of the leg that were concealed, 0 to 1.
    pub concealed: f64,
    /// The telephone keys that were pressed at the leg.
    pub keys: String,
}

/// The totals of all rooms.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) legs: Vec<LegReport>,
    pub(super) packets: u64,
    pub(super) sent: u64,
    /// The number of packets that we discarded, because they are not RTP, their sender did not
    /// become a leg, their rate is not that of the room, we do not know their codec, or the room
    /// is full.
    pub(super) refused: u64,
}

pub(super) type Shared = Arc<Mutex<Totals>>;
