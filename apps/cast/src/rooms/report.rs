//! The reports of legs, and the totals that all rooms share.

use crate::media::format::Format;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// What a leg has said and heard.
#[derive(Debug, Clone, PartialEq)]
pub struct LegReport {
    /// Its room.
    pub room: usize,
    /// Its address.
    pub from: SocketAddr,
    /// Its format.
    pub format: Format,
    /// Packets that came from it.
    pub packets: u64,
    /// Packets that were sent to it.
    pub sent: u64,
    /// Packets that came after their time.
    pub late: u64,
    /// The share of its time that was concealed, 0 to 1.
    pub concealed: f64,
    /// The keys that it pressed.
    pub keys: String,
}

/// The totals of all rooms.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) legs: Vec<LegReport>,
    pub(super) packets: u64,
    pub(super) sent: u64,
    /// Packets of no leg: another rate, no codec, no room for one more, no RTP.
    pub(super) refused: u64,
}

pub(super) type Shared = Arc<Mutex<Totals>>;

pub(super) fn lock(totals: &Shared) -> std::sync::MutexGuard<'_, Totals> {
    totals.lock().unwrap_or_else(PoisonError::into_inner)
}
