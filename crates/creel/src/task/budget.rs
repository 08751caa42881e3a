//! The public interface to the budget of a task. `worker/budget.rs` explains and implements the
//! budget.

use crate::worker::budget;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Makes a future of another crate take part in the budget of the task that awaits it.
///
/// In each poll, a task may complete a limited number of operations before it must give way to
/// other tasks. The limit is 128 operations, or half as many on sockets. Channels, timers, sockets
/// and handles of this crate count automatically. However, a loop that awaits only futures of other
/// crates never gives way if these futures are always ready. An example is the lock of an async
/// mutex that no other task holds.
///
/// Once the budget is used up, the wrapped future returns pending without being polled, and the
/// task goes to the end of the queue.
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
/// If your code has no await point at all, you can add one with `budgeted(std::future::ready(()))`.
/// It costs about a nanosecond, because it goes through the queue only when the budget is used up.
/// In contrast, [`yield_now`](super::yield_now()) goes through the queue each time.
pub fn budgeted<F: Future>(future: F) -> Budgeted<F> {
    Budgeted { future }
}

/// The future that [`budgeted`] returns.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Budgeted<F> {
    future: F,
}

impl<F: Future> Future for Budgeted<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: we do not move out of the inner future, and the outer one does not implement
        // `Drop`.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        budget::poll(cx, |cx| future.poll(cx))
    }
}

/// Lets a future complete any number of operations in one poll, because the budget of the task does
/// not apply inside it.
///
/// Use it for a task that has a worker to itself, or for one whose own loop calls
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

/// The future that [`unconstrained`] returns.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited or spawned"]
pub struct Unconstrained<F> {
    future: F,
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: we do not move out of the inner future, and the outer one does not implement
        // `Drop`.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        let _suspended = budget::suspend();
        future.poll(cx)
    }
}
