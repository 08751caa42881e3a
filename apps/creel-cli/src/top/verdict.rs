//! Answers the question of `creel top`: does a program have too many threads, too little CPU, or
//! something else to wait for?

use serde::Serialize;

/// A program whose threads run or wait for a CPU for less than this share of the time does nothing.
/// Its number of threads is then irrelevant.
const IDLE: f64 = 0.02;
/// The share of its runnable time that a program may wait for a CPU without a verdict.
const WAITING: f64 = 0.25;
/// The share of the periods of a quota that may be throttled without a verdict.
const THROTTLED: f64 = 0.1;

/// The reason why a program is not faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The program has more runnable threads than usable CPUs.
    MisSized,
    /// The CPU quota of the program stops it.
    Throttled,
    /// Other programs use the CPUs of the program.
    Starved,
    /// The program waits in the kernel, mostly for a disk.
    Blocked,
    /// The program does nothing.
    Idle,
    /// The threads of the program run almost whenever they are runnable.
    Running,
}

/// The figures that a verdict is based on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub seconds: f64,
    /// The mean number of threads that were running or waiting for a CPU.
    pub runnable: f64,
    /// The mean number of threads that the kernel had put into uninterruptible sleep.
    pub blocked: f64,
    pub ran_s: f64,
    pub waited_s: f64,
    /// The share of the periods in which the quota was used up.
    pub throttled: f64,
}

impl Figures {
    /// Returns the share of their runnable time that threads waited for a CPU.
    pub fn waiting(&self) -> f64 {
        self.waited_s / (self.waited_s + self.ran_s).max(1e-9)
    }

    pub fn verdict(&self, usable: usize) -> Verdict {
        let little = self.seconds * IDLE;
        let wanted = self.ran_s + self.waited_s;
        if self.throttled > THROTTLED {
            // The quota explains why threads are runnable and wait.
            return match self.runnable > usable as f64 * 1.25 {
                true => Verdict::MisSized,
                false => Verdict::Throttled,
            };
        }
        // A thread that waits all the time uses no CPU, but it is not idle.
        if wanted < little {
            match self.blocked >= 0.5 {
                true => Verdict::Blocked,
                false => Verdict::Idle,
            }
        } else if self.runnable > usable as f64 * 1.25 {
            Verdict::MisSized
        } else if self.waiting() > WAITING {
            Verdict::Starved
        } else if self.blocked >= 0.5 && self.blocked > self.runnable {
            Verdict::Blocked
        } else {
            Verdict::Running
        }
    }
}

impl Verdict {
    /// Returns the verdict in words. The text is short, because the display has one line for it.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::MisSized => "more threads than CPUs: try `creel run`",
            Verdict::Throttled => "the CPU quota stops the program",
            Verdict::Starved => "other programs use the same CPUs",
            Verdict::Blocked => "threads wait in the kernel, mostly for a disk",
            Verdict::Idle => "the program is idle",
            Verdict::Running => "the number of threads is not the bottleneck",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_for_a_cpu_is_starved_and_a_sleeping_one_is_idle() {
        let waits = Figures {
            seconds: 1.0,
            runnable: 1.0,
            ran_s: 0.01,
            waited_s: 0.99,
            ..Figures::default()
        };
        assert_eq!(waits.verdict(2), Verdict::Starved);
        let sleeps = Figures {
            waited_s: 0.001,
            runnable: 0.0,
            ..waits
        };
        assert_eq!(sleeps.verdict(2), Verdict::Idle);
        let reads = Figures {
            blocked: 1.0,
            ..sleeps
        };
        assert_eq!(reads.verdict(2), Verdict::Blocked);
    }

    #[test]
    fn quotas_and_too_many_threads_are_distinguished() {
        let throttled = Figures {
            seconds: 1.0,
            runnable: 1.0,
            ran_s: 0.5,
            waited_s: 0.5,
            throttled: 0.9,
            ..Figures::default()
        };
        assert_eq!(throttled.verdict(2), Verdict::Throttled);
        let crowd = Figures {
            runnable: 8.0,
            ..throttled
        };
        assert_eq!(crowd.verdict(2), Verdict::MisSized);
        let alone = Figures {
            throttled: 0.0,
            waited_s: 0.0,
            ..throttled
        };
        assert_eq!(alone.verdict(2), Verdict::Running);
    }
}
