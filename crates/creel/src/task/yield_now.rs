//! Giving way to the other tasks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets the other tasks of this worker go first: the task goes to the end of the queue.
///
/// ```
/// let pool = creel::Pool::builder().workers(1).build()?;
/// pool.block_on(async {
///     creel::task::yield_now().await;
/// });
/// # Ok::<(), creel::BuildError>(())
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// pool.block_on(creel::task::yield_now());
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
