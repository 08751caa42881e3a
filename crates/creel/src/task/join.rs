//! The handle of a task, which you use to wait for the task's output, to abort it, or to detach it.
//!
//! The output stays in the task's cell (`cell.rs`) until the handle takes it. The task's state word
//! decides which thread may access the output and the handle's waker (`state.rs`).

use super::cell::{Payload, Task};
use super::id::TaskId;
use crate::worker::budget;
use crate::worker::error::WorkerError;
use crate::worker::stored_waker::StoredWaker;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The reason why a task has no output.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::JoinError;
///
/// let task = pool.spawn(std::future::pending::<()>());
/// task.abort();
/// assert!(matches!(pool.block_on(task), Err(JoinError::Cancelled)));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[non_exhaustive]
pub enum JoinError {
    /// The task's future was dropped before it was ready. Either [`JoinHandle::abort`] or an
    /// [`AbortOnDrop`] cancelled the task, or nothing could wake it any more, or its pool was
    /// dropped.
    Cancelled,
    /// The task was not spawned. Its pool was shutting down, the OS refused a thread that the task
    /// needed, or the pool has no worker with the index that you asked for. The future was dropped.
    Spawn(WorkerError),
    /// The task panicked while it was polled, or while its future was dropped.
    Panicked(Panic),
}

/// The panic of a task, with its payload.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::JoinError;
///
/// let task = pool.spawn(async { if true { panic!("on purpose") } });
/// let Err(JoinError::Panicked(panic)) = pool.block_on(task) else { unreachable!() };
/// assert_eq!(panic.message(), Some("on purpose"));
/// # Ok::<(), creel::BuildError>(())
/// ```
pub struct Panic(Payload);

// SAFETY: through a shared reference, `Panic` gives access only to the text of the payload, and
// only if the payload is a `&'static str` or a `String`, which are both `Sync`.
unsafe impl Sync for Panic {}

impl Panic {
    /// Returns the payload of the panic. You can inspect it, or continue the panic with
    /// [`std::panic::resume_unwind`].
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::JoinError;
    ///
    /// let task = pool.spawn(async { std::panic::resume_unwind(Box::new(7)) });
    /// let Err(JoinError::Panicked(panic)) = pool.block_on::<_>(task).map(|()| ()) else { unreachable!() };
    /// assert_eq!(panic.into_payload().downcast_ref(), Some(&7));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn into_payload(self) -> Box<dyn std::any::Any + Send> {
        self.0
    }

    /// Returns the message of the panic, or `None` if the payload is not a string.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::JoinError;
    ///
    /// let task = pool.spawn(async { if true { panic!("number {}", 7) } });
    /// match pool.block_on(task) {
    ///     Err(JoinError::Panicked(panic)) => assert_eq!(panic.message(), Some("number 7")),
    ///     other => unreachable!("{other:?}"),
    /// }
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn message(&self) -> Option<&str> {
        let text = self.0.downcast_ref::<&'static str>().copied();
        text.or_else(|| self.0.downcast_ref::<String>().map(String::as_str))
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message()).finish()
    }
}

impl JoinError {
    pub(super) fn panicked(payload: Payload) -> Self {
        Self::Panicked(Panic(payload))
    }

    /// Returns whether the task was [cancelled](Self::Cancelled).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let task = pool.spawn(std::future::pending::<()>());
    /// task.abort();
    /// assert!(pool.block_on(task).unwrap_err().is_cancelled());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// Returns whether the task [panicked](Self::Panicked).
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let task = pool.spawn(async { if true { panic!("on purpose") } });
    /// assert!(pool.block_on(task).unwrap_err().is_panic());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the task was cancelled"),
            Self::Spawn(_) => f.write_str("the task was not spawned"),
            Self::Panicked(panic) => match panic.message() {
                Some(text) => write!(f, "the task panicked: {text}"),
                None => f.write_str("the task panicked"),
            },
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A program that calls `unwrap` sees only this text, so it contains the cause.
            Self::Spawn(error) => write!(f, "JoinError({self}: {error:?})"),
            Self::Cancelled | Self::Panicked(_) => write!(f, "JoinError({self})"),
        }
    }
}

impl std::error::Error for JoinError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Spawn(error) => Some(error),
            _ => None,
        }
    }
}

