//! The pool of the process, for those who have no pool of their own to hand round.

use super::{BuildError, Pool, PoolBuilder};
use std::{fmt, sync::OnceLock};

static GLOBAL: OnceLock<Pool> = OnceLock::new();

/// The pool of the process: made at its first use, with every knob at its default unless the
/// program has set it before ([`PoolBuilder::build_global`]). It is never dropped.
///
/// A library should rather take a `&Pool` from its caller, and this one only where it is given
/// none: whose pool it is, decides the program.
///
/// ```
/// let squares = creel::global().map(0..4, |n| n * n);
/// assert_eq!(squares, [0, 1, 4, 9]);
/// ```
pub fn global() -> &'static Pool {
    GLOBAL.get_or_init(Pool::new)
}

/// Why the process's pool could not be set.
///
/// ```
/// use creel::{GlobalError, Pool};
///
/// let workers = creel::global().workers(); // used: made
/// let late = Pool::builder().workers(workers + 1).build_global();
/// assert_eq!(late.unwrap_err(), GlobalError::Exists);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GlobalError {
    /// It has been made before: by another setting of it, or by its first use.
    Exists,
    /// It could not be made.
    Build(BuildError),
}

impl fmt::Display for GlobalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GlobalError::Exists => f.write_str(
                "the process has its global pool already: set it before it is first used, and once",
            ),
            GlobalError::Build(_) => f.write_str("the global pool cannot be made"),
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
    /// Makes the pool that [`global`] gives, and gives it. For a program's `main`, before anybody
    /// uses it.
    ///
    /// # Errors
    /// If there is one already, set or used; or as [`build`](Self::build). Nothing is changed then.
    ///
    /// ```
    /// use creel::{GlobalError, Pool, Wait};
    ///
    /// let pool = Pool::builder().workers(2).wait(Wait::Park).build_global()?;
    /// assert_eq!(creel::global().workers(), pool.workers());
    /// assert_eq!(Pool::builder().build_global().unwrap_err(), GlobalError::Exists);
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
