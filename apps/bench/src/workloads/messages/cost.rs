//! The costs of passing one message through a chain of tasks: time, CPU time and memory.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::harness::{Metric, Plan};
use crate::memory;

/// The names and units of the values that we measure for a chain.
pub const METRICS: [Metric; 4] = [
    Metric {
        name: "time",
        unit: "ms a pass",
    },
    Metric {
        name: "user CPU",
        unit: "ms a pass",
    },
    Metric {
        name: "system CPU",
        unit: "ms a pass",
    },
    Metric {
        name: "bytes a task",
        unit: "B a task",
    },
];

/// The CPU time of the program and of the system, in ms.
#[derive(Clone, Copy, Debug)]
pub struct Used(f64, f64);

impl Used {
    /// Returns the CPU times that this process has used so far.
    pub fn here() -> Self {
        Used::of(false)
    }

    /// Returns the CPU times of this process's children that have ended.
    pub fn by_children() -> Self {
        Used::of(true)
    }

    #[cfg(target_os = "linux")]
    fn of(children: bool) -> Self {
        use nix::sys::resource::{UsageWho, getrusage};
        let who = if children {
            UsageWho::RUSAGE_CHILDREN
        } else {
            UsageWho::RUSAGE_SELF
        };
        let ms = |time: nix::sys::time::TimeVal| {
            time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3
        };
        getrusage(who).map_or(Used(f64::NAN, f64::NAN), |usage| {
            Used(ms(usage.user_time()), ms(usage.system_time()))
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_children: bool) -> Self {
        Used(f64::NAN, f64::NAN)
    }
}

impl std::ops::Sub for Used {
    type Output = Used;

    fn sub(self, before: Used) -> Used {
        Used(self.0 - before.0, self.1 - before.1)
    }
}

/// The costs of a pass of a chain: its CPU time, and the memory of the chain.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    user_ms: f64,
    system_ms: f64,
    bytes: f64,
}

impl Pass {
    /// Creates the costs of one pass from the CPU time of all passes. `bytes` is the growth of the
    /// memory up to its peak, or NaN if it is unknown.
    pub fn of(used: Used, passes: f64, bytes: f64) -> Self {
        Pass {
            user_ms: used.0 / passes,
            system_ms: used.1 / passes,
            bytes,
        }
    }

    /// Returns the values in the order of [`METRICS`].
    pub fn values(&self, time_ms: f64, tasks: u64) -> Vec<f64> {
        let bytes_a_task = self.bytes / tasks as f64;
        // A task takes at least one byte. If the peak shows less, the chain fitted into memory that
        // the process still held from earlier, so its own need is unknown.
        let bytes_a_task = match bytes_a_task {
            bytes if bytes < 1.0 => f64::NAN,
            bytes => bytes,
        };
        vec![time_ms, self.user_ms, self.system_ms, bytes_a_task]
    }
}

/// Measures a chain of `tasks` tasks on a running runtime. The CPU time includes the passes of the
/// warm-up.
pub fn sampled(plan: &Plan, tasks: u64, mut pass: impl FnMut()) -> Vec<f64> {
    // Writing 5 resets the peak of the resident memory, see proc(5). If the kernel refuses it, the
    // memory of the chain is unknown.
    let reset = std::fs::write("/proc/self/clear_refs", "5");
    let rss = reset.map_or(f64::NAN, |()| memory::rss_bytes());
    // Relaxed is enough, because only this thread accesses the counter.
    let passes = AtomicU64::new(0);
    let before = Used::here();
    let ns = plan.time(|| {
        passes.fetch_add(1, Ordering::Relaxed);
        pass();
    });
    let used = Used::here() - before;
    let bytes = memory::peak_rss_bytes() - rss;
    Pass::of(
        used,
        passes.into_inner() as f64,
        bytes.clamp(0.0, f64::INFINITY),
    )
    .values(ns / 1e6, tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_less_than_a_byte_per_task_is_unknown() {
        let bytes = |bytes| Pass::of(Used(1.0, 1.0), 1.0, bytes).values(1.0, 1000)[3];
        assert_eq!(bytes(96_000.0), 96.0);
        assert!(bytes(0.0).is_nan() && bytes(512.0).is_nan() && bytes(f64::NAN).is_nan());
    }
}
