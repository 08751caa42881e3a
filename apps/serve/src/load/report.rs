//! The report of a load: by step, and over time.

use creel_stats::Histogram;
use serde::Serialize;

/// Latencies, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Half of them are no longer.
    pub p50_us: u64,
    /// All but a hundredth.
    pub p99_us: u64,
    /// All but a thousandth.
    pub p999_us: u64,
    /// The longest.
    pub max_us: u64,
}

impl Latency {
    /// None where nothing was measured.
    pub(super) fn of(histogram: &Histogram) -> Option<Latency> {
        (!histogram.is_empty()).then(|| Latency {
            p50_us: histogram.quantile(0.5),
            p99_us: histogram.quantile(0.99),
            p999_us: histogram.quantile(0.999),
            max_us: histogram.max(),
        })
    }
}

/// What became of the requests of a step.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// What was asked for; of a ramp, in its middle.
    pub rate_per_second: f64,
    /// How long it took.
    pub duration_s: f64,
    /// Requests that were due.
    pub due: u64,
    /// Of these, those that left no more than 50 ms late, or found an answer in spite of that.
    pub sent: u64,
    /// Of those that were due, those that left in time.
    pub offered_share: f64,
    /// Of those that did not, those that found no connection free: all waited for answers.
    pub crowded: u64,
    /// Answered 200, and right where that was looked at.
    pub good: u64,
    /// The same a second.
    pub goodput_per_second: f64,
    /// Answered 503.
    pub refused: u64,
    /// Answered otherwise.
    pub other: u64,
    /// Answered 200, and wrong.
    pub wrong: u64,
    /// Not answered in time.
    pub timeouts: u64,
    /// Not answered for another reason.
    pub errors: u64,
    /// Of good answers, from when they were due; none without.
    pub corrected: Option<Latency>,
    /// Of good answers, from when the request left.
    pub uncorrected: Option<Latency>,
    /// Of the answers 503, from when the request left.
    pub refusal: Option<Latency>,
}

impl Step {
    /// Whether what was asked for is what the service got.
    pub fn is_offered(&self) -> bool {
        self.offered_share >= 0.99
    }
}

/// What became of the requests that were due within a short time.
#[derive(Debug, Clone, Serialize)]
pub struct Moment {
    /// Its middle, from the beginning.
    pub at_s: f64,
    /// Requests that were due, a second.
    pub due_per_second: f64,
    /// Good answers, a second.
    pub goodput_per_second: f64,
    /// Answers 503, a second.
    pub refused_per_second: f64,
    /// All others, a second.
    pub failed_per_second: f64,
    /// Corrected, of good answers; none without.
    pub p50_us: Option<u64>,
    /// The same.
    pub p99_us: Option<u64>,
}

/// What became of a load.
#[derive(Debug)]
pub struct Report {
    /// One a rate.
    pub steps: Vec<Step>,
    /// Over time.
    pub moments: Vec<Moment>,
    /// What the service acknowledged to keep, in hex; where answers are compared.
    pub acknowledged: Vec<String>,
}

impl Report {
    /// Whether in each step 99 % of what was due left in its time or soon after.
    pub fn is_offered(&self) -> bool {
        self.steps.iter().all(Step::is_offered)
    }

    /// Whether of what was not offered most found no connection free, because all waited for answers.
    pub fn is_crowded(&self) -> bool {
        let late = |step: &Step| step.due as f64 * (1.0 - step.offered_share);
        let late: f64 = self.steps.iter().map(late).sum();
        let crowded: u64 = self.steps.iter().map(|step| step.crowded).sum();
        2.0 * crowded as f64 > late
    }

    /// Requests that were not answered, or with neither 200 nor 503.
    pub fn failed(&self) -> u64 {
        let of = |step: &Step| step.other + step.timeouts + step.errors;
        self.steps.iter().map(of).sum()
    }

    /// Whether not one answer was good.
    pub fn has_no_success(&self) -> bool {
        self.steps.iter().all(|step| step.good == 0)
    }

    /// Answers that were wrong.
    pub fn wrong(&self) -> u64 {
        self.steps.iter().map(|step| step.wrong).sum()
    }
}
