//! The builder of a pool. It holds the four settings (workers, placement, wait, balance) and a few
//! more, such as the name, the stack size and the clock. It checks them before it creates the pool.

use super::{Balance, Observe, Pool, Wait, pinning::Pinning, shared::Shared};
use crate::{
    time::Clock,
    worker::{hooks::Hooks, table::WORKERS_MAX},
};
use creel_topology::Placement;
use std::{error, fmt, io, sync::Arc};

/// The error of creating, resizing or observing a pool. Its message does not contain the error of
/// the operating system, which [`source`](error::Error::source) returns.
///
/// ```
/// use creel::{BuildError, Pool};
///
/// let error = Pool::builder().workers(0).build().unwrap_err();
/// assert!(matches!(error, BuildError::Workers { asked: 0, .. }));
/// let message = "cannot create a pool with 0 workers: use 1 to 16383";
/// assert_eq!(error.to_string(), message);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of workers is zero or higher than a pool can have.
    Workers {
        /// The number of workers that the program asked for.
        asked: usize,
        /// The maximum number of workers.
        max: usize,
    },
    /// The workers cannot be placed as requested.
    Placement(Arc<creel_topology::Error>),
    /// The requested stack size of a worker's thread is too small or too large.
    StackSize {
        /// The requested size in bytes.
        asked: usize,
        /// The minimum size in bytes.
        min: usize,
        /// The maximum size in bytes.
        max: usize,
    },
    /// The pool has ended. Therefore it is no longer possible to change the number of its workers,
    /// or to let other programs observe it.
    Ended,
    /// The system does not let other programs observe the pool.
    Observe(Arc<io::Error>),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Workers { asked, max } => {
                write!(
                    f,
                    "cannot create a pool with {asked} workers: use 1 to {max}"
                )
            }
            BuildError::Placement(error) => error.fmt(f),
            BuildError::StackSize { asked, min, max } => write!(
                f,
                "cannot use a stack_size of {asked} bytes: use {min} to {max}"
            ),
            BuildError::Ended => f.write_str("the pool has ended"),
            BuildError::Observe(_) => f.write_str("cannot let other programs observe the pool"),
        }
    }
}

impl error::Error for BuildError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            // The message is that of the inner error, so the cause is the inner error's cause.
            BuildError::Placement(error) => error.source(),
            BuildError::Observe(error) => Some(&**error),
            _ => None,
        }
    }
}

impl BuildError {
    pub(super) fn placement(error: creel_topology::Error) -> Self {
        BuildError::Placement(Arc::new(error))
    }
}

/// The limits of [`PoolBuilder::stack_size`], in bytes. Common systems give each thread at least
/// the lower limit. The upper limit is far above what a system gives. It exists because the
/// standard library's arithmetic with a larger number could overflow.
const STACK_MIN: usize = 16 << 10;
const STACK_MAX: usize = match usize::BITS {
    64 => (1_u64 << 40) as usize,
    _ => isize::MAX as usize,
};

