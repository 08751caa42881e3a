//! What is measured: cases, the subjects of each, and how a sample is timed.
//!
//! A machine's speed drifts by more than the differences that matter, so subjects are never
//! measured one after the other ([`crate::rounds`]). Each sample makes its subject anew (threads,
//! buffers, caches) and ends it, so that no subject runs beside the idle workers of another.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long one sample takes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Calls made first and not counted: caches fill, threads find their places, pools learn.
    pub warm_up: Duration,
    /// Calls that count.
    pub sample: Duration,
    /// What a sample takes beside them on a small machine, to estimate a run: making and ending
    /// its subject, and calls that are longer than all of the plan.
    pub overhead: Duration,
}

impl Plan {
    /// The plan of samples that take so much beside it.
    pub fn with_overhead_ms(self, milliseconds: u64) -> Self {
        let overhead = Duration::from_millis(milliseconds);
        Plan { overhead, ..self }
    }

    /// About how long a sample takes.
    pub fn estimated_duration(&self) -> Duration {
        self.warm_up + self.sample + self.overhead
    }

    /// The mean time of one call, in ns, of calls made back to back.
    pub fn time(&self, mut call: impl FnMut()) -> f64 {
        let calls = self.calls_in_sample(&mut call);
        let repeats = repeats();
        let start = Instant::now();
        for _ in 0..calls {
            (0..repeats).for_each(|_| call());
        }
        nanoseconds(start.elapsed()) / calls as f64
    }

    /// The mean time of one call, in ns, where `between` runs before each call and is not counted.
    pub fn time_with_setup(&self, mut between: impl FnMut(), mut call: impl FnMut()) -> f64 {
        let calls = self.calls_in_sample(|| {
            between();
            call();
        });
        let mut total = Duration::ZERO;
        for _ in 0..calls {
            between();
            let start = Instant::now();
            (0..repeats()).for_each(|_| call());
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

/// How often a counted call is made. Relaxed: a sample begins and ends on one thread.
static REPEATS: AtomicU32 = AtomicU32::new(1);

fn repeats() -> u32 {
    REPEATS.load(Ordering::Relaxed)
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
    pub(crate) name: String,
    pub(crate) sample: Sample,
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

    /// The subject with each of its counted calls made twice: half as fast, to see whether that is
    /// noticed.
    pub fn slowed(self) -> Self {
        self.within(|sample| {
            REPEATS.store(2, Ordering::Relaxed);
            let values = sample();
            REPEATS.store(1, Ordering::Relaxed);
            values
        })
    }

    /// The subject under another name.
    pub fn named(self, name: String) -> Self {
        Subject { name, ..self }
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

    /// About how long the planned rounds take: each subject's samples, and the first one's A/A control.
    pub fn estimated_duration(&self) -> Duration {
        let slots = self.subjects.len() + usize::from(self.compared);
        self.plan.estimated_duration() * (self.rounds * slots) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Plan = Plan {
        warm_up: Duration::ZERO,
        sample: Duration::ZERO,
        overhead: Duration::ZERO,
    };

    #[test]
    fn the_warm_up_is_not_counted() {
        let mut calls = 0;
        assert!(SHORT.time(|| calls += 1) >= 0.0);
        assert!(calls >= 2, "one call to warm up, at least one that counts");
    }

    #[test]
    fn a_slowed_subject_makes_each_counted_call_twice() {
        let calls = std::rc::Rc::new(std::cell::Cell::new(0));
        let counted = calls.clone();
        let subject = Subject::new("creel", move |plan| {
            Ok(plan.time(|| counted.set(counted.get() + 1)))
        });
        (subject.slowed().sample)(&SHORT).unwrap();
        assert_eq!(
            calls.get(),
            3,
            "one to warm up, one counted as often as two"
        );
    }
}
