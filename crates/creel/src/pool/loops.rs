//! The loop verbs' place on a pool. The verbs themselves are in `crate::loops`, above this.

use super::{Balance, Pool, shared::Shared};
use std::{fmt, ops::Deref, sync::Arc};

/// The loop verbs of a [`Pool`], with one [`Balance`].
///
/// A pool dereferences to the one with its own balance, so `pool.map(…)` is the usual spelling;
/// [`Pool::with`] gives the one with another balance, for a call.
pub struct Loops {
    pub(crate) shared: Arc<Shared>,
    pub(crate) balance: Balance,
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
            .field("pool", &self.shared.seats.name)
            .field("balance", &self.balance)
            .finish_non_exhaustive()
    }
}
