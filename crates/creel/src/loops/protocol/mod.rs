//! The protocol by which a caller shares a loop with the workers and waits for them. It does not
//! know what the loop's closure does.
//!
//! | module | contents |
//! |---|---|
//! | `call` | the words that the threads exchange |
//! | `closure` | the closure of a loop |
//! | `share` | the cache lines of one worker |
//! | `dispatch` | publishing a loop and taking part in it |
//! | `wake_tree` | which worker wakes which other one |
//! | `groups`, `join` | how the caller waits for the workers |
//! | `forks`, `deque`, `cutoff` | the second closures of joins, which idle workers steal |
//! | `wake_throttle` | how often a thread notifies idle workers of its forks and of its scope's jobs |
//! | `shared_jobs` | jobs that any idle worker helps with |
//! | `places` | the shares of workers that run other code |
//! | `loop_lock`, `call_sites`, `exclusion` | the data that callers keep between loops |

pub(crate) mod call;
pub(super) mod call_sites;
pub(super) mod closure;
pub(super) mod cutoff;
mod deque;
pub(crate) mod dispatch;
pub(super) mod exclusion;
pub(crate) mod forks;
mod groups;
pub(super) mod join;
pub(super) mod loop_lock;
#[cfg(all(test, creel_loom))]
mod model;
pub(super) mod places;
pub(crate) mod share;
pub(crate) mod shared_jobs;
pub(super) mod wake_throttle;
pub(super) mod wake_tree;

use crate::{
    sync::Mutex,
    worker::{slots::WorkerSlots, table::Table},
};
use crossbeam_utils::CachePadded;
use dispatch::LoopMailbox;
use forks::Forks;
use share::Share;
use shared_jobs::SharedJobs;
use std::sync::Arc;

/// The part of a pool that belongs to the loop protocol.
pub(crate) struct Protocol {
    pub(crate) slots: Arc<WorkerSlots>,
    pub(crate) mailbox: LoopMailbox,
    /// The share of each worker.
    pub(crate) shares: Table<CachePadded<Share>>,
    pub(crate) shared_jobs: CachePadded<SharedJobs>,
    pub(crate) forks: CachePadded<Forks>,
    /// The loop lock. The thread that holds it may publish a loop.
    pub(super) lock: CachePadded<Mutex<loop_lock::LoopState>>,
}

impl Protocol {
    pub(crate) fn new(slots: Arc<WorkerSlots>) -> Self {
        Self {
            forks: CachePadded::new(Forks::new(&slots)),
            slots,
            mailbox: LoopMailbox::new(),
            shares: Table::new(|_| CachePadded::new(Share::new())),
            shared_jobs: CachePadded::new(SharedJobs::new()),
            lock: CachePadded::default(),
        }
    }

    /// Forgets which workers are known to have threads. It is called when a thread has ended or may
    /// end.
    pub(crate) fn forget_threads(&self) {
        self.mailbox.forget_threads();
    }
}
