//! The four knobs, set before a pool is made.

use super::{Balance, Observe, Pool, Wait, pinning::SharedJob, shared::Shared};
use crate::{time::Clock, worker::table::WORKERS_MAX};
use creel_topology::Placement;
use std::{fmt, sync::Arc};

/// Why a pool could not be made.
///
/// ```
/// use creel::{BuildError, Pool};
///
/// let error = Pool::builder().workers(0).build().unwrap_err();
/// assert!(matches!(error, BuildError::Workers { asked: 0, .. }));
/// assert_eq!(error.to_string(), "a pool has 1 to 16383 workers, not 0");
/// ```
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
    /// The placement cannot be had.
    Placement {
        /// Why not.
        reason: String,
    },
    /// The stack of a worker's thread would be too small or too large.
    StackSize {
        /// The number of bytes asked for.
        asked: usize,
        /// The fewest bytes that a worker can have.
        min: usize,
        /// The most bytes that a worker can have.
        max: usize,
    },
    /// The pool has been dropped: a [handle](crate::Pool::handle) asked for another number of workers.
    Ended,
    /// The pool cannot be made visible from outside.
    Observe {
        /// Why not.
        reason: String,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Workers { asked, max } => {
                write!(f, "a pool has 1 to {max} workers, not {asked}")
            }
            BuildError::Placement { reason } => f.write_str(reason),
            BuildError::StackSize { asked, min, max } => write!(
                f,
                "the stack_size of a worker is {min} to {max} bytes, not {asked}"
            ),
            BuildError::Ended => f.write_str("the pool has ended"),
            BuildError::Observe { reason } => write!(f, "the pool cannot be observed: {reason}"),
        }
    }
}

impl std::error::Error for BuildError {}

impl From<creel_topology::Error> for BuildError {
    fn from(error: creel_topology::Error) -> Self {
        let reason = error.to_string();
        BuildError::Placement { reason }
    }
}

/// The limits of [`PoolBuilder::stack_size`], in bytes. The lower one is the least that the common
/// systems give a thread. The upper one is far beyond what a system gives, and keeps the standard
/// library from computing with a number that overflows.
const STACK_MIN: usize = 16 << 10;
const STACK_MAX: usize = match usize::BITS {
    64 => (1_u64 << 40) as usize,
    _ => isize::MAX as usize,
};

/// Sets the knobs of a [`Pool`] and makes it. Made by [`Pool::builder`].
///
/// ```
/// use creel::{Balance, Placement, Pool, Wait};
///
/// let pool = Pool::builder()
///     .workers(2)
///     .placement(Placement::Cores)
///     .wait(Wait::Adaptive)
///     .balance(Balance::Sticky)
///     .build()?;
/// assert_eq!(pool.workers(), 2);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes no pool until `.build()?`"]
pub struct PoolBuilder {
    pub(super) name: String,
    pub(super) workers: Option<usize>,
    placement: Option<Placement>,
    pub(super) stack_size: Option<usize>,
    pub(super) wait: Wait,
    pub(super) balance: Balance,
    pub(super) clock: Clock,
    observe: Observe,
    /// Of the deterministic mode.
    pub(super) seed: Option<u64>,
}

impl PoolBuilder {
    pub(super) fn new() -> Self {
        Self {
            name: "creel".into(),
            workers: None,
            placement: None,
            stack_size: None,
            wait: Wait::default(),
            balance: Balance::default(),
            clock: Clock::default(),
            observe: Observe::default(),
            seed: None,
        }
    }

    /// One worker without a thread.
    #[cfg(feature = "tasks")]
    pub(crate) fn seeded(seed: u64, clock: Clock) -> Self {
        let seed = Some(seed);
        Self {
            seed,
            ..Self::new().workers(1).clock(clock)
        }
    }

