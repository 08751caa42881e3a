//! The four knobs, set before a pool is made.

use super::{Balance, Pool, Wait, shared::Shared, table::WORKERS_MAX};
use crate::{loops::LoopsByBalance, time::Clock};
use std::{fmt, sync::Arc};

/// Why a pool could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// Zero workers were asked for, or more than a pool can have.
    Workers {
        /// The number asked for.
        asked: usize,
        /// The most that a pool can have.
        max: usize,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Workers { asked, max } => {
                write!(f, "a pool has 1 to {max} workers, not {asked}")
            }
        }
    }
}

impl std::error::Error for BuildError {}

/// Sets the knobs of a [`Pool`] and makes it. Made by [`Pool::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    pub(super) name: String,
    workers: Option<usize>,
    pub(super) wait: Wait,
    pub(super) balance: Balance,
    pub(super) clock: Clock,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            name: "creel".into(),
            workers: None,
            wait: Wait::default(),
            balance: Balance::default(),
            clock: Clock::default(),
        }
    }

    /// The pool's name, which its threads carry with their index: `creel-0`, `creel-1` …
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many workers: 1 to 16,383. By default as many as the process has usable cores.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// How the workers wait. By default [`Wait::Adaptive`].
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// How the items of loops are shared out. By default [`Balance::Sticky`].
    pub fn balance(mut self, balance: Balance) -> Self {
        self.balance = balance;
        self
    }

    /// The clock that its timers go by. By default the system's monotonic one; a test gives
    /// one that it drives.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Makes the pool. Starts no thread: a worker's starts with its first work.
    ///
    /// # Errors
    /// If the number of workers is out of range.
    pub fn build(self) -> Result<Pool, BuildError> {
        let workers = self.workers.unwrap_or(1);
        check_workers(workers)?;
        let shared = Arc::new(Shared::new(self, workers));
        let loops = LoopsByBalance::new(&shared);
        Ok(Pool { shared, loops })
    }
}

/// Refuses a number of workers that no pool can have.
pub(super) fn check_workers(asked: usize) -> Result<(), BuildError> {
    match asked {
        1..=WORKERS_MAX => Ok(()),
        _ => Err(BuildError::Workers {
            asked,
            max: WORKERS_MAX,
        }),
    }
}
