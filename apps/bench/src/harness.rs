//! Measures subjects beside each other: round after round, one sample of each subject a round.
//!
//! A machine's speed drifts by more than the differences that matter, so subjects are never
//! measured one after the other. Each sample makes its subject anew (threads, buffers, caches)
//! and ends it, so that no subject runs beside the idle workers of another. A ratio compares two
//! samples of the same round, and the median of these ratios is reported.
//!
//! Left out on purpose: outlier rejection and fitted distributions. Minimum, median and maximum
//! are shown as measured.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Context;
use creel_console::{Interrupt, Progress};

/// How long one sample takes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Calls made first and not counted: caches fill, threads find their places, pools learn.
    pub warm_up: Duration,
    /// Calls that count.
    pub sample: Duration,
}

impl Plan {
    /// The mean time of one call, in ns, of calls made back to back.
    pub fn time(&self, mut call: impl FnMut()) -> f64 {
        let calls = self.calls_in_sample(&mut call);
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        nanoseconds(start.elapsed()) / calls as f64
    }

    /// The mean time of one call, in ns, where `between` runs before each call and is not counted.
    pub fn time_apart(&self, mut between: impl FnMut(), mut call: impl FnMut()) -> f64 {
        let calls = self.calls_in_sample(|| {
            between();
            call();
        });
        let mut total = Duration::ZERO;
        for _ in 0..calls {
            between();
            let start = Instant::now();
            call();
            total += start.elapsed();
        }
        nanoseconds(total) / calls as f64
    }

    /// Warms up, and from that the number of calls that fill a sample, at least one.
    fn calls_in_sample(&self, mut call: impl FnMut()) -> u64 {
        let start = Instant::now();
        let mut calls = 0u64;
        let warm = loop {
            call();
            calls += 1;
            let elapsed = start.elapsed();
            if elapsed >= self.warm_up {
                break elapsed;
            }
        };
        let calls = self.sample.as_secs_f64() / warm.as_secs_f64() * calls as f64;
        (calls as u64).max(1)
    }
}

fn nanoseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

/// The subject that has no workers.
pub const ONE_THREAD: &str = "one thread";

/// What a sample's value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// As printed: "time", "speed", "peak memory".
    pub name: &'static str,
    /// As printed: "ns a call", "frames/s".
    pub unit: &'static str,
}

/// Makes a subject, warms it up, measures it and ends it; a value for each metric of its case.
type Sample = Box<dyn FnMut(&Plan) -> anyhow::Result<Vec<f64>>>;

/// Takes one sample, wherever it is called.
type Taken<'a> = &'a mut dyn FnMut() -> anyhow::Result<Vec<f64>>;

/// One thing that is measured: a pool with its setting, or a peer.
pub struct Subject {
    name: String,
    sample: Sample,
}

impl Subject {
    /// A subject whose `sample` makes it, warms it up and gives the mean of one call.
    pub fn new(
        name: impl Into<String>,
        mut sample: impl FnMut(&Plan) -> anyhow::Result<f64> + 'static,
    ) -> Self {
        Subject::with_metrics(name, move |plan| Ok(vec![sample(plan)?]))
    }

    /// A subject whose `sample` gives a value for each of its case's metrics.
    pub fn with_metrics(
        name: impl Into<String>,
        sample: impl FnMut(&Plan) -> anyhow::Result<Vec<f64>> + 'static,
    ) -> Self {
        Subject {
            name: name.into(),
            sample: Box::new(sample),
        }
    }

    /// The subject with each of its samples taken inside `around`, which calls it once.
    pub fn within(mut self, around: impl Fn(Taken) -> anyhow::Result<Vec<f64>> + 'static) -> Self {
        let sample = move |plan: &Plan| around(&mut || (self.sample)(plan));
        Subject::with_metrics(self.name, sample)
    }
}

/// Subjects that do the same work. The first is the one recommended.
pub struct Case {
    /// As in the schema: "hot", "jobs 2".
    pub name: String,
    /// The first is the case's time or speed.
    pub metrics: Vec<Metric>,
    /// Whether a subject's first metric over another's says something. The others are compared
    /// with the first subject and with `one thread`.
    pub compared: bool,
    /// A sample's length.
    pub plan: Plan,
    /// The number of rounds.
    pub rounds: usize,
    /// What is measured.
    pub subjects: Vec<Subject>,
}

impl Case {
    /// Drops the subjects whose names do not pass.
    pub fn retain_subjects(&mut self, pass: impl Fn(&str) -> bool) {
        self.subjects.retain(|subject| pass(&subject.name));
    }

    /// How many samples the case takes.
    pub fn samples(&self) -> u64 {
        (self.rounds * self.subjects.len()) as u64
    }

