//! Rounds: each round takes one sample of every subject of a case.
//!
//! Each round begins with another subject, so that no subject always runs first.
//!
//! If the case compares its subjects, the first one also has an *A/A control*, which means that we
//! sample it twice in every round. The difference between the two is noise.
//!
//! After the planned rounds, a subject is *inconclusive* if it may differ from the subject that it
//! is compared with, but the error is too large to decide. While there is time for extra samples
//! ([`ExtraTime`]), inconclusive subjects get as many samples again. The subjects that they are
//! compared with, the first subject and its A/A control get them, too. The number of extra samples
//! does not depend on their results, because a measurement that stops as soon as it shows a
//! difference is often wrong.
//!
//! We do not reject outliers. Reports show minimum, median and maximum as measured, and
//! [`creel_stats`] decides what is a difference.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use creel_console::{Interrupt, Progress};

use crate::costs::{self, Costs};
use crate::harness::{Case, Metric, ONE_THREAD, Subject};
use crate::sweep;
use creel_stats::{Estimate, Summary};

/// A sample: its values and its costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// One value per metric of the case.
    pub values: Vec<f64>,
    /// The CPU time, the context switches and the memory of the sample.
    pub costs: Costs,
}

/// The samples of a case after all rounds.
#[derive(Debug)]
pub struct Measured {
    /// The name of the case.
    pub case: String,
    /// The meaning of the values.
    pub metrics: Vec<Metric>,
    /// Whether the ratios of two subjects have a meaning.
    pub compared: bool,
    names: Vec<String>,
    /// The samples by subject and round. Inconclusive subjects have more rounds.
    samples: Vec<Vec<Sample>>,
    /// The second samples of the first subject.
    aa_control: Vec<Sample>,
}

/// Returns the subjects that need extra samples, given the samples so far.
pub type InconclusiveBy<'a> = &'a dyn Fn(&Measured) -> Vec<usize>;

/// The time for the extra samples of inconclusive subjects: a share of the time that the planned
/// rounds have taken so far. When it is used up, subjects stay inconclusive.
#[derive(Debug)]
pub struct ExtraTime {
    used: f64,
    granted: f64,
}

impl ExtraTime {
    /// The time for extra samples as a share of the time that the planned rounds have taken.
    pub const SHARE: f64 = 0.25;

    /// Creates a budget that has no time yet.
    pub fn new() -> Self {
        ExtraTime {
            used: 0.0,
            granted: 0.0,
        }
    }

    /// Adds time to the budget after planned rounds that took `seconds`.
    fn grant(&mut self, seconds: f64) {
        self.granted += Self::SHARE * seconds;
    }

    /// Takes `seconds` from the budget and returns true, if some time is left. The last call that
    /// succeeds may exceed the budget.
    fn spend(&mut self, seconds: f64) -> bool {
        let is_left = self.used < self.granted;
        if is_left {
            self.used += seconds;
        }
        is_left
    }
}

impl Case {
    /// Measures all subjects in all planned rounds, and then the inconclusive ones again.
    ///
    /// A subject is inconclusive by its own samples, or because `inconclusive_by` returns it.
    /// Without `inconclusive_by`, there are no extra samples. The unit of progress is a millisecond
    /// of the plan.
    ///
    /// # Errors
    ///
    /// Returns the first error of a subject, or an error after an interrupt. The samples so far are
    /// dropped.
    pub fn measure(
        self,
        progress: &Progress,
        interrupt: &Interrupt,
        inconclusive_by: Option<InconclusiveBy>,
        mut extra_time: Option<&mut ExtraTime>,
    ) -> anyhow::Result<Measured> {
        let begin = Instant::now();
        let weight = self.plan.estimated_duration().as_millis() as u64;
        let count = self.subjects.len();
        let mut names = Vec::new();
        let mut subjects = self.subjects;
        names.extend(subjects.iter().map(|subject| subject.name.clone()));
        let mut measured = Measured {
            case: self.name,
            metrics: self.metrics,
            compared: self.compared,
            names,
            samples: vec![Vec::with_capacity(self.rounds); count],
            aa_control: Vec::new(),
        };
        let sample = |case: &str, subject: &mut Subject| -> anyhow::Result<Sample> {
            interrupt.check()?;
            progress.set_message(format!("{case}: {}", subject.name));
            let meter = costs::Meter::start();
            let taken = (subject.sample)(&self.plan);
            if taken.is_err() {
                // Ctrl+C also interrupts the processes of a subject. We check for the interrupt
                // first, because it is the reason for their failure.
                interrupt.check()?;
            }
            let values =
                taken.with_context(|| format!("cannot measure {} in case {case}", subject.name))?;
            let costs = meter.stop();
            progress.advance(weight);
            Ok(black_box(Sample { values, costs }))
        };
        let mut turns: Vec<Turn> = (0..count).map(Turn::Subject).collect();
        if measured.compared {
            turns.insert(count.div_ceil(2), Turn::AaControl);
        }
        let mut rounds = |turns: &[Turn], measured: &mut Measured| -> anyhow::Result<()> {
            for round in 0..self.rounds {
                for turn in 0..turns.len() {
                    match turns[(round + turn) % turns.len()] {
                        Turn::Subject(index) => {
                            let taken = sample(&measured.case, &mut subjects[index])?;
                            measured.samples[index].push(taken);
                        }
                        Turn::AaControl => {
                            let taken = sample(&measured.case, &mut subjects[0])?;
                            measured.aa_control.push(taken);
                        }
                    }
                }
            }
            Ok(())
        };
        rounds(&turns, &mut measured)?;
        let inconclusive: Vec<usize> = inconclusive_by.map_or(Vec::new(), |inconclusive_by| {
            let mut inconclusive = measured.inconclusive();
            inconclusive.extend(inconclusive_by(&measured));
            inconclusive
        });
        let planned = begin.elapsed().as_secs_f64();
        if let Some(extra_time) = &mut extra_time {
            extra_time.grant(planned);
        }
        if !inconclusive.is_empty() && measured.compared {
            let bases: Vec<usize> = inconclusive.iter().map(|&s| measured.first_of(s)).collect();
            let is_resampled = |turn: &Turn| match turn {
                Turn::Subject(index) => {
                    *index == 0 || inconclusive.contains(index) || bases.contains(index)
                }
                Turn::AaControl => true,
            };
            let all = turns.len() as f64;
            turns.retain(is_resampled);
            let extra_seconds = planned * turns.len() as f64 / all;
            if extra_time.is_none_or(|extra_time| extra_time.spend(extra_seconds)) {
                progress.add((turns.len() * self.rounds) as u64 * weight);
                rounds(&turns, &mut measured)?;
            }
        }
        Ok(measured)
    }
}

