//! The identity of a task. You need it if a task must not wait for itself. For example, a pipeline
//! stage whose queue is full must not wait for room if only that stage takes items out.
//!
//! An id costs a task nothing, because we derive it from the task's waker.

use super::cell::{Task, woken_by};
use std::future::{Future, poll_fn};
use std::task::{Poll, Waker};

/// The identity of a task. To get the identity of a task, await [`id`] in the task. No other task
/// has the same id while the task, its handle or one of its wakers is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(usize);

impl TaskId {
    pub(super) fn new(task: Task) -> Self {
        TaskId(task.as_ptr().addr())
    }

    /// Returns the id of the task that `waker` wakes. Returns `None` if the waker does not belong
    /// to a task of a pool, as in `block_on`, or if another crate has wrapped it.
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

/// Returns the id of the task that awaits this future, or `None` in `block_on`.
///
/// ```
/// use creel::{channel::bounded::{self, Sender}, task::{self, TaskId}};
///
/// /// Waits until there is room, except in the task that makes the room.
/// async fn put(tx: &Sender<u32>, n: u32, takes: Option<TaskId>) -> bool {
///     match task::id().await == takes {
///         true => tx.try_send(n).is_ok(),
///         false => tx.send(n).await.is_ok(),
///     }
/// }
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let (tx, rx) = bounded::channel(1);
/// let stage = pool.spawn(async move {
///     let takes = task::id().await;
///     assert!(put(&tx, 1, takes).await);
///     assert!(!put(&tx, 2, takes).await); // it is full
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
