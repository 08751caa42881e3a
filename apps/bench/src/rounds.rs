//! Round after round, one sample of each subject a round; and what came of it.
//!
//! Each round begins with another subject. The first subject has an *A/A control* in the rounds, a slot
//! more in which the same subject is sampled: what the two differ by is noise. After the planned
//! rounds, subjects whose difference from the first is in doubt get as many again, with the first
//! and its control beside them; how many does not depend on what they show, for who stops when he
//! likes what he sees is often wrong.
//!
//! Left out on purpose: outlier rejection. Minimum, median and maximum are shown as measured;
//! what is called a difference is decided by [`creel_stats`].

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use creel_console::{Interrupt, Progress};

use crate::costs::{self, Costs};
use crate::harness::{Case, Metric, ONE_THREAD, Subject};
use crate::sweep;
use creel_stats::{Estimate, Summary};

/// A sample's values, by the case's metrics, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// By metric.
    pub values: Vec<f64>,
    /// Beside them.
    pub costs: Costs,
}

/// A case's samples.
#[derive(Debug)]
pub struct Measured {
    /// The case's name.
    pub case: String,
    /// What the values mean.
    pub metrics: Vec<Metric>,
    /// Whether ratios say something.
    pub compared: bool,
    names: Vec<String>,
    /// By subject and round; those in doubt have more rounds.
    samples: Vec<Vec<Sample>>,
    /// Of the first subject again.
    aa_control: Vec<Sample>,
}

/// Subjects to be sampled more, by what was measured so far.
pub type InconclusiveBy<'a> = &'a dyn Fn(&Measured) -> Vec<usize>;

/// The time for inconclusive subjects, where a run is to end by a time: a share of what the planned rounds have
/// taken so far. Who is in doubt when it is used up stays in doubt, whatever he shows.
#[derive(Debug)]
pub struct ExtraTime {
    used: f64,
    granted: f64,
}

impl ExtraTime {
    /// Of the planned rounds' time.
    pub const SHARE: f64 = 0.25;

    /// Nothing yet.
    pub fn new() -> Self {
        ExtraTime {
            used: 0.0,
            granted: 0.0,
        }
    }

    /// What planned rounds took, in seconds.
    fn grant(&mut self, seconds: f64) {
        self.granted += Self::SHARE * seconds;
    }

    /// Takes so much, if something is left; the last may have more than that.
    fn spend(&mut self, seconds: f64) -> bool {
        let is_left = self.used < self.granted;
        if is_left {
            self.used += seconds;
        }
        is_left
    }
}

impl Case {
    /// Measures all subjects in turn, for all rounds, then those in doubt: by their own figures,
    /// or as `inconclusive_by` says; without it, nobody is. Progress is in milliseconds of the plan.
    ///
    /// # Errors
    ///
    /// The first that a subject gives, or an interrupt; what was measured so far is dropped.
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
                // The signal that asked for the end also reached a subject's processes.
                interrupt.check()?;
            }
            let values = taken.with_context(|| format!("case {case}: {}", subject.name))?;
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

/// Whose sample is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    Subject(usize),
    AaControl,
}

impl Measured {
    /// The subjects' names, the recommended first.
    pub fn subjects(&self) -> &[String] {
        &self.names
    }

    /// A subject's samples, by round.
    pub fn samples(&self, subject: usize) -> &[Sample] {
        &self.samples[subject]
    }

    /// A subject's values of a metric over the rounds.
    pub fn summary(&self, subject: usize, metric: usize) -> Summary {
        summary(self.samples[subject].iter().map(|s| s.values[metric]))
    }

    /// A subject's costs of a kind over the rounds.
    pub fn cost(&self, subject: usize, cost: usize) -> Summary {
        summary(self.samples[subject].iter().map(|s| s.costs.0[cost]))
    }

    /// A subject's first metric over that of `other`, round by round.
    pub fn ratios(&self, subject: usize, other: usize) -> Vec<f64> {
        ratios(&self.samples[subject], &self.samples[other])
    }

    /// The same over the first subject's, with its error.
    pub fn estimate(&self, subject: usize, other: usize) -> Option<Estimate> {
        Estimate::of(self.ratios(subject, other))
    }

    /// The first subject's A/A control over itself; nothing where nothing is compared.
    pub fn aa_control(&self) -> Option<Estimate> {
        Estimate::of(ratios(&self.aa_control, &self.samples[0]))
    }

    /// How far from one noise alone reaches here, as a logarithm.
    pub fn floor(&self) -> f64 {
        self.aa_control()
            .map_or(0.0, |aa_control| aa_control.floor())
    }

    /// Those whose difference from the first is in doubt.
    fn inconclusive(&self) -> Vec<usize> {
        let floor = self.floor();
        let in_doubt = |&subject: &usize| {
            let estimate = self.estimate(subject, self.first_of(subject));
            estimate.is_some_and(|estimate| estimate.is_inconclusive(&[floor]))
        };
        (1..self.names.len()).filter(in_doubt).collect()
    }

    /// Where the one is that is compared with a subject under this name.
    fn counterpart(&self, subject: usize, name: &str) -> Option<usize> {
        let name = sweep::counterpart(&self.names[subject], name);
        self.names.iter().position(|other| *other == name)
    }

    /// The first subject, where it does as much as this one.
    fn first_of(&self, subject: usize) -> usize {
        self.counterpart(subject, &self.names[0]).unwrap_or(0)
    }

    /// Those that a subject is compared with: `one thread` where it is a subject, then the first.
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
    Summary::of(&values).expect("at least one round")
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

    /// A case of subjects whose samples are made, each by its function of the sample's number.
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

    /// A subject that takes so long, on a machine with noise.
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
        assert!(!extra_time.spend(1.0), "nothing is earned yet");
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
    fn an_interrupt_ends_it_between_two_samples() {
        let progress = Progress::new(8, "samples", true);
        let interrupt = Interrupt::default();
        interrupt.request();
        let case = case(4, vec![noisy("creel", 1.0, 1)]);
        assert!(case.measure(&progress, &interrupt, None, None).is_err());
        assert_eq!(progress.done(), 0);
    }
}
