//! A pool for those who do not own it: kept, passed on, with a balance or a lease of its own.
//!
//! A handle is a [`Pool`] that does not end the workers when it is dropped, so it has all of a
//! pool's verbs, and there is one set of them.

use super::{Balance, Pool, shared::Shared};
use crate::{
    seat::current,
    task::{holds_a_desk_of, innermost_seats, is_inside},
};
use std::{any::Any, fmt, ops::Deref, sync::Arc};

/// A pool that somebody else owns: it has all verbs of a [`Pool`], can be cloned, and does not keep
/// the pool's threads.
///
/// Once the pool is dropped, it refuses: a spawned task gives
/// [`JoinError::Refused`](crate::JoinError::Refused), a loop, a join or a scope runs on its caller
/// alone, [`resize`](Pool::resize) gives an error, and what needs a certain worker panics. A drop of
/// the pool waits for each [`block_on`](Pool::block_on) of a handle that has begun.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let handle = pool.handle();
/// let sum = std::thread::spawn(move || handle.sum(0..100, |n| n));
/// assert_eq!(sum.join().unwrap(), 4950);
/// # Ok::<(), creel::BuildError>(())
/// ```
pub struct Handle(Pool);

impl Pool {
    pub(super) fn new_of(shared: Arc<Shared>, owns: bool) -> Self {
        Self {
            balance: shared.balance,
            most: usize::MAX,
            owns,
            shared,
        }
    }

    fn lent(&self, balance: Balance, most: usize) -> Handle {
        Handle(Self {
            shared: Arc::clone(&self.shared),
            balance,
            most,
            owns: false,
        })
    }

    /// A handle, which other threads keep to give this pool work.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let handle = pool.handle();
    /// let task = std::thread::spawn(move || handle.spawn(async { 7 })).join().unwrap();
    /// assert_eq!(pool.block_on(task).unwrap(), 7);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.lent(self.balance, self.most)
    }

    /// The same pool, whose loops have another balance than its own: for a call, or to be kept.
    /// It costs no more than a count of references, in a session too.
    ///
    /// ```
    /// use creel::{Balance, Pool};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let songs = ["a long one", "a short one", "short"];
    /// let lengths = pool.with_balance(Balance::Shared).map(&songs, |song| song.len());
    /// assert_eq!(lengths, [10, 11, 5]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn with_balance(&self, balance: Balance) -> Handle {
        self.lent(balance, self.most)
    }

    /// A lease: the same pool, whose loops take no more than `workers` of its workers (at least
    /// one, and no more than this one has). For a part of the program that shall leave the others
    /// some, or whose loops do not get faster beyond.
    ///
    /// It bounds each loop by itself; tasks, joins and scopes are not bounded, and `workers` and
    /// `resize` are the whole pool's.
    ///
    /// ```
    /// use std::{collections::HashSet, thread};
    ///
    /// let pool = creel::Pool::builder().workers(4).build()?;
    /// let few = pool.with_max_workers(2);
    /// let threads = few.map(0..1000, |_| thread::current().id());
    /// assert!(threads.into_iter().collect::<HashSet<_>>().len() <= 2);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn with_max_workers(&self, workers: usize) -> Handle {
        self.lent(self.balance, self.most.min(workers.max(1)))
    }

    /// The pool whose code the calling thread runs: that of the `block_on` that it is in, of
    /// several the innermost, or else the one whose worker it is. None elsewhere; the caller of a
    /// loop is not in the pool for that.
    ///
    /// ```
    /// use creel::Pool;
    ///
    /// let pool = Pool::builder().workers(2).name("mixer").build()?;
    /// assert!(Pool::current().is_none());
    /// let workers = pool.run_on(1, || Pool::current().unwrap().workers());
    /// assert_eq!(workers, 2);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn current() -> Option<Handle> {
        let worker = || current::worker().map(|(seats, _)| seats);
        let work = innermost_seats().or_else(worker)?.work()?;
        let work: Arc<dyn Any + Send + Sync> = work;
        let shared = work.downcast::<Shared>().ok()?;
        Some(Handle(Self::new_of(shared, false)))
    }

    /// Whether the calling thread runs this pool's code: as its worker, or in its `block_on`, also
    /// one around another pool's. There one awaits: a [`block_on`](Self::block_on) of it panics.
    ///
    /// ```
    /// use creel::Pool;
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let other = Pool::builder().workers(1).build()?;
    /// assert!(!pool.is_current());
    /// assert!(pool.run_on(0, || pool.is_current() && !other.is_current()));
    /// assert!(pool.block_on(async { other.block_on(async { pool.is_current() }) }));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_current(&self) -> bool {
        let tasks = &*self.shared.tasks;
        current::index_in(&self.shared.seats).is_some()
            || holds_a_desk_of(tasks)
            || is_inside(tasks)
    }
}

impl Deref for Handle {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.0
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        self.0.handle()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("pool", &self.shared.seats.name)
            .finish_non_exhaustive()
    }
}
