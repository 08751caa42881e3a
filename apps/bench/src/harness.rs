//! Cases, their subjects, and the timing of a sample.
//!
//! The speed of a machine drifts by more than the differences that matter. Therefore, we never
//! measure all samples of one subject before those of the next ([`crate::rounds`]). Each sample
//! creates its subject with its threads and buffers, and ends it. This way, no subject runs next to
//! the idle workers of another one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The length of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The time for the first calls, which do not count. Meanwhile caches fill, the OS places the
    /// threads, and pools adapt to the loop.
    pub warm_up: Duration,
    /// The time for the calls that count.
    pub sample: Duration,
    /// The additional time of a sample on a small machine, which we use to estimate the duration of
    /// a run. For example, creating and ending the subject takes time, and a single call can be
    /// longer than the plan.
    pub overhead: Duration,
}

impl Plan {
    /// Returns the plan with another overhead.
    pub fn with_overhead_ms(self, milliseconds: u64) -> Self {
        let overhead = Duration::from_millis(milliseconds);
        Plan { overhead, ..self }
    }

    /// Returns the estimated duration of a sample.
    pub fn estimated_duration(&self) -> Duration {
        self.warm_up + self.sample + self.overhead
    }

    /// Makes calls without a pause between them, and returns the mean time of a call in ns.
    pub fn time(&self, mut call: impl FnMut()) -> f64 {
        let calls = self.calls_in_sample(&mut call);
        let repeats = repeats();
        let start = Instant::now();
        for _ in 0..calls {
            (0..repeats).for_each(|_| call());
        }
        nanoseconds(start.elapsed()) / calls as f64
    }

    /// Returns the mean time of a call in ns. Before each call, runs `between`, whose time does not
    /// count.
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

    /// Makes calls until the warm-up is over. From their speed, returns the number of calls that
    /// fill a sample, which is at least one.
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

/// The number of times that each counted call is made. Relaxed is enough, because a sample begins
/// and ends on the same thread.
static REPEATS: AtomicU32 = AtomicU32::new(1);

fn repeats() -> u32 {
    REPEATS.load(Ordering::Relaxed)
}

fn nanoseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

/// The name of the subject that runs the work in an ordinary loop, on one thread and without any
/// library.
pub const ONE_THREAD: &str = "one thread";

/// The meaning of one value of a sample: its name and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name as printed, for example "time", "speed" or "peak memory".
    pub name: &'static str,
    /// The unit as printed, for example "ns a call" or "frames/s".
    pub unit: &'static str,
}

/// Creates a subject, warms it up, measures it and ends it. Returns one value per metric of its
/// case.
type Sample = Box<dyn FnMut(&Plan) -> anyhow::Result<Vec<f64>>>;

/// A function that takes one sample. [`Subject::within`] passes it to the closure of its caller.
type Taken<'a> = &'a mut dyn FnMut() -> anyhow::Result<Vec<f64>>;

/// A subject, which is one row of a table: a pool with its settings, or a peer.
pub struct Subject {
    pub(crate) name: String,
    pub(crate) sample: Sample,
}

impl Subject {
    /// Creates a subject. Its `sample` returns the mean of one call.
    pub fn new(
        name: impl Into<String>,
        mut sample: impl FnMut(&Plan) -> anyhow::Result<f64> + 'static,
    ) -> Self {
        Subject::with_metrics(name, move |plan| Ok(vec![sample(plan)?]))
    }

    /// Creates a subject. Its `sample` returns one value per metric of its case.
    pub fn with_metrics(
        name: impl Into<String>,
        sample: impl FnMut(&Plan) -> anyhow::Result<Vec<f64>> + 'static,
    ) -> Self {
        Subject {
            name: name.into(),
            sample: Box::new(sample),
        }
    }

    /// Returns a subject that makes each counted call twice, so that it is half as fast. We use it
    /// to test whether `--compare` detects this.
    pub fn slowed(self) -> Self {
        self.within(|sample| {
            REPEATS.store(2, Ordering::Relaxed);
            let values = sample();
            REPEATS.store(1, Ordering::Relaxed);
            values
        })
    }

    /// Returns the subject with another name.
    pub fn named(self, name: String) -> Self {
        Subject { name, ..self }
    }

    /// Returns a subject that takes each of its samples inside `around`. `around` must call its
    /// argument once.
    pub fn within(mut self, around: impl Fn(Taken) -> anyhow::Result<Vec<f64>> + 'static) -> Self {
        let sample = move |plan: &Plan| around(&mut || (self.sample)(plan));
        Subject::with_metrics(self.name, sample)
    }
}

/// A case, which is a group of subjects that do the same work and are compared with each other. The
/// first subject has the settings that we recommend.
pub struct Case {
    /// The name as in the schema, for example "hot" or "jobs 2".
    pub name: String,
    /// The metrics. The first one is the time or the speed.
    pub metrics: Vec<Metric>,
    /// Whether it makes sense to divide the first metrics of two subjects. If so, each subject is
    /// compared with the first subject and with `one thread`.
    pub compared: bool,
    /// The length of a sample.
    pub plan: Plan,
    /// The number of rounds.
    pub rounds: usize,
    /// The subjects. The recommended one is the first.
    pub subjects: Vec<Subject>,
}

impl Case {
    /// Keeps only the subjects for whose names `pass` returns true.
    pub fn retain_subjects(&mut self, pass: impl Fn(&str) -> bool) {
        self.subjects.retain(|subject| pass(&subject.name));
    }

    /// Returns the estimated duration of the planned rounds. A round has one sample of each
    /// subject, and one of the A/A control if the case compares its subjects.
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
        assert!(calls >= 2, "one call warms up, and at least one counts");
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
            "one call warms up, and one counted call is made twice"
        );
    }
}