/// A builder for a [`Pool`]. [`Pool::builder`] creates it.
///
/// Call a method for each setting that must differ from its default, and then
/// [`build`](Self::build). The four settings that matter most are [`workers`](Self::workers),
/// [`placement`](Self::placement), [`wait`](Self::wait) and [`balance`](Self::balance).
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
#[must_use = "a builder creates no pool until you call `.build()?`"]
pub struct PoolBuilder {
    pub(super) name: String,
    pub(super) workers: Option<usize>,
    placement: Option<Placement>,
    pub(super) stack_size: Option<usize>,
    pub(super) wait: Wait,
    pub(super) balance: Balance,
    pub(super) clock: Clock,
    observe: Observe,
    /// The seed of the deterministic mode. It is `None` for an ordinary pool.
    pub(super) seed: Option<u64>,
    pub(super) hooks: Hooks,
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
            hooks: Hooks::default(),
        }
    }

    /// Creates the builder of a deterministic pool, which has one worker and no thread.
    #[cfg(feature = "tasks")]
    pub(crate) fn seeded(seed: u64, clock: Clock) -> Self {
        let seed = Some(seed);
        Self {
            seed,
            ..Self::new().workers(1).clock(clock)
        }
    }

    /// Sets the pool's name, which is `creel` by default. The worker threads are named after it and
    /// their index, for example `creel-0` and `creel-1`. NUL characters are left out, because a
    /// thread's name cannot contain them.
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

    /// Sets the number of workers, from 1 to 16,383. The default is one per core that the process
    /// may use, or fewer if another limit of the process is lower, for example a CPU quota. A pool
    /// reads the affinity mask when it is built. If you build several pools within a second, Creel
    /// reads the other limits only once.
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

    /// Sets the CPUs that the workers run on. By default, a pool pins its workers according to
    /// [`Placement::Cores`] when it first divides a loop among them, or runs a session or a gang. A
    /// pool that never does so does not pin them.
    ///
    /// Two pools of one process use different cores as long as there are enough.
    ///
    /// On systems without affinity masks, for example macOS, the workers stay unpinned. See
    /// [`WorkerStats::pinned`](crate::WorkerStats::pinned).
    ///
    /// ```
    /// use creel::{Placement, Pool};
    ///
    /// let pool = Pool::builder().workers(2).placement(Placement::Unpinned).build()?;
    /// let sum = pool.sum(0..10, |n| n); // the system chooses the CPUs of these workers
    /// assert_eq!(sum, 45);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// Sets the stack size of each worker's thread, in bytes. The system may round it up. The
    /// default is that of the standard library, which is 2 MiB or the value of `RUST_MIN_STACK`.
    /// Set it for deep recursion in your closures, or for a very large number of workers.
    /// [`build`](Self::build) returns an error for less than 16 KiB or more than 1 TiB (2 GiB on
    /// 32-bit systems).
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

    /// Sets how the workers wait for work. The default is [`Wait::Adaptive`].
    ///
    /// ```
    /// use creel::{Pool, Wait};
    ///
    /// // For work that comes rarely. An idle pool burns no CPU time.
    /// let pool = Pool::builder().workers(2).wait(Wait::Park).build()?;
    /// assert_eq!(pool.map(0..3, |n| n * n), [0, 1, 4]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Sets how loops distribute their items among the workers. The default is [`Balance::Sticky`].
    ///
    /// ```
    /// use creel::{Balance, Pool};
    ///
    /// // For a few jobs of different lengths. A free worker takes the next one.
    /// let pool = Pool::builder().workers(2).balance(Balance::Shared).build()?;
    /// assert_eq!(pool.map(&["short", "longer"], |job| job.len()), [5, 6]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn balance(mut self, balance: Balance) -> Self {
        self.balance = balance;
        self
    }

    /// Sets the clock of the pool's timers. The default is the system's monotonic clock. In a test,
    /// you can pass a clock that the test advances.
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

    /// Sets what other programs may do with the pool, as [`Pool::observe`] does. The default is
    /// [`Observe::Off`].
    pub fn observe(mut self, what: Observe) -> Self {
        self.observe = what;
        self
    }

    /// Creates the pool. This starts no worker's thread, because such a thread starts when its
    /// worker gets its first work.
    ///
    /// # Errors
    /// Returns an error in these cases:
    ///
    /// - The number of workers or their stack size is out of range.
    /// - The workers cannot be placed as requested.
    /// - You asked for the pool to be observed, and this is not possible.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert_eq!(pool.workers(), 2);
    /// assert!(creel::Pool::builder().workers(1_000_000).build().is_err());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn build(mut self) -> Result<Pool, BuildError> {
        let pinning = Pinning::find(self.placement.take());
        let workers = self.workers.unwrap_or_else(|| pinning.default_workers());
        check_workers(workers)?;
        check_stack_size(self.stack_size)?;
        let pinned = pinning.pin_as_configured(workers);
        pinned.map_err(BuildError::placement)?;
        let observe = self.observe;
        let shared = Shared::new(self, workers, pinning);
        let pool = Pool::new_of(shared, Some(Arc::default()));
        pool.observe(observe)?;
        Ok(pool)
    }
}

/// Returns an error if a pool cannot have this number of workers.
pub(super) fn check_workers(asked: usize) -> Result<(), BuildError> {
    match asked {
        1..=WORKERS_MAX => Ok(()),
        _ => Err(BuildError::Workers {
            asked,
            max: WORKERS_MAX,
        }),
    }
}

/// Returns an error if a thread's stack cannot have this size.
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
