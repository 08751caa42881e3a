//! The error that reports why a particular worker did not accept work.

use std::{fmt, io};

/// The reason why a worker did not accept work that was meant for it. Its message does not contain
/// the error of the operating system, which [`source`](std::error::Error::source) returns.
///
/// ```
/// use creel::WorkerError;
///
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let error = pool.run_on(7, || ()).unwrap_err();
/// assert!(matches!(error, WorkerError::NoSuchWorker { worker: 7, workers: 2 }));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkerError {
    /// The pool has no worker with this index, for example because it was resized.
    NoSuchWorker {
        /// The index that you asked for.
        worker: usize,
        /// The number of workers in the pool.
        workers: usize,
    },
    /// The pool has ended, or is ending.
    Ended,
    /// The operating system refused a thread for the worker.
    NoThread(io::Error),
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchWorker { worker, workers } => {
                write!(
                    f,
                    "the pool has no worker {worker}: it has {workers} workers"
                )
            }
            Self::Ended => f.write_str("the pool has ended"),
            Self::NoThread(_) => f.write_str("cannot start the worker's thread"),
        }
    }
}

impl std::error::Error for WorkerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoThread(error) => Some(error),
            _ => None,
        }
    }
}
