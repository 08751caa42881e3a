//! Implements the trait `Stream` of the crate `futures-core` for sets of tasks. The items of the
//! stream are the outputs of the tasks.

use super::{JoinError, JoinSet};
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The stream returns the outputs in the order in which the tasks end. It returns `None` while the
/// set is empty, and continues if you add a task.
///
/// ```
/// use creel::task::JoinSet;
/// use futures_util::StreamExt;
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let sum = pool.block_on(async {
///     let mut tasks = JoinSet::new();
///     for n in 0..10 {
///         tasks.spawn(async move { n });
///     }
///     tasks.fold(0, async |sum, n| sum + n.unwrap()).await
/// });
/// assert_eq!(sum, 45);
/// # Ok::<(), creel::BuildError>(())
/// ```
impl<T> Stream for JoinSet<T> {
    type Item = Result<T, JoinError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_join_next(cx)
    }
}
