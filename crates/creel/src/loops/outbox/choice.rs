//! Whether an outbox is used by one thread or by several.
//!
//! Several threads have to store all messages in buckets and to fetch them from the caches of other
//! cores. If the senders do little, this costs more than several threads save, in particular if
//! another program uses one of the CPUs. Therefore an outbox measures *steps*. A step is a loop over
//! the senders together with the delivery. The outbox uses the faster way, and tries the other one
//! again from time to time.
//!
//! Both ways deliver the same messages in the same order, so this never changes a result.

/// The number of steps of the other way in a trial. We take the median, because the first step
/// allocates or finds cold caches, and a thread may be preempted in another.
const TRIALS: usize = 3;
/// The number of steps before the first trial, and between the next two. The distance doubles with
/// each trial that was in vain, up to the last value.
const FIRST_TRIAL: u32 = 2;
const EVERY_MIN: u32 = 16;
const EVERY_MAX: u32 = 512;
/// One thread always runs a step that it finishes within this time, in ns.
const WORTH_NS: u64 = 10_000;

/// Who runs a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The calling thread alone.
    Alone,
    /// All threads that the loop may use.
    Shared,
}

#[derive(Debug)]
pub(super) struct Choice {
    best: Way,
    /// The average duration of a step by each way, in ns, or 0 if it is unknown.
    average: [u64; 2],
    /// The durations of the trial that is under way.
    trial: [u64; TRIALS],
    /// The number of steps that this trial still needs.
    trials_left: usize,
    /// The number of steps until the next trial, and the distance of the one after it.
    until: u32,
    every: u32,
    /// The way that a test forces.
    #[cfg(test)]
    pub(super) forced: Option<Way>,
}

impl Choice {
    pub(super) fn new() -> Self {
        Self {
            best: Way::Alone,
            average: [0; 2],
            trial: [0; TRIALS],
            trials_left: 0,
            until: FIRST_TRIAL,
            every: EVERY_MIN,
            #[cfg(test)]
            forced: None,
        }
    }

    /// Returns the way of the next step.
    pub(super) fn way(&self) -> Way {
        #[cfg(test)]
        if let Some(forced) = self.forced {
            return forced;
        }
        match self.trials_left {
            0 => self.best,
            _ => self.other(),
        }
    }

    fn other(&self) -> Way {
        match self.best {
            Way::Alone => Way::Shared,
            Way::Shared => Way::Alone,
        }
    }

    /// Learns the duration of a step that was run in this way.
    pub(super) fn learn(&mut self, way: Way, ns: u64) {
        if way != self.best {
            self.learn_trial(ns);
            return;
        }
        let average = &mut self.average[way as usize];
        // A single step that was disturbed must not count for much.
        *average = match *average {
            0 => ns,
            average if ns < average => u64::midpoint(average, ns),
            average => average + (ns.min(4 * average) - average) / 8,
        };
        let (average, other) = (*average, self.average[self.other() as usize]);
        if other > 0 && average > other + other / 8 {
            // The trial that led to this way was misleading, or the steps have changed.
            self.best = self.other();
            self.wait_longer();
            return;
        }
        self.until = self.until.saturating_sub(1);
        if self.until == 0 && self.trials_left == 0 {
            match way == Way::Alone && average < WORTH_NS {
                true => self.until = self.every,
                false => self.trials_left = TRIALS,
            }
        }
    }

    fn learn_trial(&mut self, ns: u64) {
        // A loop may not obey the choice, for example because its pool is not sticky.
        let Some(left) = self.trials_left.checked_sub(1) else {
            return;
        };
        self.trial[left] = ns;
        self.trials_left = left;
        if left > 0 {
            return;
        }
        self.trial.sort_unstable();
        let (other, ns) = (self.other(), self.trial[TRIALS / 2]);
        self.average[other as usize] = ns;
        if ns < self.average[self.best as usize] {
            self.best = other;
            self.until = self.every;
        } else {
            self.wait_longer();
        }
    }

    fn wait_longer(&mut self) {
        self.until = self.every;
        self.every = (2 * self.every).min(EVERY_MAX);
    }
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;

    /// Runs steps with the given durations. Returns how many of them each way ran.
    fn run(choice: &mut Choice, steps: usize, ns: impl Fn(Way, usize) -> u64) -> [usize; 2] {
        let mut ran = [0; 2];
        for step in 0..steps {
            let way = choice.way();
            ran[way as usize] += 1;
            choice.learn(way, ns(way, step));
        }
        ran
    }

    #[test]
    fn the_faster_way_runs_almost_all_steps() {
        for (alone, shared) in [(100_000, 200_000), (200_000, 100_000)] {
            let mut choice = Choice::new();
            let [by_one, by_all] = run(&mut choice, 1000, |way, _| match way {
                Way::Alone => alone,
                Way::Shared => shared,
            });
            let slower = if alone < shared { by_all } else { by_one };
            assert!(slower < 30, "{slower} steps by the slower way");
        }
    }

    #[test]
    fn a_change_is_noticed() {
        let mut choice = Choice::new();
        let [_, by_all] = run(&mut choice, 4000, |way, step| match (way, step < 1000) {
            (Way::Alone, _) => 100_000,
            (Way::Shared, true) => 50_000,
            (Way::Shared, false) => 150_000,
        });
        assert!((950..1100).contains(&by_all), "{by_all} steps were shared");
    }

    #[test]
    fn a_short_step_is_never_shared() {
        let [_, by_all] = run(&mut Choice::new(), 1000, |_, _| WORTH_NS / 2);
        assert_eq!(by_all, 0);
    }

    #[test]
    fn disturbed_steps_do_not_change_the_way() {
        let mut choice = Choice::new();
        let [_, by_all] = run(&mut choice, 1000, |way, step| match way {
            Way::Alone if step % 10 == 7 => 5_000_000,
            Way::Alone => 100_000,
            Way::Shared => 200_000,
        });
        assert!(by_all < 100, "{by_all} steps were shared");
    }
}
