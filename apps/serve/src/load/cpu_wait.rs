//! Measures how long the load itself waited for a CPU.
//!
//! A load generator that gets no CPU reads responses late. Its connections then seem to wait for
//! the service, although the responses are already there. The time in the run queue of the OS shows
//! which of the two cases it is.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The name of the load's pool, and the beginning of the names of its threads.
pub(super) const POOL: &str = "load";

/// A measurement that has been started.
#[derive(Debug)]
pub(super) struct CpuWait {
    started: Instant,
    waited: Option<Duration>,
}

impl CpuWait {
    pub(super) fn start() -> CpuWait {
        CpuWait {
            started: Instant::now(),
            waited: waited(),
        }
    }

    /// Returns the share of the time since the start in which the workers could run and had no CPU.
    /// Returns `None` if the OS does not report it.
    pub(super) fn share(&self, workers: usize) -> Option<f64> {
        let waited = waited()?.saturating_sub(self.waited?);
        let time = self.started.elapsed().as_secs_f64() * workers as f64;
        Some((waited.as_secs_f64() / time.max(1e-9)).min(1.0))
    }
}

/// Returns how long the threads of the load have waited for a CPU so far. These are the threads of
/// the pool and this one, which does the work of a worker in `block_on`.
///
/// Source: Linux, Documentation/scheduler/sched-stats.rst, `/proc/<pid>/schedstat`.
fn waited() -> Option<Duration> {
    let own = fs::read_link("/proc/thread-self").ok();
    let own = own.as_deref().and_then(Path::file_name);
    let mut sum = None;
    for thread in fs::read_dir("/proc/self/task").ok()?.flatten() {
        let read = |name: &str| fs::read_to_string(thread.path().join(name)).ok();
        let is_own = own == Some(&*thread.file_name());
        if !is_own && !read("comm").is_some_and(|name| name.starts_with(POOL)) {
            continue;
        }
        let Some(times) = read("schedstat") else {
            continue;
        };
        let waited = times.split(' ').nth(1).and_then(|ns| ns.parse().ok());
        *sum.get_or_insert(Duration::ZERO) += Duration::from_nanos(waited?);
    }
    sum
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_known_from_the_start_of_the_load() {
        // A kernel without this accounting has no such file.
        if !Path::new("/proc/self/schedstat").exists() {
            return;
        }
        let pool = creel::Pool::builder().name(POOL).workers(1).build();
        let share = pool.unwrap().block_on(async {
            let cpu_wait = CpuWait::start();
            creel::task::yield_now().await;
            cpu_wait.share(1)
        });
        assert!(
            share.is_some_and(|share| (0.0..=1.0).contains(&share)),
            "{share:?}"
        );
    }
}