    /// The pool's name, which its threads carry with their index: `creel-0`, `creel-1` … without
    /// its NULs, which no thread's name can have. By default `creel`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(1).name("audio").build()?;
    /// let name = pool.run_on(0, || std::thread::current().name().map(String::from)).unwrap();
    /// assert_eq!(name.as_deref(), Some("audio-0"));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many workers: 1 to 16,383. By default as many as the process has usable cores.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(3).build()?;
    /// assert_eq!(pool.workers(), 3);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Where the workers sit. By default a pool that runs loops pins its workers by
    /// [`Placement::Cores`] from its first loop on, and others are not pinned.
    ///
    /// Two pools of one process are pinned on different cores as long as there are any.
    ///
    /// ```
    /// use creel::{Placement, Pool};
    ///
    /// let pool = Pool::builder().workers(2).placement(Placement::Unpinned).build()?;
    /// let sum = pool.sum(0..10, |n| n); // these workers go where the system puts them
    /// assert_eq!(sum, 45);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// How many bytes of stack each worker's thread has. By default as many as the standard library
    /// gives a thread (2 MiB, or what `RUST_MIN_STACK` says); the system may round up. For deep
    /// recursion in the closures, or for very many workers. [`build`](Self::build) returns an error
    /// for less than 16 KiB or more than 1 TiB (2 GiB on 32-bit systems).
    ///
    /// ```
    /// fn depth(n: usize) -> usize {
    ///     let frame = std::hint::black_box([n as u8; 1024]);
    ///     if n == 0 { 0 } else { depth(n - 1) + usize::from(frame[0] == n as u8) }
    /// }
    /// let pool = creel::Pool::builder().workers(1).stack_size(64 << 20).build()?;
    /// assert_eq!(pool.run_on(0, || depth(10_000)).unwrap(), 10_000);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// How the workers wait. By default [`Wait::Adaptive`].
    ///
    /// ```
    /// use creel::{Pool, Wait};
    ///
    /// // For what is called rarely: no CPU is burnt between.
    /// let pool = Pool::builder().workers(2).wait(Wait::Park).build()?;
    /// assert_eq!(pool.map(0..3, |n| n * n), [0, 1, 4]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// How the items of loops are shared out. By default [`Balance::Sticky`].
    ///
    /// ```
    /// use creel::{Balance, Pool};
    ///
    /// // For few jobs of unlike length: who is free takes the next.
    /// let pool = Pool::builder().workers(2).balance(Balance::Shared).build()?;
    /// assert_eq!(pool.map(&["short", "longer"], |job| job.len()), [5, 6]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn balance(mut self, balance: Balance) -> Self {
        self.balance = balance;
        self
    }

    /// The clock that its timers go by. By default the system's monotonic one; a test gives
    /// one that it drives.
    ///
    /// ```
    /// use creel::{Pool, time::{Clock, sleep}};
    /// use std::time::Duration;
    ///
    /// let clock = Clock::manual();
    /// let pool = Pool::builder().workers(1).clock(clock.clone()).build()?;
    /// let hour = pool.spawn(sleep(Duration::from_secs(3600)));
    /// while !hour.is_finished() {
    ///     clock.advance(Duration::from_secs(60)); // an hour in no time
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[cfg(feature = "tasks")]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// What others may do with the pool from outside of the program, [`Pool::observe`]. By default
    /// nothing.
    pub fn observe(mut self, what: Observe) -> Self {
        self.observe = what;
        self
    }

    /// Makes the pool. Starts no thread: a worker's starts with its first work.
    ///
    /// # Errors
    /// If the number of workers or the size of their stacks is out of range, the placement cannot be
    /// had, or the pool is to be observed and cannot be.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert_eq!(pool.workers(), 2);
    /// assert!(creel::Pool::builder().workers(1_000_000).build().is_err());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn build(mut self) -> Result<Pool, BuildError> {
        let shared_job = SharedJob::find(self.placement.take());
        let workers = self.workers.unwrap_or(shared_job.workers);
        check_workers(workers)?;
        check_stack_size(self.stack_size)?;
        shared_job.pinning.pin_as_configured(workers)?;
        let observe = self.observe;
        let shared = Shared::new(self, workers, shared_job);
        let pool = Pool::new_of(shared, Some(Arc::default()));
        pool.observe(observe)?;
        Ok(pool)
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

/// Refuses a size that no thread's stack can have.
fn check_stack_size(asked: Option<usize>) -> Result<(), BuildError> {
    match asked {
        Some(asked) if !(STACK_MIN..=STACK_MAX).contains(&asked) => Err(BuildError::StackSize {
            asked,
            min: STACK_MIN,
            max: STACK_MAX,
        }),
        _ => Ok(()),
    }
}
