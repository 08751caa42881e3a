//! A token that asks any number of tasks to end, each in its own way.
//!
//! Use it for an orderly shutdown. [`JoinHandle::abort`](super::JoinHandle::abort) drops the task's
//! future at its current await point. In contrast, a task that awaits a token can first finish what
//! it is doing, for example write the rest of a file.

use crate::time::until::{Order, Until};
use crate::worker::budget;
use crate::worker::panics::RunAll;
use crate::worker::stored_waker::{StoredWaker, WakerId};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

/// A token that signals once that tasks should end. The signal reaches all clones of the token and
/// all its children.
///
/// The token does not end any task by itself. A task must cooperate: it awaits
/// [`cancelled`](Self::cancelled) together with its work, or wraps its work in
/// [`run_until`](Self::run_until), and then returns.
///
/// ```
/// use creel::task::CancellationToken;
///
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let token = CancellationToken::new();
/// let clone = token.clone();
/// let task = pool.spawn(async move { clone.run_until(std::future::pending::<()>()).await });
/// token.cancel();
/// assert_eq!(pool.block_on(task).unwrap(), None);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Default)]
pub struct CancellationToken {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Whether the token has been cancelled. It is set under the lock of `waits`, before the wakers
    /// are taken. The `AcqRel` swap that sets it synchronizes with the `Acquire` load of a thread
    /// that finds it set, so that this thread sees everything before the cancellation.
    cancelled: AtomicBool,
    waits: Mutex<Waits>,
    /// The parent token. Each child keeps its parent alive. Therefore the cancellation of the
    /// parent's own parent reaches the child even if the program has dropped the parent.
    parent: Option<Arc<Inner>>,
}

#[derive(Default)]
struct Waits {
    next: u64,
    wakers: BTreeMap<u64, StoredWaker>,
    children: Vec<Weak<Inner>>,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Marks this token as cancelled, wakes the tasks that wait for it, and returns its children,
    /// which the caller must cancel. `woken` keeps the first panic of a waker. If the token was
    /// cancelled before, this does nothing and returns no children.
    fn notify(&self, woken: &mut RunAll) -> Vec<Weak<Inner>> {
        let mut waits = self.lock();
        if self.cancelled.swap(true, Ordering::AcqRel) {
            return Vec::new();
        }
        let Waits {
            wakers, children, ..
        } = std::mem::take(&mut *waits);
        drop(waits);
        woken.wake(wakers.into_values());
        children
    }

    /// Cancels this token and all its descendants. We use a loop, because recursion could overflow
    /// the stack if the chain of children is long. `drop` uses a loop for the same reason.
    fn cancel(&self) {
        let mut woken = RunAll::default();
        let mut left = self.notify(&mut woken);
        while let Some(next) = left.pop() {
            let children = next.upgrade().map(|inner| inner.notify(&mut woken));
            left.extend(children.into_iter().flatten());
        }
        woken.finish();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(mut inner) = parent.and_then(Arc::into_inner) {
            parent = inner.parent.take();
        }
    }
}

impl CancellationToken {
    /// Creates a token that is not cancelled.
    ///
    /// ```
    /// let token = creel::task::CancellationToken::new();
    /// assert!(!token.is_cancelled());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a child token. Cancelling this token also cancels the child, but cancelling the
    /// child does not cancel this token. If this token is already cancelled, so is the child. For
    /// example, a server can give each connection a child of its own token.
    ///
    /// You need not keep this token for a cancellation of its own parent to reach the child.
    ///
    /// ```
    /// use creel::task::CancellationToken;
    ///
    /// let all = CancellationToken::new();
    /// let (one, other) = (all.child(), all.child());
    /// one.cancel();
    /// assert!(!all.is_cancelled() && !other.is_cancelled());
    /// all.cancel();
    /// assert!(other.is_cancelled() && all.child().is_cancelled());
    /// ```
    #[must_use]
    pub fn child(&self) -> Self {
        let parent = Some(Arc::clone(&self.inner));
        let inner = Inner {
            cancelled: AtomicBool::new(false),
            waits: Mutex::default(),
            parent,
        };
        let child = Self {
            inner: Arc::new(inner),
        };
        let mut waits = self.inner.lock();
        if self.is_cancelled() {
            drop(waits);
            child.cancel();
        } else {
            let children = &mut waits.children;
            if children.len() == children.capacity() {
                children.retain(|child| child.strong_count() > 0);
            }
            children.push(Arc::downgrade(&child.inner));
        }
        child
    }