/// One of the samples of a round: that of a subject, or the second sample of the first subject for
/// the A/A control.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    Subject(usize),
    AaControl,
}

impl Measured {
    /// Returns the names of the subjects. The recommended one is the first.
    pub fn subjects(&self) -> &[String] {
        &self.names
    }

    /// Returns the samples of a subject by round.
    pub fn samples(&self, subject: usize) -> &[Sample] {
        &self.samples[subject]
    }

    /// Returns the summary of a subject's metric over the rounds.
    pub fn summary(&self, subject: usize, metric: usize) -> Summary {
        summary(self.samples[subject].iter().map(|s| s.values[metric]))
    }

    /// Returns the summary of one of a subject's costs over the rounds.
    pub fn cost(&self, subject: usize, cost: usize) -> Summary {
        summary(self.samples[subject].iter().map(|s| s.costs.0[cost]))
    }

    /// Returns the ratios of the first metric of two subjects, round by round.
    pub fn ratios(&self, subject: usize, other: usize) -> Vec<f64> {
        ratios(&self.samples[subject], &self.samples[other])
    }

    /// Returns the centre of the round-by-round ratios of two subjects, with its error.
    pub fn estimate(&self, subject: usize, other: usize) -> Option<Estimate> {
        Estimate::of(self.ratios(subject, other))
    }

    /// Returns the ratio of the A/A control to the first subject, or `None` without an A/A control.
    pub fn aa_control(&self) -> Option<Estimate> {
        Estimate::of(ratios(&self.aa_control, &self.samples[0]))
    }

    /// Returns how far noise alone moves a ratio from one in this case, as a logarithm.
    pub fn floor(&self) -> f64 {
        self.aa_control()
            .map_or(0.0, |aa_control| aa_control.floor())
    }

    /// Returns the subjects that may differ from the first one, but whose error is too large.
    fn inconclusive(&self) -> Vec<usize> {
        let floor = self.floor();
        let in_doubt = |&subject: &usize| {
            let estimate = self.estimate(subject, self.first_of(subject));
            estimate.is_some_and(|estimate| estimate.is_inconclusive(&[floor]))
        };
        (1..self.names.len()).filter(in_doubt).collect()
    }

    /// Returns the index of the subject `name` that does the same amount of work as `subject`.
    fn counterpart(&self, subject: usize, name: &str) -> Option<usize> {
        let name = sweep::counterpart(&self.names[subject], name);
        self.names.iter().position(|other| *other == name)
    }

    /// Returns the index of the first subject that does the same amount of work as `subject`.
    fn first_of(&self, subject: usize) -> usize {
        self.counterpart(subject, &self.names[0]).unwrap_or(0)
    }

    /// Returns the subjects that a subject is compared with: `one thread`, if there is one, and
    /// then the first subject.
    pub fn compared_with(&self, subject: usize) -> Vec<usize> {
        if !self.compared {
            return Vec::new();
        }
        let first = self.first_of(subject);
        let one_thread = self.counterpart(subject, ONE_THREAD).into_iter();
        let one_thread = one_thread.filter(|&index| index != first);
        one_thread.chain([first]).collect()
    }
}