/// A handle to a task, and a future of its output, `Result<T, JoinError>`.
///
/// Dropping the handle detaches the task, which then continues on its own, as with `std` and tokio.
/// To cancel the task, call [`abort`](Self::abort), or keep an [`AbortOnDrop`] instead of the
/// handle. You can drop a pending `.await` on `&mut handle` without losing the output, because the
/// handle still owns it.
///
/// # Panics
///
/// Polling the handle panics if it has already returned the output.
///
/// ```
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let (sender, receiver) = creel::channel::oneshot::channel();
/// drop(pool.spawn(async move { sender.send(7) }));
/// assert_eq!(pool.block_on(receiver), Ok(7));
/// # Ok::<(), creel::BuildError>(())
/// ```
pub struct JoinHandle<T> {
    /// The task. It is `None` if the handle has returned the output, the task has been detached, or
    /// the task was never spawned.
    task: Option<Task>,
    /// The reason why the task was not spawned, until the handle returns this reason.
    refused: Option<WorkerError>,
    /// Whether the handle has put a waker into the cell and not taken it back.
    joining: bool,
    output: PhantomData<T>,
}

// SAFETY: the handle moves the output between threads, which is why `T` must be `Send`. The state
// word guards everything else in the cell, and only a thread that has claimed the task touches the
// future.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: through a shared reference, the handle can only cancel the task and read the state word.
unsafe impl<T: Send> Sync for JoinHandle<T> {}
impl<T> Unpin for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// Creates the handle of a new task. The task's state word already counts this handle.
    pub(super) fn new(task: Task) -> Self {
        Self {
            task: Some(task),
            refused: None,
            joining: false,
            output: PhantomData,
        }
    }

    /// Creates the handle of a task that was not spawned for the given reason.
    pub(crate) fn not_spawned(error: WorkerError) -> Self {
        Self {
            task: None,
            refused: Some(error),
            joining: false,
            output: PhantomData,
        }
    }

    /// Detaches the task, which then continues on its own. Its output, or its panic, is dropped
    /// when it ends. Dropping the handle does the same, but this method says so explicitly.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (tx, rx) = creel::channel::oneshot::channel();
    /// pool.spawn(async { tx.send(7).unwrap() }).detach();
    /// assert_eq!(rx.recv_blocking(), Ok(7));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn detach(self) {}

    /// Converts the handle into an [`AbortOnDrop`], which cancels the task when you drop it.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let (sender, receiver) = creel::channel::oneshot::channel::<()>();
    /// let task = pool.spawn(async move {
    ///     std::future::pending::<()>().await;
    ///     sender.send(())
    /// });
    /// drop(task.abort_on_drop());
    /// assert!(pool.block_on(receiver).is_err()); // its sender was dropped with the future
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn abort_on_drop(self) -> AbortOnDrop<T> {
        AbortOnDrop(self)
    }

    /// Asks the pool to cancel the task, and returns at once without waiting for it.
    ///
    /// A thread that runs tasks of the pool then drops the task's future. A poll that is under way
    /// is not interrupted. For example, a loop without an await point runs to its end. When you
    /// await the handle afterwards, it returns [`JoinError::Cancelled`] once the future has been
    /// dropped. However, it returns the output if the task completed first. Aborting a task that
    /// has ended has no effect.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let task = pool.spawn(std::future::pending::<()>());
    /// task.abort();
    /// assert!(pool.block_on(task).is_err());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn abort(&self) {
        if let Some(task) = self.task
            && let Some(then) = task.state().cancel()
        {
            // SAFETY: `cancel` returned this action, and the handle keeps the cell alive.
            unsafe { task.follow(then) };
        }
    }

    /// Returns the task's id, or `None` if the task was not spawned or its output has been taken.
    pub fn id(&self) -> Option<TaskId> {
        self.task.map(TaskId::new)
    }

    /// Returns whether the task has ended, so that awaiting the handle returns at once.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let task = pool.spawn(async { 7 });
    /// while !task.is_finished() {
    ///     std::thread::yield_now();
    /// }
    /// assert_eq!(pool.block_on(task).unwrap(), 7);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn is_finished(&self) -> bool {
        self.task.is_none_or(|task| task.state().is_complete())
    }

    /// Takes the output of a task that is complete.
    fn take(&mut self, task: Task) -> Result<T, JoinError> {
        self.task = None;
        // SAFETY: the task is complete and the handle is alive, so the output is there and belongs
        // to the handle.
        let output = unsafe { task.take_output() };
        let then = task.state().drop_handle_after_output();
        // SAFETY: `drop_handle_after_output` returned this action.
        unsafe { task.follow(then) };
        output
    }

    /// Releases the handle's share of the cell.
    fn leave(&mut self) {
        let Some(task) = self.task.take() else { return };
        if self.joining && task.state().clear_joiner() {
            // SAFETY: `clear_joiner` returned true, so the waker belongs to the handle again.
            drop(unsafe { task.take_joiner() });
        }
        let then = task.state().drop_handle().unwrap_or_else(|| {
            // SAFETY: the task is complete and the handle is alive.
            unsafe { task.drop_output() };
            task.state().drop_handle_after_output()
        });
        // SAFETY: `drop_handle` or `drop_handle_after_output` returned this action.
        unsafe { task.follow(then) };
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// Returns the task's output, or the reason why the task has none.
    ///
    /// # Panics
    ///
    /// Panics if it has already returned the output.
    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if budget::is_spent(context) {
            return Poll::Pending;
        }
        if let Some(error) = self.refused.take() {
            budget::use_up(1);
            return Poll::Ready(Err(JoinError::Spawn(error)));
        }
        let task = self.task.expect("the future was polled after it was ready");
        if task.state().is_complete() {
            budget::use_up(1);
            return Poll::Ready(self.take(task));
        }
        // We clone the waker first, because cloning can panic and must not do so between the steps
        // below.
        let waker = StoredWaker::new(context.waker());
        if self.joining {
            self.joining = false;
            if !task.state().clear_joiner() {
                budget::use_up(1);
                return Poll::Ready(self.take(task));
            }
            // SAFETY: `clear_joiner` returned true, so the waker belongs to the handle again.
            drop(unsafe { task.take_joiner() });
        }
        // SAFETY: `JOINER` is not set, so the waker's place is empty and belongs to the handle.
        unsafe { task.put_joiner(waker) };
        if task.state().set_joiner() {
            self.joining = true;
            return Poll::Pending;
        }
        // SAFETY: the task completed before `set_joiner`, so the waker still belongs to the handle.
        drop(unsafe { task.take_joiner() });
        budget::use_up(1);
        Poll::Ready(self.take(task))
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("finished", &self.is_finished())
            .finish()
    }
}

