//! Counts the outcomes of requests by step and over time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use creel_stats::Histogram;

use super::arrivals::{Due, Schedule};
use super::outcome::Outcome;
use super::plan::Plan;
use super::report::{Latency, Moment, Report, Step};

/// A request that leaves later than this after it was due is late.
pub(super) const LATE: Duration = Duration::from_millis(50);
/// The approximate number of points in the results over time.
const MOMENTS: f64 = 120.0;

/// The counts of one step.
struct Counts {
    due: u64,
    crowded: u64,
    sent: u64,
    in_time: u64,
    good: u64,
    refused: u64,
    other: u64,
    wrong: u64,
    timeouts: u64,
    errors: u64,
    corrected: Histogram,
    uncorrected: Histogram,
    refusal: Histogram,
}

impl Counts {
    fn new() -> Counts {
        Counts {
            due: 0,
            crowded: 0,
            sent: 0,
            in_time: 0,
            good: 0,
            refused: 0,
            other: 0,
            wrong: 0,
            timeouts: 0,
            errors: 0,
            corrected: Histogram::default(),
            uncorrected: Histogram::default(),
            refusal: Histogram::default(),
        }
    }
}

/// The counts of a short time.
struct Bucket {
    due: u64,
    good: u64,
    refused: u64,
    failed: u64,
    corrected: Vec<u32>,
}

/// The counts of a load while it runs.
pub(super) struct Tally {
    plan: Plan,
    started: Instant,
    bucket: Duration,
    steps: Vec<Counts>,
    buckets: BTreeMap<u32, Bucket>,
    acknowledged: Vec<String>,
}

impl Tally {
    pub(super) fn new(plan: &Plan, started: Instant) -> Tally {
        let steps = Schedule::steps(plan.rates.len(), plan.is_ramp);
        Tally {
            plan: plan.clone(),
            started,
            bucket: plan
                .step
                .mul_f64(steps as f64 / MOMENTS)
                .max(Duration::from_millis(50)),
            steps: (0..steps).map(|_| Counts::new()).collect(),
            buckets: BTreeMap::new(),
            acknowledged: Vec::new(),
        }
    }

    /// Counts a request that was due and was not sent.
    pub(super) fn unsent(&mut self, step: usize) {
        if let Some(counts) = self.steps.get_mut(step) {
            counts.due += 1;
        }
    }

    /// Counts that a request was late because it found no free connection. The request itself is
    /// counted elsewhere.
    pub(super) fn crowded(&mut self, step: usize) {
        if let Some(counts) = self.steps.get_mut(step) {
            counts.crowded += 1;
        }
    }

    /// Counts a request that was sent, with its outcome.
    pub(super) fn count(
        &mut self,
        due: Due,
        left: Instant,
        answered_at: Instant,
        outcome: Outcome,
    ) {
        let Some(counts) = self.steps.get_mut(due.step) else {
            return;
        };
        let us = |from: Instant| answered_at.saturating_duration_since(from).as_micros() as u64;
        let (corrected, uncorrected) = (us(due.at), us(left));
        counts.due += 1;
        counts.sent += 1;
        counts.in_time += u64::from(left.saturating_duration_since(due.at) <= LATE);
        let at = due.at.saturating_duration_since(self.started);
        let bucket = (at.as_secs_f64() / self.bucket.as_secs_f64()) as u32;
        let bucket = self.buckets.entry(bucket).or_insert_with(|| Bucket {
            due: 0,
            good: 0,
            refused: 0,
            failed: 0,
            corrected: Vec::new(),
        });
        bucket.due += 1;
        match outcome {
            Outcome::Good(acknowledged) => {
                counts.good += 1;
                bucket.good += 1;
                bucket
                    .corrected
                    .push(u32::try_from(corrected).unwrap_or(u32::MAX));
                counts.corrected.record(corrected);
                counts.uncorrected.record(uncorrected);
                self.acknowledged.extend(acknowledged);
                return;
            }
            Outcome::Refused => {
                counts.refused += 1;
                bucket.refused += 1;
                counts.refusal.record(uncorrected);
                return;
            }
            Outcome::Other => counts.other += 1,
            Outcome::Wrong => counts.wrong += 1,
            Outcome::Failed(std::io::ErrorKind::TimedOut) => counts.timeouts += 1,
            Outcome::Failed(_) => counts.errors += 1,
        }
        bucket.failed += 1;
    }

    /// Returns the results so far.
    pub(super) fn report(&mut self, now: Instant) -> Report {
        let steps = self.steps.iter().enumerate();
        let steps = steps
            .map(|(index, counts)| self.step(index, counts, now))
            .collect();
        let buckets = std::mem::take(&mut self.buckets);
        let seconds = self.bucket.as_secs_f64();
        let moment = |(index, mut bucket): (u32, Bucket)| {
            bucket.corrected.sort_unstable();
            let of = |share: f64| {
                let last = bucket.corrected.len().checked_sub(1)?;
                bucket
                    .corrected
                    .get((last as f64 * share) as usize)
                    .map(|us| u64::from(*us))
            };
            Moment {
                at_s: (f64::from(index) + 0.5) * seconds,
                due_per_second: bucket.due as f64 / seconds,
                goodput_per_second: bucket.good as f64 / seconds,
                refused_per_second: bucket.refused as f64 / seconds,
                failed_per_second: bucket.failed as f64 / seconds,
                p50_us: of(0.5),
                p99_us: of(0.99),
            }
        };
        Report {
            steps,
            moments: buckets.into_iter().map(moment).collect(),
            cpu_wait_share: None,
            acknowledged: std::mem::take(&mut self.acknowledged),
        }
    }

    /// Returns the results of one step.
    fn step(&self, index: usize, counts: &Counts, now: Instant) -> Step {
        let rates = &self.plan.rates;
        let rate = match self.plan.is_ramp {
            true => (rates[index] + rates[index + 1]) / 2.0,
            false => rates[index],
        };
        // The load may have been stopped in the middle of the step.
        let from = self.started + self.plan.step * index as u32;
        let seconds = now
            .saturating_duration_since(from)
            .min(self.plan.step)
            .as_secs_f64();
        let due = counts.due.max(1) as f64;
        Step {
            rate_per_second: rate,
            duration_s: seconds,
            due: counts.due,
            sent: counts.sent,
            offered_share: counts.in_time as f64 / due,
            crowded: counts.crowded,
            good: counts.good,
            goodput_per_second: counts.good as f64 / seconds.max(1e-9),
            refused: counts.refused,
            other: counts.other,
            wrong: counts.wrong,
            timeouts: counts.timeouts,
            errors: counts.errors,
            corrected: Latency::of(&counts.corrected),
            uncorrected: Latency::of(&counts.uncorrected),
            refusal: Latency::of(&counts.refusal),
        }
    }
}
