//! What a program does about the budget of its tasks: see `worker/budget.rs`.

use crate::worker::budget;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Has a future of another crate take part in the budget of the task that awaits it.
///
/// Each poll of a task may complete a limited number of operations (128, and half as many on
/// sockets) before its next one makes it give way to the others. Channels, timers, sockets and
/// handles of this crate count by themselves. A loop that awaits only futures of other crates which
/// are always ready, for example the lock of an async mutex that nobody else holds, keeps its worker.
/// Wrapped, the future is pending once the budget is used up, without being polled, and the task
/// goes to the end of the queue.
///
/// ```
/// use creel::{Pool, task};
/// use std::sync::Arc;
///
/// let pool = Pool::builder().workers(1).build()?;
/// let count = Arc::new(tokio::sync::Mutex::new(0));
/// let counts = Arc::clone(&count);
/// let loops = pool.spawn(async move {
///     loop {
///         *task::budgeted(counts.lock()).await += 1;
///     }
/// });
/// pool.block_on(pool.spawn(async {})).unwrap(); // the loop lets the other task run
/// loops.abort();
/// # Ok::<(), creel::BuildError>(())
/// ```
///
/// Work without any await point has one by `budgeted(std::future::ready(()))`, which costs about a
/// nanosecond where [`yield_now`](super::yield_now()) goes through the queue each time.
pub fn budgeted<F: Future>(future: F) -> Budgeted<F> {
    Budgeted { future }
}

/// The future of [`budgeted`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Budgeted<F> {
    future: F,
}

impl<F: Future> Future for Budgeted<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the inner future is not moved out of, and the outer one has no `Drop`.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        budget::poll(cx, |cx| future.poll(cx))
    }
}

/// Lets a future complete as many operations in a poll as it likes: the budget of the task does not
/// apply inside of it.
///
/// For a task that has its worker to itself, or whose own loop calls
/// [`yield_now`](super::yield_now()).
///
/// ```
/// use creel::{channel::bounded, task};
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let (tx, rx) = bounded::channel(1000);
/// let sum = pool.block_on(task::unconstrained(async {
///     for n in 0..1000 {
///         tx.send(n).await.unwrap(); // in one poll, all of them
///     }
///     drop(tx);
///     let mut sum = 0;
///     while let Ok(n) = rx.recv().await {
///         sum += n;
///     }
///     sum
/// }));
/// assert_eq!(sum, 499_500);
/// # Ok::<(), creel::BuildError>(())
/// ```
pub fn unconstrained<F: Future>(future: F) -> Unconstrained<F> {
    Unconstrained { future }
}

/// The future of [`unconstrained`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited or spawned"]
pub struct Unconstrained<F> {
    future: F,
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the inner future is not moved out of, and the outer one has no `Drop`.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        let _suspended = budget::suspend();
        future.poll(cx)
    }
}
