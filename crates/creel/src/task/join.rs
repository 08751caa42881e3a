//! The handle of a task: to wait for its output, to cancel it, or to let it go.

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

/// Why a task has no output.
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
pub enum JoinError {
    /// Its future was dropped before it was ready: by [`JoinHandle::abort`] or a
    /// [`AbortOnDrop`], because nothing could wake it any more, or because its pool was dropped.
    Cancelled,
    /// Its pool was shutting down when it was to be spawned.
    Refused,
    /// The system refused the pool its first thread, or the one that the task is bound to, for
    /// this reason. The future was dropped.
    NoThread(std::io::Error),
    /// The worker to which the task was to be bound did not take it. The future was dropped.
    Worker(WorkerError),
    /// Its poll, or its future's drop, panicked.
    Panicked(Panic),
}

/// What a task panicked with.
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

// SAFETY: shared, it gives no reference to the payload but to its text, if it is a `&'static str`
// or a `String`, which are `Sync`.
unsafe impl Sync for Panic {}

impl Panic {
    /// The payload, to look at it or to go on with the panic by [`std::panic::resume_unwind`].
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

    /// What the panic said, if it said it in words.
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
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the task was cancelled"),
            Self::Refused => f.write_str("the pool was shutting down"),
            Self::NoThread(error) => write!(f, "the pool has no thread for it: {error}"),
            Self::Worker(error) => write!(f, "the task was not spawned: {error}"),
            Self::Panicked(panic) => match panic.message() {
                Some(text) => write!(f, "the task panicked: {text}"),
                None => f.write_str("the task panicked"),
            },
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinError({self})")
    }
}

impl std::error::Error for JoinError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoThread(error) => Some(error),
            Self::Worker(error) => Some(error),
            _ => None,
        }
    }
}

/// A task's output to come: a future of `Result<T, JoinError>`.
///
/// Dropped, it lets the task go on, as `std`'s and tokio's do. To cancel is asked for: by
/// [`abort`](Self::abort), or by keeping a [`AbortOnDrop`] instead.
///
/// # Panics
///
/// If it is polled again after it was ready.
///
/// ```
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let (sender, receiver) = creel::channel::oneshot::channel();
/// drop(pool.spawn(async move { sender.send(7) }));
/// assert_eq!(pool.block_on(receiver), Ok(7));
/// # Ok::<(), creel::BuildError>(())
/// ```
pub struct JoinHandle<T> {
    /// `None` once the output has been given or the task let go, or if there never was one.
    task: Option<Task>,
    /// Why there never was a task, if nobody has been told yet.
    refused: Option<JoinError>,
    /// Whether a waker was put in the cell and not taken back.
    joining: bool,
    output: PhantomData<T>,
}

// SAFETY: the handle moves the output between threads; everything else in the cell is guarded by
// the state word, and a future is only touched by its workers.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: a shared handle only cancels and looks at the state word.
unsafe impl<T: Send> Sync for JoinHandle<T> {}
impl<T> Unpin for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// The handle of a new task, whose state word counts it.
    pub(super) fn new(task: Task) -> Self {
        Self {
            task: Some(task),
            refused: None,
            joining: false,
            output: PhantomData,
        }
    }

    /// The handle of a task that was not spawned.
    pub(super) fn refused(error: Option<std::io::Error>) -> Self {
        Self::not_spawned(error.map_or(JoinError::Refused, JoinError::NoThread))
    }

    /// The handle of a task that was not spawned for this reason.
    pub(crate) fn not_spawned(error: JoinError) -> Self {
        Self {
            task: None,
            refused: Some(error),
            joining: false,
            output: PhantomData,
        }
    }

    /// Lets the task go on by itself; its output, or panic, is dropped when it ends. Dropping the
    /// handle does the same; this says so.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (tx, rx) = creel::channel::oneshot::channel();
    /// pool.spawn(async { tx.send(7).unwrap() }).detach();
    /// assert_eq!(rx.recv_blocking(), Ok(7));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn detach(self) {}

    /// Has the task cancelled when what this gives is dropped.
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

    /// Asks for the task's future to be dropped by a worker of its pool; returns at once. A poll
    /// under way is not disturbed. Awaiting the handle then gives [`JoinError::Cancelled`] after the drop, or the
    /// output, if the task was faster.
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
            // SAFETY: the step told it, and the handle keeps the cell alive.
            unsafe { task.follow(then) };
        }
    }

    /// Which task it is; none if its pool has refused it, or the output has been given.
    pub fn id(&self) -> Option<TaskId> {
        self.task.map(TaskId::new)
    }

    /// Whether the task has ended, so that awaiting gives its output at once.
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
        // SAFETY: complete, with the handle alive: the output is there and the handle's.
        let output = unsafe { task.take_output() };
        let then = task.state().drop_handle_after_output();
        // SAFETY: the step told it.
        unsafe { task.follow(then) };
        output
    }

    /// Gives up the handle's part in the cell.
    fn leave(&mut self) {
        let Some(task) = self.task.take() else { return };
        if self.joining && task.state().clear_joiner() {
            // SAFETY: the step made it the handle's again.
            drop(unsafe { task.take_joiner() });
        }
        let then = task.state().drop_handle().unwrap_or_else(|| {
            // SAFETY: complete, with the handle alive.
            unsafe { task.drop_output() };
            task.state().drop_handle_after_output()
        });
        // SAFETY: the step told it.
        unsafe { task.follow(then) };
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    ///
    /// If polled after it gave the output.
    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(
            self.task.is_some() || self.refused.is_some(),
            "polled after it was ready"
        );
        if budget::is_spent(context) {
            return Poll::Pending;
        }
        if let Some(error) = self.refused.take() {
            budget::use_up(1);
            return Poll::Ready(Err(error));
        }
        let task = self.task.expect("polled after it was ready");
        if task.state().is_complete() {
            budget::use_up(1);
            return Poll::Ready(self.take(task));
        }
        // Cloned first: it may panic, and must not do so between the steps.
        let waker = StoredWaker::new(context.waker());
        if self.joining {
            self.joining = false;
            if !task.state().clear_joiner() {
                budget::use_up(1);
                return Poll::Ready(self.take(task));
            }
            // SAFETY: the step made it the handle's again.
            drop(unsafe { task.take_joiner() });
        }
        // SAFETY: `JOINER` is not set, so the place is empty and the handle's.
        unsafe { task.put_joiner(waker) };
        if task.state().set_joiner() {
            self.joining = true;
            return Poll::Pending;
        }
        // SAFETY: complete before the step: the waker is still the handle's.
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

/// A task's output to come, as its [`JoinHandle`]: the task is cancelled when this is dropped.
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
#[must_use = "dropped, it cancels its task"]
#[derive(Debug)]
pub struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    /// The handle alone: the task goes on when that is dropped.
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

    /// As [`JoinHandle::abort`].
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

    /// As [`JoinHandle::id`].
    pub fn id(&self) -> Option<TaskId> {
        self.0.id()
    }

    /// As [`JoinHandle::is_finished`].
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

    /// # Panics
    ///
    /// If polled after it gave the output.
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