    /// Measures all subjects in turn, for all rounds.
    ///
    /// # Errors
    ///
    /// The first that a subject gives, or an interrupt; what was measured so far is dropped.
    pub fn measure(
        mut self,
        progress: &Progress,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Measured> {
        let count = self.subjects.len();
        let mut samples = vec![Vec::with_capacity(self.rounds); count];
        for round in 0..self.rounds {
            // Each round begins with another subject, so that none is always the first after
            // the same neighbour.
            for turn in 0..count {
                interrupt.check()?;
                let index = (round + turn) % count;
                let subject = &mut self.subjects[index];
                progress.set_message(format!("{}: {}", self.name, subject.name));
                let taken = (subject.sample)(&self.plan);
                if taken.is_err() {
                    // The signal that asked for the end also reached a subject's processes.
                    interrupt.check()?;
                }
                let values =
                    taken.with_context(|| format!("case {}: {}", self.name, subject.name))?;
                samples[index].push(black_box(values));
                progress.advance(1);
            }
        }
        let names = self
            .subjects
            .into_iter()
            .map(|subject| subject.name)
            .collect();
        Ok(Measured {
            case: self.name,
            metrics: self.metrics,
            compared: self.compared,
            names,
            samples,
        })
    }
}

/// A case's samples.
#[derive(Debug)]
pub struct Measured {
    /// The case's name.
    pub case: String,
    /// What the values mean.
    pub metrics: Vec<Metric>,
    compared: bool,
    names: Vec<String>,
    /// By subject, round, metric.
    samples: Vec<Vec<Vec<f64>>>,
}

/// Minimum, median and maximum over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The one in the middle, or the mean of the two there.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// The geometric mean.
    pub mean: f64,
}

impl Spread {
    fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let logarithms = values.iter().map(|value| value.ln());
        let mean = (logarithms.sum::<f64>() / count as f64).exp();
        let median = (values[(count - 1) / 2] + values[count / 2]) / 2.0;
        Spread {
            min: values[0],
            median,
            max: values[count - 1],
            mean,
        }
    }
}

impl Measured {
    /// The subjects' names, the recommended first.
    pub fn subjects(&self) -> &[String] {
        &self.names
    }

    /// The number of samples of each subject.
    pub fn rounds(&self) -> usize {
        self.samples[0].len()
    }

    /// A subject's values of a metric over the rounds.
    pub fn spread(&self, subject: usize, metric: usize) -> Spread {
        Spread::of(self.samples[subject].iter().map(|values| values[metric]))
    }

    /// A subject's first metric over that of `other`, round by round.
    pub fn ratio(&self, subject: usize, other: usize) -> Spread {
        let pairs = self.samples[subject].iter().zip(&self.samples[other]);
        Spread::of(pairs.map(|(values, others)| values[0] / others[0]))
    }

    /// Those that the others are compared with: `one thread` where it is a subject, then the
    /// first.
    pub fn compared_with(&self) -> Vec<usize> {
        if !self.compared {
            return Vec::new();
        }
        let one_thread = self.names.iter().position(|name| name == ONE_THREAD);
        one_thread
            .into_iter()
            .filter(|&index| index != 0)
            .chain([0])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(rounds: usize) -> Case {
        let mut drift = 0.0;
        let steady = Subject::new("creel", move |_| {
            drift += 10.0;
            Ok(drift)
        });
        let mut drift = 0.0;
        let twice = Subject::new("one thread", move |_| {
            drift += 20.0;
            Ok(drift)
        });
        let plan = Plan {
            warm_up: Duration::ZERO,
            sample: Duration::ZERO,
        };
        let metrics = vec![Metric {
            name: "time",
            unit: "ns a call",
        }];
        let subjects = vec![steady, twice];
        Case {
            name: "hot".into(),
            metrics,
            compared: true,
            plan,
            rounds,
            subjects,
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round_so_a_drift_cancels() {
        let progress = Progress::new(8, "samples", true);
        let measured = case(4).measure(&progress, &Interrupt::default()).unwrap();
        assert_eq!(progress.done(), 8);
        let spread = measured.spread(0, 0);
        assert_eq!((spread.min, spread.median, spread.max), (10.0, 25.0, 40.0));
        let mean = (10.0f64 * 20.0 * 30.0 * 40.0).powf(0.25);
        assert!((spread.mean - mean).abs() < 1e-9);
        let ratio = measured.ratio(0, 1);
        assert_eq!((ratio.min, ratio.median, ratio.max), (0.5, 0.5, 0.5));
        assert_eq!(measured.compared_with(), [1, 0]);
    }

    #[test]
    fn an_interrupt_ends_it_between_two_samples() {
        let progress = Progress::new(8, "samples", true);
        let interrupt = Interrupt::default();
        interrupt.request();
        assert!(case(4).measure(&progress, &interrupt).is_err());
        assert_eq!(progress.done(), 0);
    }

    #[test]
    fn only_what_comes_after_the_warm_up_counts() {
        let plan = Plan {
            warm_up: Duration::ZERO,
            sample: Duration::ZERO,
        };
        let mut calls = 0;
        assert!(plan.time(|| calls += 1) >= 0.0);
        assert_eq!(calls, 2, "one call to warm up, at least one that counts");
    }
}
