//! Implements the trait `Stream` of the crate `futures-core` for intervals. The items of the stream
//! are deadlines.

use super::Interval;
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

/// The stream returns the deadlines, and never ends.
///
/// ```
/// use creel::time::interval;
/// use futures_util::StreamExt;
/// use std::time::Duration;
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let period = Duration::from_millis(1);
/// let ticks = async { interval(period).take(3).collect::<Vec<_>>().await };
/// let ticks = pool.block_on(ticks);
/// assert_eq!(ticks[2] - ticks[0], 2 * period);
/// # Ok::<(), creel::BuildError>(())
/// ```
impl Stream for Interval {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.poll_tick(cx).map(Some)
    }
}
