//! Handles and views: other `Pool` values for the workers of a pool.
//!
//! | view | differs from the pool |
//! |---|---|
//! | [`Pool::handle`] | does not keep the workers alive |
//! | [`Pool::with_balance`], [`Pool::with_max_workers`], [`Pool::with_site`] | its loops have a different balance, maximum number of workers, or key |
//!
//! The pools of the second row are called *views*. A view of a pool that keeps its workers alive
//! does so as well. A view of a handle is a handle.

use super::{Balance, Owner, Pool, shared::Shared};
use crate::{
    task::Tasks,
    worker::{current, parts::TaskPart},
};
use std::{any::Any, sync::Arc};

impl Pool {
    pub(super) fn new_of(shared: Arc<Shared>, owner: Option<Arc<Owner>>) -> Self {
        Self {
            balance: shared.balance,
            most: usize::MAX,
            site: 0,
            owner,
            shared,
        }
    }

    /// Returns a handle: a `Pool` that shares the workers but does not keep the pool from ending.
    /// Keep a handle, and not a clone, in the pool's own tasks, because a task that owned its pool
    /// would keep it alive for ever.
    ///
    /// After the pool has ended, a handle refuses new work. A spawned task returns
    /// [`JoinError::Spawn`](crate::JoinError::Spawn), [`run_on`](Self::run_on) returns an
    /// error, and a loop, a join or a scope runs on its caller alone.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let handle = pool.handle();
    /// let task = std::thread::spawn(move || handle.spawn(async { 7 })).join().unwrap();
    /// assert_eq!(pool.block_on(task).unwrap(), 7);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn handle(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            balance: self.balance,
            most: self.most,
            site: self.site,
            owner: None,
        }
    }

    /// Returns a `Pool` with the same workers whose loops have a different balance. You can use it
    /// for one call or keep it. Like a clone, it keeps the workers alive, unless `self` is a
    /// [handle](Self::handle). It costs as much as a clone, also in a session.
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
    pub fn with_balance(&self, balance: Balance) -> Self {
        let mut view = self.clone();
        view.balance = balance;
        view
    }

    /// Returns a `Pool` with the same workers. It identifies loops by a number of your choice, in
    /// addition to the place in the source that calls them. Like a clone, it keeps the workers
    /// alive, unless `self` is a [handle](Self::handle).
    ///
    /// A pool learns how long each loop takes, and decides from that whether to share it. It
    /// recognises a loop by the place that calls it and by the type of the closure. If your program
    /// calls many loops through one function that takes a function pointer or a `dyn Fn`, they look
    /// like one loop. Then pass a different number for each of them, for example the address of the
    /// function. You do not need this for generic functions, or for functions that are
    /// `#[track_caller]`.
    ///
    /// The number never changes a result. It costs as much as a clone.
    ///
    /// ```
    /// fn run(pool: &creel::Pool, rows: &mut [u32], job: fn(&mut u32)) {
    ///     pool.with_site(job as usize as u64).for_each(rows, |row| job(row));
    /// }
    ///
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut rows = [1, 2, 3];
    /// run(&pool, &mut rows, |row| *row += 1);
    /// run(&pool, &mut rows, |row| *row *= 10);
    /// assert_eq!(rows, [20, 30, 40]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn with_site(&self, site: u64) -> Self {
        let mut view = self.clone();
        view.site = site;
        view
    }

    /// Returns a `Pool` with the same workers whose loops use at most `workers` of them (and at
    /// least one). Use it for a part of the program that has to leave workers to others, or whose
    /// loops do not become faster with more of them. Like a clone, it keeps the workers alive,
    /// unless `self` is a [handle](Self::handle).
    ///
    /// The limit applies to each loop separately. Tasks, joins and scopes are not limited, and
    /// `workers` and `resize` still refer to the whole pool.
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
    pub fn with_max_workers(&self, workers: usize) -> Self {
        let mut view = self.clone();
        view.most = self.most.min(workers.max(1));
        view
    }

    /// Returns a [handle](Self::handle) to the pool whose code the calling thread runs. This is the
    /// pool of the innermost `block_on`, or otherwise the pool whose worker the thread is. Returns
    /// `None` elsewhere. Note that calling a loop does not put the caller into the pool.
    ///
    /// ```
    /// use creel::Pool;
    ///
    /// let pool = Pool::builder().workers(2).name("mixer").build()?;
    /// assert!(Pool::current().is_none());
    /// let workers = pool.run_on(1, || Pool::current().unwrap().workers()).unwrap();
    /// assert_eq!(workers, 2);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        let worker = || current::worker().map(|(slots, _)| slots);
        let work = Tasks::innermost_slots().or_else(worker)?.work()?;
        let work: Arc<dyn Any + Send + Sync> = work;
        let shared = work.downcast::<Shared>().ok()?;
        Some(Self::new_of(shared, None))
    }

    /// Returns whether the calling thread runs this pool's code, either as its worker or inside its
    /// `block_on`. This includes a `block_on` of another pool inside a `block_on` of this pool. If
    /// this returns true, await instead of calling [`block_on`](Self::block_on), which would panic.
    ///
    /// ```
    /// use creel::Pool;
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let other = Pool::builder().workers(1).build()?;
    /// assert!(!pool.is_current());
    /// assert!(pool.run_on(0, || pool.is_current() && !other.is_current()).unwrap());
    /// assert!(pool.block_on(async { other.block_on(async { pool.is_current() }) }));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_current(&self) -> bool {
        let tasks = &*self.shared.tasks;
        current::index_in(&self.shared.slots).is_some()
            || tasks.is_run_by_this_thread()
            || tasks.is_in_context()
    }
}