/// A [`JoinHandle`] that cancels its task when it is dropped. For example, a struct can keep one
/// for its background task, which is then cancelled with the struct. The drop does not wait for the
/// task's future to be dropped.
///
/// Like the handle, it is a future of the task's output.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::task::AbortOnDrop;
///
/// /// Ends with whoever has it.
/// struct Poller { _task: AbortOnDrop<()> }
///
/// let task = pool.spawn(std::future::pending()).abort_on_drop();
/// drop(Poller { _task: task });
/// # Ok::<(), creel::BuildError>(())
/// ```
#[must_use = "dropping the handle cancels its task"]
#[derive(Debug)]
pub struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    /// Returns the plain handle. Dropping that handle detaches the task and does not cancel it.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let guarded = pool.spawn(async { 7 }).abort_on_drop();
    /// assert_eq!(pool.block_on(guarded.into_handle()).unwrap(), 7);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn into_handle(mut self) -> JoinHandle<T> {
        let gone = JoinHandle {
            task: None,
            refused: None,
            joining: false,
            output: PhantomData,
        };
        std::mem::replace(&mut self.0, gone)
    }

    /// Asks the pool to cancel the task, as [`JoinHandle::abort`] does.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let guarded = pool.spawn(std::future::pending::<()>()).abort_on_drop();
    /// guarded.abort();
    /// assert!(pool.block_on(guarded.into_handle()).is_err());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Returns the task's id, as [`JoinHandle::id`] does.
    pub fn id(&self) -> Option<TaskId> {
        self.0.id()
    }

    /// Returns whether the task has ended, as [`JoinHandle::is_finished`] does.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let guarded = pool.spawn(async {}).abort_on_drop();
    /// while !guarded.is_finished() {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    /// Returns the task's output, or the reason why the task has none.
    ///
    /// # Panics
    ///
    /// Panics if it has already returned the output.
    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
