//! How a loop gets to the workers and back, without a word of what it does.
//!
//! `call` (the words), `closure` (what is called), `share` (a seat's line), `dispatch` (down and
//! up), `groups` and `join` (the caller's wait), `offers` (what is shared with whoever is idle), `places`
//! (the shares of workers that are elsewhere);
//! `slot` with `call_sites` and `sit_out` is what the callers of loops remember.

pub(crate) mod call;
pub(super) mod call_sites;
pub(super) mod closure;
pub(crate) mod dispatch;
mod groups;
pub(super) mod join;
#[cfg(all(test, loom))]
mod model;
pub(crate) mod offers;
pub(super) mod places;
pub(crate) mod share;
pub(super) mod sit_out;
pub(super) mod slot;

use crate::{
    seat::{seats::Seats, table::Table},
    sync::Mutex,
};
use crossbeam_utils::CachePadded;
use dispatch::Line;
use offers::Offers;
use share::Share;
use std::sync::Arc;

/// A pool's part of the loop protocol.
pub(crate) struct Protocol {
    pub(crate) seats: Arc<Seats>,
    pub(crate) line: Line,
    /// By seat: its lines.
    pub(crate) shares: Table<CachePadded<Share>>,
    pub(crate) offers: CachePadded<Offers>,
    /// The slot: who holds it may call a loop.
    pub(super) slot: CachePadded<Mutex<slot::Slot>>,
}

impl Protocol {
    pub(crate) fn new(seats: Arc<Seats>) -> Self {
        Self {
            seats,
            line: Line::new(),
            shares: Table::new(|_| CachePadded::new(Share::new())),
            offers: CachePadded::new(Offers::new()),
            slot: CachePadded::default(),
        }
    }

    /// A thread has ended, or may.
    pub(crate) fn forget_threads(&self) {
        self.line.forget_threads();
    }
}
