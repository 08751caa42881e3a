//! The settings of a run of the bench, such as the number of workers, in the form that the
//! workloads need.

use std::path::PathBuf;
use std::time::Duration;

use crate::harness::Plan;
use crate::sweep::Values;

/// A load that the bench puts on the machine while it measures.
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Start nothing else
    #[default]
    Idle,
    /// Run a thread that computes without pause on the last usable PU (hardware thread)
    Busy,
    /// Use four times as many workers as --jobs
    Oversubscribed,
}

impl Load {
    /// Returns the name of the load as on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Load::Idle => "idle",
            Load::Busy => "busy",
            Load::Oversubscribed => "oversubscribed",
        }
    }
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The number of workers of every subject that has workers.
    pub workers: usize,
    /// Whether samples are short and rounds few.
    pub quick: bool,
    /// The number of rounds, if the user has set it.
    pub runs: Option<usize>,
    /// The songs that `render` plays to their end, instead of the included ones.
    pub songs: Option<PathBuf>,
    /// A Python with other traffic simulators.
    pub python: Option<PathBuf>,
    /// The settings that `render` combines.
    pub matrix: Vec<Values>,
    /// The number of items of the case `article`, in a sweep over it.
    pub items: Option<usize>,
    /// The steps of work per item of the case `article`, in a sweep over it.
    pub work: Option<usize>,
    /// The pause before each sample of `render`, in which the processor cools down.
    pub cool_down: Duration,
}

impl Setting {
    /// Returns the number of rounds of a case. It is the number that the user has set. Otherwise it
    /// is `usual`, or at most three in a quick run.
    pub fn rounds(&self, usual: usize) -> usize {
        self.runs
            .unwrap_or(if self.quick { usual.min(3) } else { usual })
    }

    /// Returns a plan with these times in milliseconds. In a quick run, it has a fifth of them.
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
    /// Returns the settings of a short run with two workers.
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
