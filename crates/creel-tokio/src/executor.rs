//! An executor for crates that let the program choose how they spawn.

use crate::Tokio;
use creel::Pool;
use std::fmt;
use std::future::Future;

/// An executor that spawns on a pool, inside tokio's context. Pass it to hyper, tonic and other
/// crates that accept an executor, so that their tasks do not run on the helper thread.
///
/// It implements `hyper::rt::Executor` if you enable the feature `hyper`. For example, the client of
/// hyper-util runs each connection as a task of its executor. tonic's client does the same with the
/// executor that you pass to `Endpoint::executor`.
///
/// ```
/// # #[cfg(feature = "hyper")]
/// async fn status(of: hyper::Uri) -> Result<hyper::StatusCode, Box<dyn std::error::Error>> {
///     use creel_tokio::{Executor, with_tokio};
///     use hyper_util::client::legacy::Client;
///
///     let client = Client::builder(Executor::current()).build_http::<String>();
///     Ok(with_tokio(client.get(of)).await?.status())
/// }
/// ```
///
/// The executor does not keep the pool alive. After the pool has ended, it drops the futures that
/// it receives.
///
/// ```
/// use creel_tokio::{Executor, with_tokio};
/// use std::time::Duration;
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let executor = Executor::new(&pool);
/// let (sender, receiver) = creel::channel::oneshot::channel();
/// executor.spawn(async {
///     tokio::time::sleep(Duration::from_millis(1)).await;
///     sender.send(std::thread::current().id()).unwrap();
/// });
/// let worker = pool.run_on(0, || std::thread::current().id()).unwrap();
/// assert_eq!(receiver.recv_blocking(), Ok(worker));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Executor {
    pool: Pool,
    tokio: Tokio,
}

impl Executor {
    /// Creates an executor that spawns on `pool`, with the tokio runtime of the process
    /// ([`Tokio::global`]).
    ///
    /// # Panics
    ///
    /// Panics if the operating system refuses the helper thread or its descriptors.
    pub fn new(pool: &Pool) -> Self {
        Self::with_tokio(pool, Tokio::global())
    }

    /// Creates an executor that spawns on the pool whose code this thread runs.
    ///
    /// # Panics
    ///
    /// Panics if the thread is neither a worker of a pool nor inside `block_on`, and in the same
    /// cases as [`new`](Self::new).
    #[track_caller]
    pub fn current() -> Self {
        let pool = Pool::current().expect(
            "creel_tokio::Executor::current was called on a thread that is neither a worker of a \
             pool nor inside block_on",
        );
        Self::new(&pool)
    }

    /// Creates an executor that spawns on `pool`, inside the context of a tokio runtime of your
    /// choice.
    pub fn with_tokio(pool: &Pool, tokio: &Tokio) -> Self {
        Executor {
            pool: pool.handle(),
            tokio: tokio.clone(),
        }
    }

    /// Spawns a future as a task of the pool. You can call this on any thread.
    pub fn spawn<F>(&self, future: F)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.pool.spawn(self.tokio.wrap(future)).detach();
    }
}

#[cfg(feature = "hyper")]
impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.spawn(future);
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}
