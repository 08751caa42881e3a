//! Sets of tasks, which you await in the order in which they end, and abort together.
//!
//! Each member has a waker of its own, which records the member's number. A caller that waits
//! therefore polls only the handles of members that may have ended.

use super::join::{JoinError, JoinHandle};
use super::spawn::spawn;
use crate::worker::budget;
use crate::worker::stored_waker::StoredWaker;
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A set of tasks, whose outputs you take in the order in which the tasks end. Use it if you spawn
/// a number of tasks that is not known in advance, and want to handle each result as soon as it is
/// there.
///
/// Dropping the set aborts the tasks that are left in it, and does not wait for them. To let them
/// continue instead, call [`detach_all`](Self::detach_all) first.
///
/// ```
/// use creel::task::JoinSet;
///
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let sum = pool.block_on(async {
///     let mut squares = JoinSet::new();
///     (1..=10).for_each(|n| squares.spawn(async move { n * n }));
///     let mut sum = 0;
///     while let Some(square) = squares.join_next().await {
///         sum += square.unwrap();
///     }
///     sum
/// });
/// assert_eq!(sum, 385);
/// # Ok::<(), creel::BuildError>(())
/// ```
pub struct JoinSet<T> {
    members: Vec<Option<Member<T>>>,
    free: Vec<usize>,
    ended: Arc<Mutex<Ended>>,
}

struct Member<T> {
    handle: JoinHandle<T>,
    waker: Waker,
}

/// The numbers of the members that must be polled, because they are new or may have ended. `waiter`
/// is the waker of the caller that waits for a member to end.
#[derive(Default)]
struct Ended {
    numbers: VecDeque<usize>,
    waiter: Option<StoredWaker>,
}

struct Note {
    number: usize,
    ended: Arc<Mutex<Ended>>,
}

fn lock(ended: &Mutex<Ended>) -> MutexGuard<'_, Ended> {
    ended.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        let mut ended = lock(&self.ended);
        ended.numbers.push_back(self.number);
        let waiter = ended.waiter.take();
        drop(ended);
        if let Some(waker) = waiter {
            waker.wake();
        }
    }
}

