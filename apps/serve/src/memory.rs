//! Returns freed memory to the OS after connections have become idle.
//!
//! glibc keeps freed memory that lies between blocks in use. After ten thousand connections with
//! one request each, that is about 80 MB. We reuse this memory while requests arrive, so we return
//! it only when no request has arrived for some seconds. `malloc_trim` is a C function and has no
//! Rust equivalent.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::metrics::Metrics;

const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The number of polls without a new request after which we trim. By then most connections are
/// idle.
const IDLE_POLLS: u32 = 2;

/// Trims the heap each time the service has become idle. It never returns.
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
    // SAFETY: malloc_trim(3) may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
