//! How a loop gets to the workers and back, without a word of what it does.
//!
//! `call` (the words), `closure` (what is called), `share` (a worker's line), `dispatch` (down and
//! up), `groups` and `join` (the caller's wait), `shared_jobs` (what is shared with whoever is idle), `places`
//! (the shares of workers that are elsewhere);
//! `slot` with `call_sites` and `exclusion` is what the callers of loops remember.

pub(crate) mod call;
pub(super) mod call_sites;
pub(super) mod closure;
pub(crate) mod dispatch;
pub(super) mod exclusion;
mod groups;
pub(super) mod join;
pub(super) mod loop_lock;
#[cfg(all(test, loom))]
mod model;
pub(super) mod places;
pub(crate) mod share;
pub(crate) mod shared_jobs;

use crate::{
    sync::Mutex,
    worker::{slots::WorkerSlots, table::Table},
};
use crossbeam_utils::CachePadded;
use dispatch::LoopMailbox;
use share::Share;
use shared_jobs::SharedJobs;
use std::sync::Arc;

/// A pool's part of the loop protocol.
pub(crate) struct Protocol {
    pub(crate) slots: Arc<WorkerSlots>,
    pub(crate) mailbox: LoopMailbox,
    /// By worker: its lines.
    pub(crate) shares: Table<CachePadded<Share>>,
    pub(crate) shared_jobs: CachePadded<SharedJobs>,
    /// The slot: who holds it may call a loop.
    pub(super) lock: CachePadded<Mutex<loop_lock::LoopState>>,
}

impl Protocol {
    pub(crate) fn new(slots: Arc<WorkerSlots>) -> Self {
        Self {
            slots,
            mailbox: LoopMailbox::new(),
            shares: Table::new(|_| CachePadded::new(Share::new())),
            shared_jobs: CachePadded::new(SharedJobs::new()),
            lock: CachePadded::default(),
        }
    }

    /// A thread has ended, or may.
    pub(crate) fn forget_threads(&self) {
        self.mailbox.forget_threads();
    }
}