impl<T> JoinSet<T> {
    /// Creates an empty set.
    ///
    /// ```
    /// let set = creel::task::JoinSet::<u32>::new();
    /// assert!(set.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        JoinSet {
            members: Vec::new(),
            free: Vec::new(),
            ended: Arc::default(),
        }
    }

    /// Adds a task to the set. The task can belong to any pool, for example to another pool than
    /// the other members.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let mut set = creel::task::JoinSet::new();
    /// set.add(pool.spawn(async { 7 }));
    /// assert_eq!(pool.block_on(set.join_next()).unwrap().unwrap(), 7);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn add(&mut self, handle: JoinHandle<T>) {
        let number = self.free.pop().unwrap_or(self.members.len());
        let waker = Waker::from(Arc::new(Note {
            number,
            ended: Arc::clone(&self.ended),
        }));
        // This wake puts the new member's number into the list, so that the next poll registers the
        // member's waker with its handle.
        waker.wake_by_ref();
        let member = Some(Member { handle, waker });
        match self.members.get_mut(number) {
            Some(place) => *place = member,
            None => self.members.push(member),
        }
    }

    /// Returns the number of tasks in the set, which are those whose output has not been taken.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut set = creel::task::JoinSet::new();
    /// set.add(pool.spawn(async { 7 }));
    /// assert_eq!(set.len(), 1);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len() - self.free.len()
    }

    /// Returns whether the set is empty, which means that all outputs have been taken.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut set = creel::task::JoinSet::new();
    /// set.add(pool.spawn(async { 7 }));
    /// pool.block_on(set.join_next());
    /// assert!(set.is_empty());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for the next task to end, and returns its output. Returns `None` if the set is empty.
    ///
    /// This method is cancel-safe. If you drop its future, no output is lost.
    ///
    /// # Errors
    ///
    /// The inner result is an error if that task has no output, for example because it panicked.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut set = creel::task::JoinSet::new();
    /// for n in 0..10 {
    ///     set.add(pool.spawn(async move { n }));
    /// }
    /// let sum = pool.block_on(async {
    ///     let mut sum = 0;
    ///     while let Some(n) = set.join_next().await {
    ///         sum += n.unwrap();
    ///     }
    ///     sum
    /// });
    /// assert_eq!(sum, 45);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// Polls for the next task to end, as [`join_next`](Self::join_next) does. Use it in futures
    /// that you write by hand.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use std::future::poll_fn;
    ///
    /// let mut set = creel::task::JoinSet::new();
    /// set.add(pool.spawn(async { 7 }));
    /// let next = pool.block_on(poll_fn(|cx| set.poll_join_next(cx)));
    /// assert_eq!(next.unwrap().unwrap(), 7);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        // We check the budget here. A member's handle that found the budget spent would wake its
        // own waker, which records the member again. This loop would then poll it again and again.
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        let mut fresh = Some(StoredWaker::new(cx.waker()));
        loop {
            let mut ended = lock(&self.ended);
            let Some(number) = ended.numbers.pop_front() else {
                let before = std::mem::replace(&mut ended.waiter, fresh.take());
                drop(ended);
                drop(before);
                return Poll::Pending;
            };
            drop(ended);
            // A number may be out of date: it was recorded twice, its member has gone, or a newer
            // member has taken its place. A poll of a newer member is harmless.
            let Some(member) = self.members.get_mut(number).and_then(Option::as_mut) else {
                continue;
            };
            let Member { handle, waker } = member;
            let polled = Pin::new(handle).poll(&mut Context::from_waker(waker));
            if let Poll::Ready(output) = polled {
                self.members[number] = None;
                self.free.push(number);
                return Poll::Ready(Some(output));
            }
        }
    }

    /// Asks the pools to cancel all tasks of the set, and returns at once. The tasks stay in the
    /// set, so you can still join them.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut set = creel::task::JoinSet::new();
    /// set.add(pool.spawn(std::future::pending::<()>()));
    /// set.abort_all();
    /// assert!(pool.block_on(set.join_next()).unwrap().is_err());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn abort_all(&self) {
        for member in self.members.iter().flatten() {
            member.handle.abort();
        }
    }

    /// Removes all tasks from the set without aborting them. They continue on their own.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (tx, rx) = creel::channel::oneshot::channel();
    /// let mut set = creel::task::JoinSet::new();
    /// set.add(pool.spawn(async { tx.send(7).unwrap() }));
    /// set.detach_all();
    /// assert_eq!((set.len(), rx.recv_blocking()), (0, Ok(7)));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn detach_all(&mut self) {
        // The wakers of the detached tasks keep the old list. They record their numbers there, and
        // the list is freed with them.
        let ended = std::mem::take(&mut self.ended);
        self.free.clear();
        self.members.clear();
        let waiter = lock(&ended).waiter.take();
        if let Some(waker) = waiter {
            waker.wake();
        }
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Spawns a task and adds it to the set. As with [`task::spawn`](super::spawn()), the task
    /// belongs to the pool whose task, worker or `block_on` calls this.
    ///
    /// # Panics
    ///
    /// Panics outside of a pool.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let sum = pool.block_on(async {
    ///     let mut set = creel::task::JoinSet::new();
    ///     set.spawn(async { 3 });
    ///     set.spawn(async { 4 });
    ///     let (a, b) = (set.join_next().await, set.join_next().await);
    ///     a.unwrap().unwrap() + b.unwrap().unwrap()
    /// });
    /// assert_eq!(sum, 7);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn spawn(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.add(spawn(future));
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.abort_all();
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish()
    }
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn a_set_keeps_no_entries_of_detached_tasks() {
        let pool = Pool::builder().workers(1).build().expect("in range");
        let mut set = JoinSet::new();
        for _ in 0..100 {
            set.add(pool.spawn(async {}));
            set.detach_all();
        }
        assert_eq!(lock(&set.ended).numbers.len(), 0);
        set.add(pool.spawn(async {}));
        assert!(pool.block_on(set.join_next()).is_some_and(|it| it.is_ok()));
    }
}
