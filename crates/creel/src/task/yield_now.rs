//! A future that lets the other tasks run. A worker cannot interrupt a poll, so a long computation
//! has to give way by itself.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets the other tasks of this worker run first. The calling task goes to the end of the queue.
/// For example, call it now and then in a long computation, because a worker cannot interrupt a
/// poll.
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

/// The future that [`yield_now`] returns.
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
