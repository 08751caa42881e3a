//! The identity of a task. You need it if a task must not wait for itself. For example, a pipeline
//! stage whose queue is full must not wait for room if only that stage takes items out.
//!
//! An id costs a task nothing, because we derive it from the task's waker.

use super::cell::{Task, woken_by};
use std::future::{Future, poll_fn};
use std::task::{Poll, Waker};

/// The identity of a task. No other task has the same id while the task, its handle or one of its
/// wakers is alive.
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
