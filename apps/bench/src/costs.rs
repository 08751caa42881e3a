//! What a sample cost beside its time: CPU, switches, memory.
//!
//! Counted over the whole sample, its making, its warm-up and its children that have ended
//! included. What the system does not tell is NaN.

use std::time::Instant;

use crate::harness::Metric;

/// What is counted, in the order of [`Costs::values`].
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

/// A sample's costs, by [`METRICS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs(pub [f64; 5]);

/// What was used until a sample began.
pub struct Meter {
    begin: Instant,
    used: [f64; 4],
    rss: f64,
}

impl Meter {
    /// Begins to count.
    pub fn start() -> Self {
        // The peak begins anew; where that is refused, the memory is not told.
        let reset = std::fs::write("/proc/self/clear_refs", "5");
        let rss = crate::memory::rss_bytes();
        Meter {
            begin: Instant::now(),
            used: used(),
            rss: reset.map_or(f64::NAN, |()| rss),
        }
    }

    /// What was used since.
    pub fn stop(self) -> Costs {
        let seconds = self.begin.elapsed().as_secs_f64();
        let peak = crate::memory::peak_rss_bytes();
        let now = used();
        // Unlike `max`, this keeps a NaN.
        let more = |now: f64, before: f64| (now - before).clamp(0.0, f64::INFINITY);
        let rate = |index: usize| more(now[index], self.used[index]) / seconds;
        Costs([rate(0), rate(1), rate(2), rate(3), more(peak, self.rss)])
    }
}

/// User and system time in seconds, switches asked for and forced; of the process and of its
/// children that have ended.
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
        // Where the peak cannot be reset it is not told. Other tests free memory meanwhile.
        assert!(memory.is_nan() || memory > 16e6, "{memory}");
    }
}
