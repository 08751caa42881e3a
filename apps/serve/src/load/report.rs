//! The report of a load. It has the results of each step, and the results over time.

use creel_stats::Histogram;
use serde::Serialize;

/// The share of time without a CPU from which we call the load starved. A load that shares the
/// cores with the service it measures has a few percent.
pub const STARVED: f64 = 0.2;

/// Percentiles of latencies, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// The median.
    pub p50_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// The 99.9th percentile.
    pub p999_us: u64,
    /// The maximum.
    pub max_us: u64,
}

impl Latency {
    /// Returns the percentiles of a histogram, or `None` if it is empty.
    pub(super) fn of(histogram: &Histogram) -> Option<Latency> {
        (!histogram.is_empty()).then(|| Latency {
            p50_us: histogram.quantile(0.5),
            p99_us: histogram.quantile(0.99),
            p999_us: histogram.quantile(0.999),
            max_us: histogram.max(),
        })
    }
}

/// The results of one step.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// The planned rate. For a ramp, this is the rate in the middle of the step.
    pub rate_per_second: f64,
    /// The duration of the step in seconds.
    pub duration_s: f64,
    /// The number of requests that were due.
    pub due: u64,
    /// The number of requests that were sent, in time or late.
    pub sent: u64,
    /// The share of the due requests that left at most 50 ms late.
    pub offered_share: f64,
    /// The number of requests that were late or not sent because all connections were in use.
    pub crowded: u64,
    /// The number of responses with status 200. They are also right, if responses are checked.
    pub good: u64,
    /// The number of good responses per second.
    pub goodput_per_second: f64,
    /// The number of responses with status 503.
    pub refused: u64,
    /// The number of responses with any other status.
    pub other: u64,
    /// The number of responses with status 200 and a wrong body.
    pub wrong: u64,
    /// The number of requests without a response in time.
    pub timeouts: u64,
    /// The number of requests without a response for any other reason.
    pub errors: u64,
    /// The latency of good responses since the requests were due. It is `None` without good
    /// responses.
    pub corrected: Option<Latency>,
    /// The latency of good responses since the requests left.
    pub uncorrected: Option<Latency>,
    /// The latency of responses with status 503 since the requests left.
    pub refusal: Option<Latency>,
}

impl Step {
    /// Returns whether the service got the planned load: at least 99 % of the requests left in
    /// time.
    pub fn is_offered(&self) -> bool {
        self.offered_share >= 0.99
    }
}

/// The results of the requests that were due within a short time.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moment {
    /// The middle of this short time, in seconds since the start of the load.
    pub at_s: f64,
    /// The number of due requests per second.
    pub due_per_second: f64,
    /// The number of good responses per second.
    pub goodput_per_second: f64,
    /// The number of responses with status 503 per second.
    pub refused_per_second: f64,
    /// The number of all other outcomes per second.
    pub failed_per_second: f64,
    /// The median of the corrected latency. It is `None` without good responses.
    pub p50_us: Option<u64>,
    /// The 99th percentile of the corrected latency. It is `None` without good responses.
    pub p99_us: Option<u64>,
}

/// The results of a load.
#[derive(Debug)]
pub struct Report {
    /// The results of each step.
    pub steps: Vec<Step>,
    /// The results over time.
    pub moments: Vec<Moment>,
    /// The share of the time in which the load itself could run but had no CPU, if the OS reports
    /// it.
    pub cpu_wait_share: Option<f64>,
    /// The names of the acknowledged records in hex, if responses were checked.
    pub acknowledged: Vec<String>,
}

impl Report {
    /// Returns whether in each step at least 99 % of the due requests left in time.
    pub fn is_offered(&self) -> bool {
        self.steps.iter().all(Step::is_offered)
    }

    /// Returns whether most late requests were late because all connections waited for responses.
    pub fn is_crowded(&self) -> bool {
        let late = |step: &Step| step.due as f64 * (1.0 - step.offered_share);
        let late: f64 = self.steps.iter().map(late).sum();
        let crowded: u64 = self.steps.iter().map(|step| step.crowded).sum();
        2.0 * crowded as f64 > late
    }

    /// Returns whether the load itself often had no CPU. It then reads responses late, and its
    /// connections seem to wait for the service.
    pub fn is_starved(&self) -> bool {
        self.cpu_wait_share.is_some_and(|share| share >= STARVED)
    }

    /// Returns the number of requests without a response, or with a status other than 200 and 503.
    pub fn failed(&self) -> u64 {
        let of = |step: &Step| step.other + step.timeouts + step.errors;
        self.steps.iter().map(of).sum()
    }

    /// Returns whether there was no good response at all.
    pub fn has_no_success(&self) -> bool {
        self.steps.iter().all(|step| step.good == 0)
    }

    /// Returns the number of wrong responses.
    pub fn wrong(&self) -> u64 {
        self.steps.iter().map(|step| step.wrong).sum()
    }
}