    /// Cancels this token, all its clones and all its children. Calling it again has no effect.
    ///
    /// # Panics
    ///
    /// Panics if a waker of another executor panics. All other waiting tasks have been woken by
    /// then.
    ///
    /// ```
    /// let token = creel::task::CancellationToken::new();
    /// let clone = token.clone();
    /// token.cancel();
    /// assert!(clone.is_cancelled());
    /// ```
    pub fn cancel(&self) {
        self.inner.cancel();
    }

    /// Returns whether the token has been cancelled.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let token = creel::task::CancellationToken::new();
    /// let clone = token.clone();
    /// // A loop that can be ended from elsewhere.
    /// let counted = pool.spawn(async move {
    ///     let mut n = 0;
    ///     while !clone.is_cancelled() {
    ///         n += 1;
    ///         creel::task::yield_now().await;
    ///     }
    ///     n
    /// });
    /// token.cancel();
    /// pool.block_on(counted).unwrap();
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.inner.is_cancelled()
    }

    /// Waits until the token is cancelled. The future is cancel-safe.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let token = creel::task::CancellationToken::new();
    /// token.cancel();
    /// pool.block_on(token.cancelled());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn cancelled(&self) -> Cancelled<'_> {
        Cancelled {
            token: self,
            ticket: None,
            waker: None,
        }
    }

    /// Awaits `future` until it is ready or the token is cancelled, whichever comes first. Returns
    /// `Some` with the output, or `None` if the token was cancelled. In that case `future` is
    /// dropped.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let token = creel::task::CancellationToken::new();
    /// assert_eq!(pool.block_on(token.run_until(async { 7 })), Some(7));
    /// token.cancel();
    /// assert_eq!(pool.block_on(token.run_until(std::future::pending::<()>())), None);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn run_until<F: Future>(&self, future: F) -> impl Future<Output = Option<F::Output>> {
        Until::new(future, self.cancelled(), Order::LimitFirst, |output| output)
    }

    /// Converts the token into a guard that cancels it when you drop the guard.
    ///
    /// ```
    /// use creel::task::CancellationToken;
    ///
    /// let token = CancellationToken::new();
    /// drop(token.clone().drop_guard());
    /// assert!(token.is_cancelled());
    /// ```
    pub fn drop_guard(self) -> DropGuard {
        DropGuard(self)
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellationToken")
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}

/// A guard that cancels its token when it is dropped. [`CancellationToken::drop_guard`] creates
/// it.
///
/// ```
/// let token = creel::task::CancellationToken::new();
/// let guard = token.clone().drop_guard();
/// assert!(!token.is_cancelled());
/// drop(guard);
/// assert!(token.is_cancelled());
/// ```
#[must_use = "dropping the guard cancels its token"]
#[derive(Debug)]
pub struct DropGuard(CancellationToken);

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The future that [`CancellationToken::cancelled`] returns.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let token = creel::task::CancellationToken::new();
/// let waiting = token.cancelled();
/// token.cancel();
/// pool.block_on(waiting);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Cancelled<'a> {
    token: &'a CancellationToken,
    ticket: Option<u64>,
    /// The id of the waker that is stored with the token under `ticket`. If the same task polls
    /// again, we need not take the lock that all waiting tasks share.
    waker: Option<WakerId>,
}

impl Future for Cancelled<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        budget::poll(cx, |cx| {
            let inner = &self.token.inner;
            if inner.is_cancelled() {
                return Poll::Ready(());
            }
            let id = WakerId::of(cx.waker());
            if self.waker == Some(id) {
                return Poll::Pending;
            }
            let fresh = StoredWaker::new(cx.waker());
            let mut waits = inner.lock();
            if inner.is_cancelled() {
                return Poll::Ready(());
            }
            let ticket = self.ticket.unwrap_or(waits.next);
            if self.ticket.is_none() {
                waits.next += 1;
            }
            let before = waits.wakers.insert(ticket, fresh);
            drop(waits);
            (self.ticket, self.waker) = (Some(ticket), Some(id));
            drop(before);
            Poll::Pending
        })
    }
}

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let gone = self.token.inner.lock().wakers.remove(&ticket);
            drop(gone);
        }
    }
}
