//! Gives memory back that connections at rest have freed, which only C can do.
//!
//! The C library keeps what is free between blocks in use; of ten thousand connections that asked
//! once that is some 80 MB. While requests come it is used again, so it is given back when none has
//! come for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::metrics::Metrics;

const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Looks at which nothing new was seen: by then connections are at rest.
const IDLE_POLLS: u32 = 2;

/// For as long as the service runs.
pub(crate) async fn trim_when_idle(metrics: Arc<Metrics>) {
    let (mut seen, mut idle_polls) = (0, IDLE_POLLS);
    loop {
        creel::time::sleep(POLL_INTERVAL).await;
        let now = metrics.started.load(Relaxed);
        if now != seen {
            (seen, idle_polls) = (now, 0);
        } else if idle_polls < IDLE_POLLS {
            idle_polls += 1;
            if idle_polls == IDLE_POLLS {
                creel::blocking(trim).await;
            }
        }
    }
}

#[allow(unsafe_code)]
fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called by any thread at any time, malloc_trim(3).
    unsafe {
        libc::malloc_trim(0);
    }
}
