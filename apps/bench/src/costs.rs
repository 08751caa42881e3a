//! The costs of a sample, apart from its time: CPU time, context switches and memory.
//!
//! We count over the whole sample. This includes the creation of the subject, the warm-up, and
//! child processes that have ended. A cost that the system does not report is NaN.

use std::time::Instant;

use crate::harness::Metric;

/// The names and units of the costs, in the order of the values of [`Costs`].
pub const METRICS: [Metric; 5] = [
    Metric {
        name: "user",
        unit: "cores",
    },
    Metric {
        name: "system",
        unit: "cores",
    },
    Metric {
        name: "switches asked for",
        unit: "switches/s",
    },
    Metric {
        name: "switches forced",
        unit: "switches/s",
    },
    Metric {
        name: "memory",
        unit: "B",
    },
];

/// The costs of a sample, in the order of [`METRICS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs(pub [f64; 5]);

/// Measures the costs of a sample, from [`start`](Self::start) to [`stop`](Self::stop).
pub struct Meter {
    begin: Instant,
    used: [f64; 4],
    rss: f64,
}

impl Meter {
    /// Starts to measure, and resets the peak of the memory if the kernel allows that.
    pub fn start() -> Self {
        // Writing 5 resets the peak of the resident memory, see proc(5). If the kernel refuses it,
        // the memory of the sample is unknown.
        let reset = std::fs::write("/proc/self/clear_refs", "5");
        let rss = crate::memory::rss_bytes();
        Meter {
            begin: Instant::now(),
            used: used(),
            rss: reset.map_or(f64::NAN, |()| rss),
        }
    }

    /// Returns the costs since the start.
    pub fn stop(self) -> Costs {
        let seconds = self.begin.elapsed().as_secs_f64();
        let peak = crate::memory::peak_rss_bytes();
        let now = used();
        // We use `clamp`, because it keeps a NaN, which stands for an unknown cost. `max` would
        // turn it into 0.
        let more = |now: f64, before: f64| (now - before).clamp(0.0, f64::INFINITY);
        let rate = |index: usize| more(now[index], self.used[index]) / seconds;
        Costs([rate(0), rate(1), rate(2), rate(3), more(peak, self.rss)])
    }
}

/// Returns four costs of this process and of its children that have ended: the user time and the
/// system time in seconds, and the numbers of voluntary and involuntary context switches.
#[cfg(target_os = "linux")]
fn used() -> [f64; 4] {
    use nix::sys::resource::{UsageWho, getrusage};
    let of = |who| {
        getrusage(who).map_or([f64::NAN; 4], |usage| {
            let seconds =
                |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
            [
                seconds(usage.user_time()),
                seconds(usage.system_time()),
                usage.voluntary_context_switches() as f64,
                usage.involuntary_context_switches() as f64,
            ]
        })
    };
    let (own, children) = (of(UsageWho::RUSAGE_SELF), of(UsageWho::RUSAGE_CHILDREN));
    std::array::from_fn(|index| own[index] + children[index])
}

#[cfg(not(target_os = "linux"))]
fn used() -> [f64; 4] {
    [f64::NAN; 4]
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn costs_include_cpu_time_and_memory() {
        let meter = Meter::start();
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let begin = Instant::now();
        while begin.elapsed().as_millis() < 50 {
            std::hint::spin_loop();
        }
        let Costs([user, system, _, _, memory]) = meter.stop();
        drop(block);
        assert!(user + system > 0.01, "{user} {system}");
        // The memory is NaN if the peak cannot be reset. We expect less than we have allocated,
        // because other tests may free memory at the same time.
        assert!(memory.is_nan() || memory > 16e6, "{memory}");
    }
}
