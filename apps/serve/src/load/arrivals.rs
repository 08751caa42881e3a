//! The schedule of a load: the times at which requests are due.

use std::time::{Duration, Instant};

use super::plan::{Arrivals, Plan};

/// A request of the schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Due {
    pub(super) at: Instant,
    /// The index of its step.
    pub(super) step: usize,
    /// The number of the request, starting at 0.
    pub(super) number: u64,
}

/// Generates all requests of a load in the order of their times.
#[derive(Debug)]
pub(super) struct Schedule {
    rates: Vec<f64>,
    step_s: f64,
    is_ramp: bool,
    arrivals: Arrivals,
    random: Random,
    started: Instant,
    /// The step of the last request.
    step: usize,
    /// The time of the last request, in seconds since the start of its step.
    within_s: f64,
    number: u64,
}

impl Schedule {
    pub(super) fn new(plan: &Plan, started: Instant) -> Schedule {
        Schedule {
            rates: plan.rates.clone(),
            step_s: plan.step.as_secs_f64(),
            is_ramp: plan.is_ramp,
            arrivals: plan.arrivals,
            random: Random(plan.seed),
            started,
            step: 0,
            within_s: 0.0,
            number: 0,
        }
    }

    /// Returns the number of steps of a list of rates.
    pub(super) fn steps(rates: usize, is_ramp: bool) -> usize {
        if is_ramp {
            rates.saturating_sub(1)
        } else {
            rates
        }
    }

    /// Returns the next request, or `None` at the end.
    pub(super) fn next(&mut self) -> Option<Due> {
        // The gap before the next request, as a multiple of the mean gap. Since the rate may
        // change, we use it as the number of requests that are expected within the gap.
        let mut remaining = match self.arrivals {
            Arrivals::Constant => 1.0,
            Arrivals::Poisson => -(1.0 - self.random.unit()).ln(),
        };
        loop {
            let (rate, slope) = self.rate()?;
            let left_s = self.step_s - self.within_s;
            let to_come = rate * left_s + slope * left_s * left_s / 2.0;
            if to_come > remaining {
                // We solve for the time at which the integral of the rate equals `remaining`. This
                // form also works for a constant rate.
                let root = (rate * rate + 2.0 * slope * remaining).max(0.0).sqrt();
                self.within_s += (2.0 * remaining / (rate + root)).min(left_s);
                break;
            }
            remaining -= to_come;
            self.step += 1;
            self.within_s = 0.0;
        }
        let number = self.number;
        self.number += 1;
        let at_s = self.step as f64 * self.step_s + self.within_s;
        let at = self.started + Duration::from_secs_f64(at_s);
        Some(Due {
            at,
            step: self.step,
            number,
        })
    }

    /// Returns the steps of all remaining requests that were due by that time.
    pub(super) fn overdue(&mut self, by: Instant) -> Vec<usize> {
        let due = std::iter::from_fn(|| self.next()).take_while(|due| due.at <= by);
        due.map(|due| due.step).collect()
    }

    /// Returns the current rate and its change per second, or `None` at the end.
    fn rate(&self) -> Option<(f64, f64)> {
        let from = *self.rates.get(self.step)?;
        if !self.is_ramp {
            return Some((from, 0.0));
        }
        let to = *self.rates.get(self.step + 1)?;
        let slope = (to - from) / self.step_s;
        Some((from + slope * self.within_s, slope))
    }
}

/// A pseudo-random number generator.
///
/// Source: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to 1, excluding 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(rates: &[f64], is_ramp: bool, arrivals: Arrivals) -> Schedule {
        Schedule {
            rates: rates.to_vec(),
            step_s: 10.0,
            is_ramp,
            arrivals,
            random: Random(1),
            started: Instant::now(),
            step: 0,
            within_s: 0.0,
            number: 0,
        }
    }

    fn counts(mut schedule: Schedule, steps: usize) -> Vec<usize> {
        let mut counts = vec![0; steps];
        let end = schedule.started + Duration::from_secs(3600);
        schedule
            .overdue(end)
            .into_iter()
            .for_each(|step| counts[step] += 1);
        counts
    }

    #[test]
    fn constant_arrivals_match_the_rate() {
        let counts = counts(schedule(&[100.0, 300.0], false, Arrivals::Constant), 2);
        assert!((999..=1000).contains(&counts[0]), "{counts:?}");
        assert!((2999..=3001).contains(&counts[1]), "{counts:?}");
    }

    #[test]
    fn poisson_arrivals_match_the_rate_and_distribution() {
        let mut schedule = schedule(&[1000.0], false, Arrivals::Poisson);
        let times: Vec<Instant> = std::iter::from_fn(|| schedule.next())
            .map(|due| due.at)
            .collect();
        assert!((9_500..10_500).contains(&times.len()), "{}", times.len());
        let gaps = times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1000.0);
        // The share of gaps above the mean is 1/e.
        let long = gaps.filter(|gap| *gap > 1.0).count() as f64 / times.len() as f64;
        assert!((long - 0.368).abs() < 0.03, "{long}");
    }

    #[test]
    fn the_rate_of_a_ramp_changes_linearly() {
        let counts = counts(schedule(&[0.0, 200.0, 200.0], true, Arrivals::Constant), 2);
        assert!((995..=1000).contains(&counts[0]), "{counts:?}");
        assert!((1998..=2002).contains(&counts[1]), "{counts:?}");
    }
}
