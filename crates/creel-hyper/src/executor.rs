//! Runs hyper's own tasks as tasks of the pool.

use std::future::Future;

/// An executor that spawns hyper's tasks on the current pool.
///
/// HTTP/2 needs an executor, because each stream is a task.
///
/// # Panics
///
/// `execute` panics outside of a pool.
///
/// ```
/// use hyper::rt::Executor as _;
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let (sender, receiver) = creel::channel::oneshot::channel();
/// pool.block_on(async {
///     creel_hyper::Executor.execute(async move { sender.send(7).unwrap() });
///     assert_eq!(receiver.await, Ok(7));
/// });
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Executor;

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        creel::task::spawn(future).detach();
    }
}
