//! The global pool, for programs that do not want to pass a pool from function to function.

use super::{BuildError, Pool, PoolBuilder};
use std::{fmt, sync::OnceLock};

static GLOBAL: OnceLock<Pool> = OnceLock::new();

/// Returns the global pool of the process. The first call creates it with the default settings,
/// unless the program has created it with [`PoolBuilder::build_global`] before. It is never
/// dropped.
///
/// If you write a library, prefer a `&Pool` from your caller, because the program should decide
/// which pool runs its work. Use the global pool only if the caller does not pass one.
///
/// ```
/// let squares = creel::global().map(0..4, |n| n * n);
/// assert_eq!(squares, [0, 1, 4, 9]);
/// ```
pub fn global() -> &'static Pool {
    GLOBAL.get_or_init(Pool::new)
}

/// The error of [`PoolBuilder::build_global`].
///
/// ```
/// use creel::{GlobalError, Pool};
///
/// let workers = creel::global().workers(); // this creates it
/// let late = Pool::builder().workers(workers + 1).build_global();
/// assert!(matches!(late, Err(GlobalError::Exists)));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum GlobalError {
    /// The global pool exists already, because it was set or used before.
    Exists,
    /// The pool could not be created.
    Build(BuildError),
}

impl fmt::Display for GlobalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GlobalError::Exists => f.write_str(
                "the process already has its global pool: set the pool once, and before its first use",
            ),
            GlobalError::Build(_) => f.write_str("cannot create the global pool"),
        }
    }
}

impl std::error::Error for GlobalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            GlobalError::Exists => None,
            GlobalError::Build(error) => Some(error),
        }
    }
}

impl PoolBuilder {
    /// Creates the pool that [`global`] returns, and returns it. Call it in your program's `main`,
    /// before the global pool is used.
    ///
    /// # Errors
    /// Returns an error if the global pool exists already, because it was set or used before. Also
    /// returns an error if [`build`](Self::build) returns an error. The global pool is unchanged in
    /// both cases.
    ///
    /// ```
    /// use creel::{GlobalError, Pool, Wait};
    ///
    /// let pool = Pool::builder().workers(2).wait(Wait::Park).build_global()?;
    /// assert_eq!(creel::global().workers(), pool.workers());
    /// assert!(matches!(Pool::builder().build_global(), Err(GlobalError::Exists)));
    /// # Ok::<(), GlobalError>(())
    /// ```
    pub fn build_global(self) -> Result<&'static Pool, GlobalError> {
        let pool = self.build().map_err(GlobalError::Build)?;
        let mut own = Some(pool);
        let global = GLOBAL.get_or_init(|| own.take().unwrap_or_default());
        match own {
            None => Ok(global),
            Some(_) => Err(GlobalError::Exists),
        }
    }
}