fn summary(values: impl Iterator<Item = f64>) -> Summary {
    let values: Vec<f64> = values.collect();
    Summary::of(&values).expect("a case has at least one round")
}

fn ratios(values: &[Sample], others: &[Sample]) -> Vec<f64> {
    let pairs = values.iter().zip(others);
    pairs.map(|(s, o)| s.values[0] / o.values[0]).collect()
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;
    use crate::harness::Plan;
    use creel_stats::noise::Noise;

    /// Returns a case with these subjects.
    pub fn case(rounds: usize, subjects: Vec<Subject>) -> Case {
        Case {
            name: "hot".into(),
            metrics: vec![Metric {
                name: "time",
                unit: "ns a call",
            }],
            compared: true,
            plan: Plan {
                warm_up: Duration::ZERO,
                sample: Duration::ZERO,
                overhead: Duration::from_millis(1),
            },
            rounds,
            subjects,
        }
    }

    /// Returns a subject that takes `time` ns on average, with noise.
    pub fn noisy(name: &str, time: f64, seed: u64) -> Subject {
        let mut noise = Noise(seed);
        Subject::new(name, move |_| Ok(time * noise.factor()))
    }

    pub fn measure(case: Case) -> Measured {
        let progress = Progress::new(1, "samples", true);
        case.measure(&progress, &Interrupt::default(), Some(&|_| vec![]), None)
            .unwrap()
    }

    #[test]
    fn ratios_within_a_round_cancel_drift() {
        let drifting = |name: &str, factor: f64| {
            let mut drift = 0.0;
            Subject::new(name, move |_| {
                drift += 10.0;
                Ok(drift * factor)
            })
        };
        let mut case = case(4, vec![drifting("creel", 1.0), drifting("one thread", 2.0)]);
        case.compared = false;
        let progress = Progress::new(8, "samples", true);
        let measured = case.measure(&progress, &Interrupt::default(), Some(&|_| vec![]), None);
        let measured = measured.unwrap();
        assert_eq!(progress.done(), 8);
        let summary = measured.summary(0, 0);
        assert_eq!(
            (summary.min, summary.median, summary.max),
            (10.0, 25.0, 40.0)
        );
        let mean = (10.0f64 * 20.0 * 30.0 * 40.0).powf(0.25);
        assert!((summary.geometric_mean.unwrap() - mean).abs() < 1e-9);
        assert_eq!(measured.ratios(0, 1), [0.5; 4]);
    }

    #[test]
    fn only_inconclusive_subjects_get_extra_samples() {
        let subjects = vec![
            noisy("creel", 100.0, 1),
            noisy("one thread", 400.0, 2),
            noisy("rayon", 112.0, 3),
        ];
        let measured = measure(case(5, subjects));
        let counts = [0, 1, 2].map(|subject| measured.samples(subject).len());
        assert_eq!(counts, [10, 5, 10]);
        assert_eq!(measured.aa_control.len(), 10);
        assert_eq!(measured.compared_with(2), [1, 0]);
    }

    #[test]
    fn extra_time_is_a_share_of_the_planned_time() {
        let mut extra_time = ExtraTime::new();
        assert!(!extra_time.spend(1.0), "no time was granted yet");
        extra_time.grant(100.0);
        assert!(extra_time.spend(20.0) && extra_time.spend(60.0));
        assert!(!extra_time.spend(0.1));
        extra_time.grant(1000.0);
        assert!(extra_time.spend(0.1));
        let subjects = || vec![noisy("creel", 100.0, 1), noisy("rayon", 900.0, 2)];
        let (progress, interrupt) = (Progress::new(1, "samples", true), Interrupt::default());
        let mut used_up = ExtraTime {
            used: 1e9,
            granted: 0.0,
        };
        let case = case(7, subjects());
        let measured = case.measure(
            &progress,
            &interrupt,
            Some(&|_| vec![1]),
            Some(&mut used_up),
        );
        assert_eq!(measured.unwrap().samples(1).len(), 7);
    }

    #[test]
    fn the_caller_may_name_inconclusive_subjects() {
        let subjects = || vec![noisy("creel", 100.0, 1), noisy("rayon", 900.0, 2)];
        let progress = Progress::new(1, "samples", true);
        let measured =
            case(7, subjects()).measure(&progress, &Interrupt::default(), Some(&|_| vec![1]), None);
        assert_eq!(measured.unwrap().samples(1).len(), 14);
        assert_eq!(measure(case(7, subjects())).samples(1).len(), 7);
    }

    #[test]
    fn an_interrupt_ends_the_measurement_between_two_samples() {
        let progress = Progress::new(8, "samples", true);
        let interrupt = Interrupt::default();
        interrupt.request();
        let case = case(4, vec![noisy("creel", 1.0, 1)]);
        assert!(case.measure(&progress, &interrupt, None, None).is_err());
        assert_eq!(progress.done(), 0);
    }
}
