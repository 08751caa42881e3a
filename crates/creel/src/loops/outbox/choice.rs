//! Decides whether one thread or several threads use an outbox.
//!
//! Several threads have to store all messages in buckets and to fetch them from the caches of other
//! cores. If the senders do little, this costs more than several threads save, in particular if
//! another program uses one of the CPUs. Therefore an outbox measures *steps*. A step is a loop
//! over the senders together with the delivery. The outbox uses the faster of the two *ways* (one
//! thread or several), and tries the slower one again from time to time. It begins with several
//! threads, because the first step may be long, or may be the only one.
//!
//! Both ways deliver the same messages in the same order, so this never changes a result.

/// A trial runs this number of steps in the way (one thread or several) that is not in use. We take
/// the median of their durations, because the first step allocates or finds cold caches, and a
/// thread may be preempted in another step.
const TRIALS: usize = 3;
/// `FIRST_TRIAL` is the number of steps before the first trial. The distance to the next trial is
/// at least `EVERY_MIN` steps. This minimum doubles with each trial that was in vain, up to
/// `EVERY_MAX`. If the other way took `n` times as long, the distance is also at least `n` times
/// `TRIALS * EVERY_MIN` steps.
const FIRST_TRIAL: u32 = 2;
const EVERY_MIN: u32 = 16;
const EVERY_MAX: u32 = 512;
/// While one thread needs less than this time for a step, in ns, we do not try several threads.
const WORTH_NS: u64 = 10_000;
/// If a step on one thread could take longer than this time, in ns, we do not try one thread. We
/// estimate the duration of such a step as the duration of a step on several threads times the
/// number of threads.
const TRY_NS: u64 = 5_000_000;

/// The threads that run a step.
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
    /// The average duration of a step in each way (one thread, several threads), in ns, or 0 if it
    /// is unknown.
    average: [u64; 2],
    /// The durations of the steps in the trial that is under way, in ns.
    trial: [u64; TRIALS],
    /// The number of steps that this trial still needs.
    trials_left: usize,
    /// The number of steps until the next trial.
    until: u32,
    /// The smallest number of steps between the next trial and the one after it.
    every: u32,
    /// The way that a test forces.
    #[cfg(test)]
    pub(super) forced: Option<Way>,
}

impl Choice {
    pub(super) fn new() -> Self {
        Self {
            best: Way::Shared,
            average: [0; 2],
            trial: [0; TRIALS],
            trials_left: 0,
            until: FIRST_TRIAL,
            every: EVERY_MIN,
            #[cfg(test)]
            forced: None,
        }
    }

    /// Returns the way in which the next step runs: on one thread or on several.
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

    /// Learns the duration of a step that was run in this way. If several threads ran it, `threads`
    /// is their number.
    pub(super) fn learn(&mut self, way: Way, ns: u64, threads: usize) {
        if way != self.best {
            self.learn_trial(ns);
            return;
        }
        let average = &mut self.average[way as usize];
        // A single step that was disturbed, for example by a preemption, must not change the
        // average much.
        *average = match *average {
            0 => ns,
            average if ns < average => u64::midpoint(average, ns),
            average => average + (ns.min(4 * average) - average) / 8,
        };
        let (average, other) = (*average, self.average[self.other() as usize]);
        if other > 0 && average > other + other / 8 {
            // The trial after which we chose this way was misleading, or the steps have changed.
            self.best = self.other();
            self.wait_longer(average / other);
            return;
        }
        self.until = self.until.saturating_sub(1);
        if self.until == 0 && self.trials_left == 0 {
            let worth_it = match way {
                Way::Alone => average >= WORTH_NS,
                Way::Shared => average.saturating_mul(threads as u64) <= TRY_NS,
            };
            match worth_it {
                true => self.trials_left = TRIALS,
                false => self.until = self.every,
            }
        }
    }

    fn learn_trial(&mut self, ns: u64) {
        // A loop may have run in the other way although no trial was under way, for example because
        // its pool is not sticky. We do not learn from it.
        let Some(left) = self.trials_left.checked_sub(1) else {
            return;
        };
        let (other, best_ns) = (self.other(), self.average[self.best as usize].max(1));
        self.trial[left] = ns;
        self.trials_left = left;
        if left > 0 {
            return;
        }
        self.trial.sort_unstable();
        let ns = self.trial[TRIALS / 2];
        self.average[other as usize] = ns;
        if ns < best_ns {
            self.best = other;
            self.until = self.every;
        } else {
            self.wait_longer(ns / best_ns);
        }
    }

    /// Waits longer until the next trial. The last one was in vain, because a step took `times`
    /// times as long as in the best way.
    fn wait_longer(&mut self, times: u64) {
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        self.until = self
            .every
            .max(times.saturating_mul(TRIALS as u32 * EVERY_MIN));
        self.every = (2 * self.every).min(EVERY_MAX);
    }
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;

    const THREADS: usize = 2;

    /// Simulates steps with the given durations. Returns how many of them ran in each way.
    fn run(choice: &mut Choice, steps: usize, ns: impl Fn(Way, usize) -> u64) -> [usize; 2] {
        let mut ran = [0; 2];
        for step in 0..steps {
            let way = choice.way();
            ran[way as usize] += 1;
            choice.learn(way, ns(way, step), THREADS);
        }
        ran
    }

    #[test]
    fn almost_all_steps_use_the_faster_number_of_threads() {
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
    fn an_outbox_changes_to_one_thread_when_that_becomes_faster() {
        let mut choice = Choice::new();
        let [_, by_all] = run(&mut choice, 4000, |way, step| match (way, step < 1000) {
            (Way::Alone, _) => 100_000,
            (Way::Shared, true) => 50_000,
            (Way::Shared, false) => 150_000,
        });
        assert!((950..1100).contains(&by_all), "{by_all} steps were shared");
    }

    #[test]
    fn short_steps_use_several_threads_only_before_the_first_trial() {
        let [_, by_all] = run(&mut Choice::new(), 1000, |way, _| match way {
            Way::Alone => WORTH_NS / 2,
            Way::Shared => WORTH_NS,
        });
        assert_eq!(by_all, FIRST_TRIAL as usize);
    }

    #[test]
    fn long_steps_always_use_several_threads() {
        let [by_one, _] = run(&mut Choice::new(), 1000, |_, _| TRY_NS);
        assert_eq!(by_one, 0);
    }

    #[test]
    fn single_slow_steps_do_not_change_the_number_of_threads() {
        let mut choice = Choice::new();
        let [_, by_all] = run(&mut choice, 1000, |way, step| match way {
            Way::Alone if step % 10 == 7 => 5_000_000,
            Way::Alone => 100_000,
            Way::Shared => 200_000,
        });
        assert!(by_all < 100, "{by_all} steps were shared");
    }
}
