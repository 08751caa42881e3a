//! What the command line says about a run, as the workloads need it.

use std::path::PathBuf;
use std::time::Duration;

use crate::harness::Plan;
use crate::sweep::Values;

/// What else happens on the machine while a subject is measured.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Nothing that the bench started.
    #[default]
    Idle,
    /// A neighbour spins, pinned to the last usable PU.
    Busy,
    /// Four times as many workers as the budget allows.
    Oversubscribed,
}

impl Load {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Load::Idle => "idle",
            Load::Busy => "busy",
            Load::Oversubscribed => "oversubscribed",
        }
    }
}

/// How a run is done.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The workers of every subject that has workers.
    pub workers: usize,
    /// Shorter samples and fewer rounds: shows that all runs, not how fast.
    pub quick: bool,
    /// Rounds, where the user set them.
    pub runs: Option<usize>,
    /// Songs to render, in whole, instead of the carried ones.
    pub songs: Option<PathBuf>,
    /// A Python that has other traffic simulators.
    pub python: Option<PathBuf>,
    /// For `render`: settings that are crossed.
    pub matrix: Vec<Values>,
    /// For `loops article`: the number of items, where it is swept.
    pub items: Option<usize>,
    /// The same: steps of work an item.
    pub work: Option<usize>,
    /// A pause before each sample of `render`, for the processor to cool down.
    pub cool_down: Duration,
}

impl Setting {
    /// The rounds of a case: as the user said, else `usual`, or three when quick.
    pub fn rounds(&self, usual: usize) -> usize {
        self.runs
            .unwrap_or(if self.quick { usual.min(3) } else { usual })
    }

    /// A plan of so many milliseconds, a fifth of that when quick.
    pub fn plan(&self, warm_up_ms: u64, sample_ms: u64) -> Plan {
        let share = if self.quick { 5 } else { 1 };
        Plan {
            warm_up: Duration::from_millis(warm_up_ms) / share,
            sample: Duration::from_millis(sample_ms) / share,
            overhead: Duration::ZERO,
        }
    }
}

#[cfg(test)]
impl Setting {
    /// As a short run on two workers has it.
    pub fn of_tests() -> Self {
        Setting {
            workers: 2,
            quick: true,
            runs: Some(1),
            songs: None,
            python: None,
            matrix: Vec::new(),
            items: None,
            work: None,
            cool_down: Duration::ZERO,
        }
    }
}
