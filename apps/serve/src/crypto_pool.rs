//! The pool that does the cryptography, behind admission control.

use std::sync::Arc;
use std::time::{Duration, Instant};

use creel::Pool;

use crate::admission::{Admission, Nanos, Shed};
use crate::crypto::{Crypto, Done, Job};
use crate::metrics::Metrics;

/// The reason why a job was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobError {
    /// Admission control rejected the job.
    Shed(Shed),
    /// The job panicked. The pool has caught the panic and remains usable.
    Panicked,
}

/// The workers of the cryptography. They are a pool of their own, because a job takes up to tens of
/// milliseconds and would hold up the connections.
#[derive(Debug)]
pub(crate) struct CryptoPool {
    pool: Pool,
    pub(crate) admission: Arc<Admission>,
    pub(crate) crypto: Arc<Crypto>,
    metrics: Arc<Metrics>,
    started: Instant,
}

impl CryptoPool {
    pub(crate) fn new(
        pool: Pool,
        admission: Admission,
        crypto: Crypto,
        metrics: Arc<Metrics>,
    ) -> CryptoPool {
        CryptoPool {
            pool,
            admission: Arc::new(admission),
            crypto: Arc::new(crypto),
            metrics,
            started: Instant::now(),
        }
    }

    /// Performs a job when a worker is free. If the future is dropped, a job that has not started
    /// is skipped.
    pub(crate) async fn perform(&self, job: Job, deadline: Instant) -> Result<Done, JobError> {
        let deadline = nanos(deadline.saturating_duration_since(self.started));
        let queued = self.admission.enter(job.kind(), self.now(), deadline);
        let queued = queued.map_err(JobError::Shed)?;
        let (crypto, metrics, started) = (
            Arc::clone(&self.crypto),
            Arc::clone(&self.metrics),
            self.started,
        );
        let work = self.pool.spawn(async move {
            let from = nanos(started.elapsed());
            let (delay, permit) = queued.start(from).map_err(JobError::Shed)?;
            metrics.delay.record(Duration::from_nanos(delay));
            let done = crypto.perform(&job);
            permit.finish(nanos(started.elapsed()).saturating_sub(from));
            Ok(done)
        });
        work.abort_on_drop()
            .await
            .unwrap_or(Err(JobError::Panicked))
    }

    fn now(&self) -> Nanos {
        nanos(self.started.elapsed())
    }
}

fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4)
}
