//! Which task is which: for those who must know whether they would wait for themselves, as a stage
//! whose queue is full of what only it can take out.
//!
//! It costs a task nothing: its waker tells.

use super::cell::{Task, woken_by};
use std::future::{Future, poll_fn};
use std::task::{Poll, Waker};

/// Tells a task from all others that live: as long as the task, its handle or one of its wakers
/// does, no other has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(usize);

impl TaskId {
    pub(super) fn new(task: Task) -> Self {
        TaskId(task.as_ptr().addr())
    }

    /// The task that `waker` wakes; none if it is no task of a pool, as in a `block_on`, or the
    /// waker of another crate that wraps one.
    ///
    /// ```
    /// use creel::task::TaskId;
    /// use std::task::Waker;
    ///
    /// assert_eq!(TaskId::of(Waker::noop()), None);
    /// ```
    pub fn of(waker: &Waker) -> Option<Self> {
        woken_by(waker).map(Self::new)
    }
}

/// The task that awaits this; none in a `block_on`.
///
/// ```
/// use creel::{channel::leaky::{self, Leak, Sender}, task::{self, TaskId}};
///
/// /// Waits for a place, but not where the caller is who takes out.
/// async fn put(tx: &mut Sender<u32>, n: u32, takes: Option<TaskId>) -> bool {
///     match task::id().await == takes {
///         true => tx.try_send(n).is_ok(),
///         false => tx.send(n).await.is_ok(),
///     }
/// }
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let (mut tx, mut rx) = leaky::channel(1, Leak::No);
/// let stage = pool.spawn(async move {
///     let takes = task::id().await;
///     assert!(put(&mut tx, 1, takes).await);
///     assert!(!put(&mut tx, 2, takes).await); // it is full
///     rx.recv().await
/// });
/// let id = stage.id();
/// assert!(id.is_some());
/// assert_eq!(pool.block_on(stage).unwrap(), Ok(1));
/// # Ok::<(), creel::BuildError>(())
/// ```
pub fn id() -> impl Future<Output = Option<TaskId>> {
    poll_fn(|cx| Poll::Ready(TaskId::of(cx.waker())))
}
