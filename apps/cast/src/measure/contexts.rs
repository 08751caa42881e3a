//! The contexts of a run, which are threads that many streams share. Measures the CPU time and the
//! sleep of the contexts and of the process.

use crate::measure::context::with_histograms;
use crate::measure::stats::Histograms;
use cpu_time::{ProcessTime, ThreadTime};
use creel::{BuildError, Observe, Pool, Wait};
use std::time::{Duration, Instant};

/// How often a waiting program checks whether it was interrupted.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Pools of one worker each, among which the streams are distributed.
#[derive(Debug)]
pub struct Contexts {
    pools: Vec<Pool>,
}

impl Contexts {
    /// Creates `contexts` contexts, at least one, which react once per `wait`. `observe` states
    /// what other processes may do with them.
    ///
    /// # Errors
    ///
    /// Returns an error if a pool cannot be created.
    pub fn new(contexts: usize, wait: Duration, observe: Observe) -> Result<Self, BuildError> {
        let pool = |index| {
            let builder = Pool::builder().workers(1).wait(Wait::Throttle(wait));
            let builder = builder.observe(observe);
            builder.name(format!("context-{index}")).build()
        };
        let pools = (0..contexts.max(1)).map(pool).collect::<Result<_, _>>()?;
        Ok(Contexts { pools })
    }

    /// Returns the number of contexts.
    pub fn count(&self) -> usize {
        self.pools.len()
    }

    /// Returns the context of the stream with this index. For example, with two contexts, stream 5
    /// belongs to context 1.
    pub fn of(&self, stream: usize) -> &Pool {
        &self.pools[stream % self.pools.len()]
    }

    /// Returns all contexts.
    pub fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.pools.iter()
    }

    /// Returns the resources that the process and the contexts have used so far.
    pub fn usage(&self) -> Usage {
        let workers = self.pools.iter().flat_map(|pool| pool.stats().workers);
        Usage {
            at: Instant::now(),
            cpu: ProcessTime::now().as_duration(),
            contexts: self.cpu(),
            parked: workers.map(|worker| worker.parked).sum(),
        }
    }

    /// Returns the CPU time of the threads of the contexts.
    fn cpu(&self) -> Duration {
        let of_thread = |pool: &Pool| pool.run_on(0, || ThreadTime::now().as_duration()).unwrap();
        self.pools.iter().map(of_thread).sum()
    }

    /// Waits until `time` and returns the usage at that time. Returns `None` if `interrupted`
    /// returns true before.
    pub fn usage_at(&self, time: Instant, interrupted: &dyn Fn() -> bool) -> Option<Usage> {
        loop {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(self.usage());
            }
            if interrupted() {
                return None;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }

    /// Takes the distributions of all contexts and merges them.
    pub fn take_histograms(&self) -> Histograms {
        let mut all = Histograms::new();
        for pool in &self.pools {
            let of_context = pool.run_on(0, || with_histograms(std::mem::take)).unwrap();
            all.merge(&of_context);
        }
        all
    }
}

/// The resources used up to a point in time.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    at: Instant,
    cpu: Duration,
    contexts: Duration,
    parked: Duration,
}

/// The resources used between two points in time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    /// The time between the two points.
    pub time: Duration,
    /// The CPU time of the whole process.
    pub cpu: Duration,
    /// The CPU time of the threads of the contexts.
    pub contexts: Duration,
    /// The total time for which the contexts slept.
    pub parked: Duration,
}

impl Usage {
    /// Returns the resources used since `earlier`.
    pub fn since(&self, earlier: &Usage) -> Used {
        Used {
            time: self.at.saturating_duration_since(earlier.at),
            cpu: self.cpu.saturating_sub(earlier.cpu),
            contexts: self.contexts.saturating_sub(earlier.contexts),
            parked: self.parked.saturating_sub(earlier.parked),
        }
    }
}

impl Used {
    /// Returns the fraction of the time for which `contexts` contexts slept, 0 to 1.
    pub fn parked_share(&self, contexts: usize) -> f64 {
        let time = self.time.as_secs_f64() * contexts as f64;
        if time > 0.0 {
            (self.parked.as_secs_f64() / time).min(1.0)
        } else {
            0.0
        }
    }

    /// Returns the CPU time of the process per buffer, in nanoseconds.
    pub fn cpu_nanos_per(&self, buffers: u64) -> f64 {
        self.cpu.as_nanos() as f64 / buffers.max(1) as f64
    }
}

/// Returns the resident memory of the process in bytes, or `None` if the system does not report it.
///
/// Source: proc(5), `VmRSS` of /proc/self/status.
pub fn resident_bytes() -> Option<u64> {
    let status = creel_console::system::text("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
