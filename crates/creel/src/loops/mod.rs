//! Fork-join loops: the items of a slice shared out among the workers while the caller waits.
//!
//! The invariant: each item is visited exactly once, by one thread, before the call returns; so
//! the outcome has the same bits at any number of workers and under any [`Balance`]. When a
//! closure panics, the items not yet begun may be left out, and the first panic is re-thrown at
//! the caller after everything that was begun has ended.
//!
//! Every closure is told the item's index first. A loop that is called while the pool runs
//! another one (nested, from a worker, from a second thread) runs on its own thread, and is offered
//! to who is idle: never blocked. Left out on purpose: adaptors and lazy chains; a loop is a call.

mod bench;
mod body;
mod collect;
pub(crate) mod dispatch;
mod fold;
mod gather;
mod join;
#[cfg(all(test, loom))]
mod model;
mod nested;
pub(crate) mod offers;
mod outbox;
mod proof;
mod run;
mod scope;
mod scratch;
mod session;
pub(crate) mod share;
mod sites;
mod split;
mod verbs;
mod wait;
mod words;

pub use outbox::{Addressed, Outbox, Outboxes, Post};
pub use scope::Scope;
pub use scratch::Scratch;

use crate::pool::{Balance, Pool, shared::Shared};
use std::{fmt, ops::Deref, sync::Arc};

/// The loop verbs of a [`Pool`], with one [`Balance`].
///
/// A pool dereferences to the one with its own balance, so `pool.map(…)` is the usual spelling;
/// [`Pool::with`] gives the one with another balance, for a call.
pub struct Loops {
    shared: Arc<Shared>,
    balance: Balance,
}

/// One [`Loops`] a balance, so that choosing one costs nothing.
pub(crate) struct LoopsByBalance([Loops; 3]);

impl LoopsByBalance {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let all = [Balance::Fixed, Balance::Sticky, Balance::Shared];
        Self(all.map(|balance| Loops {
            shared: Arc::clone(shared),
            balance,
        }))
    }

    fn get(&self, balance: Balance) -> &Loops {
        match balance {
            Balance::Fixed => &self.0[0],
            Balance::Sticky => &self.0[1],
            Balance::Shared => &self.0[2],
        }
    }
}

impl Pool {
    /// The loop verbs under another balance than the pool's own. Costs nothing.
    ///
    /// ```
    /// use creel::{Balance, Pool};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let songs = ["a long one", "a short one", "short"];
    /// let lengths = pool.with(Balance::Shared).map(&songs, |_, song| song.len());
    /// assert_eq!(lengths, [10, 11, 5]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn with(&self, balance: Balance) -> &Loops {
        self.loops.get(balance)
    }
}

impl Deref for Pool {
    type Target = Loops;

    fn deref(&self) -> &Loops {
        self.with(self.shared.balance)
    }
}

impl fmt::Debug for Loops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loops")
            .field("pool", &self.shared.name)
            .field("balance", &self.balance)
            .finish_non_exhaustive()
    }
}
